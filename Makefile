# make demo    four policies on a local cluster, compared with their twin and the theory (about two minutes)
# make test    the tests: on all cores, except those of the cluster itself, which need the machine for themselves
# make check   the fast check while you work: linters, types, and the tests that find most faults (under a minute)
# CONTRIBUTING.md explains the others. All set up what they need in .venv; they need python3 (3.11 or newer), make and a
# package registry.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

FUZZ_SECONDS ?= 120
NOT_PROCESSES := not cluster and not package
CHECKED := tests/dispatchers tests/servers tests/testbed/core tests/testbed/scenario tests/testbed/runtime

.PHONY: demo test check test-long fuzz lint package docs site benchmarks clean

demo: $(VENV)/ready
	$(BIN)/testbed run quickstart --twin

test: $(VENV)/ready-dev
	$(BIN)/python -m pytest --numprocesses auto -m "$(NOT_PROCESSES) and not long"
	$(BIN)/python -m pytest -m "cluster and not long" tests/testbed/cluster
	$(BIN)/python -m pytest --numprocesses 2 --dist loadfile -m "cluster and not long" --ignore tests/testbed/cluster

check: lint
	$(BIN)/python -m pytest --numprocesses auto -m "$(NOT_PROCESSES) and not long" $(CHECKED)

# Tests that repeat a proof of make test under slower conditions; CONTRIBUTING.md lists them.
test-long: $(VENV)/ready-dev
	$(BIN)/python -m pytest -m long

# Property-based tests with seeds that differ each time.
fuzz: $(VENV)/ready-dev
	$(BIN)/python tests/fuzz.py $(FUZZ_SECONDS)

# The wheel and the sdist, each in an empty environment.
package: $(VENV)/ready-dev
	$(BIN)/python -m pytest -m package tests/test_package.py

lint: $(VENV)/ready-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict testbed dispatchers servers deploy/grafana
	$(BIN)/lint-imports

# Every command of the README and of the guides.
docs: $(VENV)/ready-dev
	$(BIN)/python tests/run_documented_commands.py

# The guides as a documentation site with search, in build/site: open build/site/index.html.
site: $(VENV)/ready-dev
	$(PIP_INSTALL) -e '.[site]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --config-file deploy/site/mkdocs.yml

benchmarks: $(VENV)/ready-dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt -e '.[benchmarks]'
	$(BIN)/python tests/benchmarks/cluster_speed.py
	$(BIN)/python tests/benchmarks/twin_speed.py
	$(BIN)/python tests/benchmarks/cost_per_job.py
	$(BIN)/python tests/benchmarks/scrape.py
	$(BIN)/python tests/benchmarks/page.py
	$(BIN)/python tests/benchmarks/sweep_speed.py
	$(BIN)/python tests/benchmarks/exact_trace.py
	$(BIN)/python tests/benchmarks/long_running_memory.py

$(VENV)/made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "needs Python 3.11 or newer; name one with: make PYTHON=python3.12 ..."; exit 1; }
	$(PYTHON) -m venv $(VENV)
	touch $@

$(VENV)/ready: pyproject.toml constraints.txt | $(VENV)/made
	$(PIP_INSTALL) -e .
	touch $@

$(VENV)/ready-dev: pyproject.toml constraints.txt | $(VENV)/made
	$(PIP_INSTALL) -e '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
