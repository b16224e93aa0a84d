# Every target makes its own environment: Python 3.11+ and make are all that is needed.
PYTHON ?= python3
BIN := .venv/bin
export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: demo test test-fast lint docs package screenshots bench bench-startup bench-adm1 bench-cuda bench-queries bench-throughput bench-scale bench-certificates bench-bounds bench-families bench-fmus bench-petab bench-observation bench-projection bench-peers bench-outside bench-outside-best bench-verdict bench-valleys bench-correlated bench-discrepancy bench-series bench-ablation bench-scales bench-stopping bench-studies bench-dimension bench-dimension-best bench-jacobians bench-levels poisson-chain poisson-study meta-learning digesters reproduce clean

demo: .venv/ready
	$(BIN)/supac demo --out demo --force

# All tests; ARGS="-n 0" runs them in this process. How many processes there are otherwise, which
# tests share one, and which ones are slow, is said in tests/conftest.py.
PYTEST := $(BIN)/pytest --numprocesses auto
test: .venv/ready
	$(PYTEST) $(ARGS)

# After each edit: all but the slow ones, in a minute or so. Those it names may have become slow.
test-fast: .venv/ready
	$(PYTEST) -m "not slow" --durations 5 --durations-min 2 $(ARGS)

lint: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The site, in docs/_build/html. A warning, such as a link that leads nowhere, is an error.
docs: .venv/ready
	$(BIN)/sphinx-build --fail-on-warning --keep-going --quiet --fresh-env --doctree-dir docs/_build/doctrees \
	  --conf-dir docs . docs/_build/html
	@echo "docs/_build/html/index.html"

# The sdist and the wheel, each installed and used in an empty environment.
package: .venv/ready
	.ci/package

# The pictures in docs/images, taken anew; needs Chromium.
screenshots: .venv/ready
	PYTHONPATH=tests $(BIN)/python docs/screenshots.py $(ARGS)

bench: .venv/ready
	$(BIN)/python benchmarks/overhead.py $(ARGS)

bench-startup: .venv/ready
	$(BIN)/python benchmarks/startup.py $(ARGS)

bench-adm1: .venv/ready
	$(BIN)/python benchmarks/adm1.py $(ARGS)

# Needs a GPU and the extra cuda.
bench-cuda: .venv/ready
	$(BIN)/python benchmarks/gpu.py $(ARGS)

bench-queries: .venv/ready
	$(BIN)/python benchmarks/queries.py $(ARGS)

bench-throughput: .venv/ready
	$(BIN)/python benchmarks/throughput.py $(ARGS)

bench-scale: .venv/ready
	$(BIN)/python benchmarks/scale.py $(ARGS)

bench-certificates: .venv/ready
	$(BIN)/python benchmarks/certificates.py $(ARGS)
	$(BIN)/python benchmarks/certificate_bets.py $(ARGS)
	$(BIN)/python benchmarks/certificate_half_prior.py
	$(BIN)/python benchmarks/certificate_jacobians.py

bench-bounds: .venv/ready
	$(BIN)/python benchmarks/bounds.py $(ARGS)

bench-families: .venv/ready
	$(BIN)/python benchmarks/families.py $(ARGS)

bench-fmus: .venv/ready
	$(BIN)/python benchmarks/fmus.py $(ARGS)

bench-petab: .venv/ready
	$(BIN)/python benchmarks/petab_collection.py $(ARGS)

bench-observation: .venv/ready
	$(BIN)/python benchmarks/observation.py $(ARGS)

bench-projection: .venv/ready
	$(BIN)/python benchmarks/projection.py

.PHONY: bench-shapes
bench-shapes: .venv/ready
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/shapes.py $(ARGS)

.PHONY: bench-coverage
bench-coverage: .venv/ready
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/range_coverage.py $(ARGS)

# Posteriors next to those of sbibm and posteriordb: docs/reference.md. sbibm brings but its data,
# which are read where it is installed: what it depends on is not needed.
.PHONY: bench-reference
bench-reference: .venv-reference/ready
	OMP_NUM_THREADS=1 .venv-reference/bin/python benchmarks/reference/run.py $(ARGS)

.PHONY: bench-predictions
bench-predictions: .venv/ready
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/predictions.py $(ARGS)

meta-learning: .venv/ready
	$(BIN)/python experiments/meta_learning/run.py $(ARGS)

digesters: .venv/ready
	$(BIN)/python experiments/meta_learning/digesters.py $(ARGS)

# Every experiment of the paper, with its claims; what is there is not run again.
reproduce: .venv/ready
	$(BIN)/python experiments/reproduction/reproduce.py $(ARGS)

# The peers bring much that nothing else here needs, so they have an environment of their own.
bench-peers: .venv-peers/ready
	OMP_NUM_THREADS=1 .venv-peers/bin/python benchmarks/peers.py $(ARGS)

bench-outside: .venv-peers/ready
	.venv-peers/bin/python benchmarks/outside/run.py $(ARGS)

# What rules and choices of the default search are worth there; these need no peers.
bench-ablation: .venv/ready
	$(BIN)/python benchmarks/outside/ablation.py $(ARGS)

# Wrong and right fits of oscillators, and which of them the verdict doubts: docs/report.md.
bench-verdict: .venv/ready
	$(BIN)/python benchmarks/verdict.py $(ARGS)

# Searches that end in the right valley, with a second beginning and without: docs/benchmarks.md.
bench-valleys: .venv/ready
	$(BIN)/python benchmarks/valleys.py $(ARGS)

# Ranges of parameters where errors are correlated: docs/problem-file.md.
bench-correlated: .venv/ready
	$(BIN)/python benchmarks/correlated.py $(ARGS)

bench-discrepancy: .venv/ready
	$(BIN)/python benchmarks/discrepancy.py $(ARGS)

# Rounds of a search whose likelihood has thousands of data: docs/wrong-model.md.
bench-series: .venv/ready
	$(BIN)/python benchmarks/series.py $(ARGS)

# Emulators of parameters with bounds, on the user's scale and on the latent one.
bench-scales: .venv/ready
	$(BIN)/python benchmarks/outside/scales.py $(ARGS)

bench-studies: .venv/ready
	$(BIN)/python benchmarks/outside/studies.py $(ARGS)

# What an early stop loses and saves.
bench-stopping: .venv/ready
	$(BIN)/python benchmarks/outside/stopping.py $(ARGS)

bench-outside-best: .venv-peers/ready
	.venv-peers/bin/python benchmarks/outside/best.py $(ARGS)

# A coarse model beside the fine one, and without: docs/levels.md. It needs no peers.
bench-levels: .venv/ready
	$(BIN)/python benchmarks/levels/run.py $(ARGS)

bench-dimension: .venv-peers/ready
	.venv-peers/bin/python benchmarks/dimension/run.py $(ARGS)

bench-dimension-best: .venv-peers/ready
	.venv-peers/bin/python benchmarks/dimension/best.py $(ARGS)

# What Jacobians save: docs/jacobians.md.
bench-jacobians: .venv/ready
	$(BIN)/python benchmarks/dimension/jacobians.py $(ARGS)

# A Markov chain on the Poisson benchmark, and the search beside it: docs/poisson.md.
poisson-chain: .venv/ready
	$(BIN)/python benchmarks/dimension/chain.py $(ARGS)

poisson-study: .venv/ready
	$(BIN)/python benchmarks/dimension/poisson_study.py $(ARGS)

# Numbers and pictures of the case studies: docs/case-*.md.
.PHONY: case-studies
case-studies: .venv-peers/ready
	.venv-peers/bin/python benchmarks/cases/run.py $(ARGS)

.venv-peers/ready: export PIP_CONSTRAINT := $(CURDIR)/constraints.txt $(CURDIR)/benchmarks/peers-constraints.txt
.venv-peers/ready: pyproject.toml constraints.txt benchmarks/peers-constraints.txt
	$(PYTHON) -m venv .venv-peers
	.venv-peers/bin/pip install --quiet pyvbmc DFO-LS iterative_ensemble_smoother cma pythonfmu3 \
	  --editable '.[adm1,fmi,petab,plot]'
	@touch $@

.venv-reference/ready: export PIP_CONSTRAINT := $(CURDIR)/constraints.txt $(CURDIR)/benchmarks/reference-constraints.txt
.venv-reference/ready: pyproject.toml constraints.txt benchmarks/reference-constraints.txt
	$(PYTHON) -m venv .venv-reference
	.venv-reference/bin/pip install --quiet pyvbmc gpry h5py DFO-LS scikit-learn --editable '.[plot]'
	.venv-reference/bin/pip install --quiet --no-deps sbibm
	@touch $@

# The environment is rebuilt when what it is made from changes. pip is in the foreground, since
# Ctrl-C would leave it at work in the background; the dots end with this shell, however that ends.
.venv/ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "supac needs Python 3.11 or newer; try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@echo "creating .venv: two minutes or so, longer on a slow machine or network, once"
	$(PYTHON) -m venv .venv
	@while kill -0 $$$$ 2>/dev/null; do printf .; sleep 3; done & dots=$$!; \
	trap 'kill $$dots 2>/dev/null' EXIT; trap 'exit 130' HUP INT TERM; \
	$(BIN)/pip install --quiet --editable '.[dev]'; status=$$?; echo; exit $$status
	@touch $@

clean:
	rm -rf .venv .venv-peers .venv-reference demo reproduction-quick docs/_build
