"""Make the numbers and pictures of the case studies: `make case-studies`.

    make case-studies                    # all of them, some ten minutes
    make case-studies ARGS="pumping"     # one

Each study does what its page says, file by file and command by command, in an empty folder. Then
other tools are given the same problem and as many runs, and the tables of the page are written.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

# One thread a process, before NumPy reads it, and this package, wherever the script is started.
os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
sys.path.insert(0, str(Path(__file__).parents[1]))

from cases import digester, pumping, room, signalling

STUDIES = {
    "digester": digester.study,
    "signalling": signalling.study,
    "room": room.study,
    "pumping": pumping.study,
}


def main() -> None:
    """Make the studies that are asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("studies", nargs="*", choices=[*STUDIES, []], help="by default all")
    parser.add_argument("--folder", type=Path, help="keep the files there")
    options = parser.parse_args()
    for name in options.studies or STUDIES:
        begun = time.perf_counter()
        with tempfile.TemporaryDirectory() as empty:
            folder = (options.folder or Path(empty)) / name
            folder.mkdir(parents=True)
            STUDIES[name](folder)
        print(f"{name}: {time.perf_counter() - begun:.0f} s", flush=True)


if __name__ == "__main__":
    main()
