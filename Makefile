# `make help` lists the targets. Each creates the environment when there is none, and renews it when pyproject.toml
# or constraints.txt have changed since.

SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

# Further arguments for pytest, for example: make test PYTEST_ARGS="-k law -x"
PYTEST_ARGS ?=

# The folder with the data sets that are not shipped (see CONTRIBUTING.md); tests that need it skip without it.
FAIRBOUND_DATA ?= $(wildcard ../shared/data)
ifneq ($(strip $(FAIRBOUND_DATA)),)
export FAIRBOUND_DATA := $(abspath $(FAIRBOUND_DATA))
else
unexport FAIRBOUND_DATA
endif

.DEFAULT_GOAL := help
.PHONY: help demo test test-slow test-engines test-min test-python check format docs notebooks package benchmark clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s  %s\n", $$1, $$2}'

# torch goes first and alone, so that nothing else decides which build of it is taken.
$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -c constraints.txt torch
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[all,dev]"
	touch $@

demo: $(STAMP)  ## all steps on the shipped Law data: a model without a limit and one with it, frontier, certificate, report
	$(BIN)/fairbound demo

test: $(STAMP)  ## run the tests and the examples in the docstrings, on all cores
	$(BIN)/python -m pytest --numprocesses auto --dist loadfile $(PYTEST_ARGS)

test-slow: $(STAMP)  ## run the tests marked slow
	$(BIN)/python -m pytest -m slow $(PYTEST_ARGS)

# The environment of `make test-engines`.  Slurm, and Java for Spark, come from apt, which needs root if they are absent.
VENV_ENGINES ?= .venv-engines

test-engines:  ## run the programs of docs/data.md with torchrun, Ray, Spark and Slurm
	which srun slurmd munged java > /dev/null || apt-get install --yes --quiet slurm-wlm munge default-jre-headless
	$(PYTHON) -m venv $(VENV_ENGINES)
	$(VENV_ENGINES)/bin/python -m pip install --quiet -c constraints.txt torch
	$(VENV_ENGINES)/bin/python -m pip install --quiet -c constraints.txt -e ".[cli,test]" pyspark==4.0.1 "ray[train]==2.60.0"
	CI=1 $(VENV_ENGINES)/bin/python -m pytest -m "slow or not slow" tests/test_engines.py $(PYTEST_ARGS)

# The environment of `make test-min`, and its torch: a requirement, with any further options of pip.
VENV_MIN ?= .venv-min
TORCH ?= $(shell grep '^torch==' constraints.txt)

test-min:  ## run the tests with the oldest versions that pyproject.toml allows
	$(PYTHON) -m venv $(VENV_MIN)
	$(VENV_MIN)/bin/python -m pip install --quiet -c constraints-min.txt $(TORCH)
	$(VENV_MIN)/bin/python -m pip install --quiet -c constraints-min.txt -e ".[all,test]"
	$(VENV_MIN)/bin/python -m pytest --numprocesses auto --dist loadfile $(PYTEST_ARGS)

# Another Python, for example: make test-python PYTHON=python3.13
VENV_OTHER ?= .venv-$(notdir $(PYTHON))

test-python:  ## run the fast tests with the Python of PYTHON
	$(PYTHON) -m venv $(VENV_OTHER)
	$(VENV_OTHER)/bin/python -m pip install --quiet -c constraints.txt -e ".[all,test]"
	$(VENV_OTHER)/bin/python -m pytest --numprocesses auto --dist loadfile $(PYTEST_ARGS)

check: $(STAMP)  ## check format, lint and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(STAMP)  ## format, and repair what the linter can repair
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(STAMP)  ## build the pages of docs/ into build/docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

notebooks: $(STAMP)  ## make the notebooks of docs/notebooks again, from the pages
	$(BIN)/python docs/make_notebooks.py

package:  ## build the source archive and the wheel, check them, and use the wheel in an empty environment without torch
	$(PYTHON) -m venv .venv-package
	.venv-package/bin/python -m pip install --quiet -c constraints.txt build twine
	rm -rf dist && .venv-package/bin/python -m build --quiet && .venv-package/bin/twine check --strict dist/*
	$(PYTHON) -m venv --clear .venv-package
	.venv-package/bin/python -m pip install --quiet -c constraints.txt "$$(ls dist/*.whl)[cli]"
	.venv-package/bin/python -c "import importlib.util as u; assert u.find_spec('torch') is None"
	.venv-package/bin/fairbound demo --out build/demo

benchmark: $(STAMP)  ## run the benchmarks
	@for script in benchmarks/*.py; do echo "== $$script"; $(BIN)/python "$$script" || exit 1; done

clean:  ## remove the environment, caches and builds
	rm -rf $(VENV) $(VENV_MIN) .venv-* build dist src/*.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find src tests examples benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
