"""placeholder"""


def write_report(folder, records):
    pass
