# Everything a newcomer or CI runs. `make up` is the first command of the README.
VENV   ?= .venv
PYTHON ?= python3.11
BIN    := $(VENV)/bin
SEEDS  ?= 10000
READY  := $(VENV)/.ready
# Tests keep to one thread a process: two processes with spinning barriers on two cores are several times slower.
QUIET  := OMP_NUM_THREADS=1
WORKERS ?= 2
GPU_PYTHON ?= $(BIN)/python
# Files stay together: their services are shared.
PYTEST := $(QUIET) $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile

.PHONY: up test test-full check fmt sim bench peers interop browser gpu clean

up: $(READY) ## the whole service: one verifier, two drafters, one front door
	$(BIN)/orchestrator up --drafters 2

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade-strategy only-if-needed -c constraints.txt torch
	$(BIN)/pip install --quiet -c constraints.txt -e '.[dev]'
	touch $@

$(VENV)/.full: $(READY)
	$(BIN)/pip install --quiet -c constraints.txt -e '.[dev,nixl]'
	touch $@

test: $(READY) ## what must pass before a commit
	$(PYTEST) -m "not full and not gpu and not browser"

test-full: $(VENV)/.full ## everything, run before an issue is closed
	$(PYTEST) -m "not gpu and not browser"

gpu: ## what only a GPU can tell, with the python that has its torch: make gpu GPU_PYTHON=python3
	$(GPU_PYTHON) -m tests.gpu

check: $(READY) ## style, types, directions of imports
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/bandit -q -ll -c pyproject.toml -r protocol engine kvtransfer verifier drafter orchestrator

fmt: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

sim: $(READY) ## 10,000 simulated histories of a faulty cluster; in CI: make sim SEEDS=1000
	$(QUIET) $(BIN)/python -m tests.sim --seeds $(SEEDS)

bench: $(READY) ## the figures of docs/benchmarks.md, with short settings
	$(BIN)/python -m tests.bench

interop: $(READY) ## programs that others wrote against a running service, each in an environment of its own
	$(BIN)/python -m tests.interop

browser: $(READY) ## the dashboard in a headless Chromium, which the system must have (Debian: apt-get install chromium)
	$(PYTEST) -m browser

peers: $(READY) ## other systems to compare with, each in an environment of its own in the cache folder
	$(BIN)/orchestrator bench peers

clean:
	rm -rf $(VENV)
