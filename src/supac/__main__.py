"""The command line: what `supac` and `python -m supac` call."""

import sys

from supac.early_signals import listen


def main() -> None:
    """Run the command line, which listens to signals before it imports anything else."""
    listen(sys.argv[1:])
    from supac.cli import app  # noqa: PLC0415 - takes a while

    app(prog_name="supac")


if __name__ == "__main__":
    main()
