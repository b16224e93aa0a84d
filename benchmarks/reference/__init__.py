"""Posteriors next to references that anybody can check: `make bench-reference`."""
