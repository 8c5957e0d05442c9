# make demo   four policies on a local cluster, beside their twin and the theory (about two minutes)
# make test   the tests: on all cores, but for those of the cluster itself, which need the machine for themselves
# Both set up what they need in .venv; they need python3 (3.11 or newer), make and a package registry.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo test lint docs benchmarks clean

demo: $(VENV)/ready
	$(BIN)/testbed run quickstart --twin

test: $(VENV)/ready-dev
	$(BIN)/python -m pytest --numprocesses auto -m "not cluster"
	$(BIN)/python -m pytest -m cluster tests/testbed/cluster
	$(BIN)/python -m pytest --numprocesses 2 --dist loadfile -m cluster --ignore tests/testbed/cluster

lint: $(VENV)/ready-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict testbed dispatchers servers deploy/grafana

# Every command of the README and of the guides.
docs: $(VENV)/ready-dev
	$(BIN)/python tests/run_documented_commands.py

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
	rm -rf $(VENV) build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
