# Everything a fresh machine needs is Python 3.11 and make.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: help setup search test lint style types imports torture bench clean

help:  ## what can be made
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

setup: $(READY)  ## create .venv and install the project with everything it needs

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch $(READY)

search: setup  ## a real search on the embedded problem, its tunings repeated: the answer, and the page to look at
	$(BIN)/tune-mtl search multidigits --strategies sus,io

lint: setup  ## ruff, mypy --strict and the import contract
	@$(MAKE) --no-print-directory -j 2 style types imports

style:
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types:
	$(BIN)/mypy

imports:
	$(BIN)/lint-imports

# Three processes on two cores: a fifth of the time goes by with waiting, for Ray, for MLflow, for what was killed.
test: lint  ## lint, then every test
	$(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder

torture: setup  ## the figures of docs/reliability.md: faults of all kinds at random moments, for about an hour
	$(BIN)/python -m tests.faults.torture --faults 39 --out runs/torture.md

bench: setup  ## the figures of docs/benchmarks.md
	$(BIN)/python benchmarks/step_overhead.py
	$(BIN)/python benchmarks/search_overhead.py
	$(BIN)/python benchmarks/search_efficiency.py
	PYTHONPATH=. $(BIN)/python benchmarks/regret.py
	PYTHONPATH=. $(BIN)/python benchmarks/data_loading.py
	PYTHONPATH=. $(BIN)/python benchmarks/best_of_many.py

clean:  ## remove the environment and caches (never ./runs)
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis *.egg-info
