"""Look for the best Gaussian posterior of each problem when derivatives cost nothing.

That of a linear problem is known. For the others, natural gradients from the prior's mean and from
the parameters that made the data; all are scored with the benchmark's own draws, on which nothing
is optimised.

    make bench-dimension-best                                          # all that are missing
    make bench-dimension-best ARGS="--problems lorenz96-200 --force"
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from dataclasses import asdict
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
sys.path.insert(0, str(Path(__file__).parents[1]))

import dimension.problems as p
from dimension.optimum import find_optimum


def main() -> None:
    """Search for the problems whose best is missing."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--problems", help="a,b,c; all of them by default")
    parser.add_argument("--force", action="store_true", help="repeat what is there already")
    options = parser.parse_args()
    for name in options.problems.split(",") if options.problems else p.MAKERS:
        if name in p.known() and not options.force:
            continue
        try:
            problem = p.problem(name)
        except FileNotFoundError as error:
            print(f"{name}: skipped, {error}", flush=True)
            continue
        start = time.process_time()
        best, posterior, how = find_optimum(problem)
        kl = posterior.kl(problem.prior)
        result = p.Known(problem.objective(problem.prior), best, round(kl, 2), how)
        kept = {key: asdict(each) for key, each in (p.known() | {name: result}).items()}
        p.BEST.write_text(json.dumps(kept, indent=1) + "\n")
        print(f"{name}: {result} ({time.process_time() - start:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
