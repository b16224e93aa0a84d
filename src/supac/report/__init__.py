"""Reports: a run as one HTML page for readers who did not make it."""

from supac.report.account import Account, account_of
from supac.report.check import Check, Level
from supac.report.page import make_page, write_report
from supac.report.verdict import Verdict, assess

__all__ = [
    "Account", "Check", "Level", "Verdict", "account_of", "assess", "make_page",
    "write_report",
]  # fmt: skip
