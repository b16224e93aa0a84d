"""`python -m supac`: the command line where its script is not on the path."""

from supac.cli import app

if __name__ == "__main__":
    app(prog_name="supac")
