# Every target makes its own environment: Python 3.11+ and make are all that is needed.
PYTHON ?= python3
BIN := .venv/bin
export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: demo test lint bench bench-adm1 clean

demo: .venv/ready
	$(BIN)/supac demo --out demo

test: .venv/ready
	$(BIN)/pytest $(ARGS)

lint: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: .venv/ready
	$(BIN)/python benchmarks/overhead.py $(ARGS)

bench-adm1: .venv/ready
	$(BIN)/python benchmarks/adm1.py $(ARGS)

# The environment is rebuilt when what it is made from changes.
.venv/ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "supac needs Python 3.11 or newer; try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --editable '.[dev]'
	@touch $@

clean:
	rm -rf .venv demo
