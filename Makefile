# `make` lists the targets. Targets that need .venv create it first, and create it again when a lock file changes.
SHELL := bash
.SHELLFLAGS := -o pipefail -c
PYTHON ?= python3
BIN := .venv/bin
MADE := .venv/made
BUKVA := $(BIN)/bukva
CLUSTER := .venv/cluster
MKDOCS := .venv/docs/bin/mkdocs
WALK := tests/nightly/test_readme.py
export PATH := $(CURDIR)/$(BIN):$(PATH)

.DEFAULT_GOAL := help
.PHONY: help repro report ui cluster docs bench reference chaos check test nightly

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo 'More commands, after . .venv/bin/activate: bukva --help'
	@echo 'An experiment (dvc exp run) changes the checkout. To return to the baseline: dvc exp apply baseline'

repro: $(BUKVA) ## run the pipeline, print the scores, and save the results as experiment baseline
	@bukva check
	@dvc repro
	@bukva scores
	@bukva baseline

report: $(BUKVA) ## write reports/index.html about the last run and reports/experiments.html about all experiments
	@bukva report

ui: $(BUKVA) ## serve experiments, reports, the playground and MLflow, and print the address
	@bukva ui

cluster: $(CLUSTER) ## install Ray and Optuna, which bukva sweep needs

docs: $(MKDOCS) ## build the documentation as a site in build/site; a broken link is an error
	@rm -rf build/docs && mkdir -p build/docs
	@git ls-files -z --cached --others --exclude-standard | tar cf - --null -T - | tar xf - -C build/docs
	@NO_MKDOCS_2_WARNING=1 $(MKDOCS) build --strict
	@echo "The documentation is in build/site/index.html."

bench: $(BUKVA) ## compare the speed with plain implementations (40 min); replace only some rows: make bench ONLY="race counting"
	@python -m bench $(ONLY)

reference: $(BUKVA) ## run README's experiments, write docs/reference (half an hour); only some: make reference ONLY=heads
	@python -m bench.reference $(ONLY)

chaos: $(BUKVA) ## inject faults and count how often the pipeline survives (30 min); only some rows: make chaos ONLY="dvc full-disk"
	@python -m chaos $(if $(filter 1,$(WRITE)),--write) $(ONLY)

check: $(CLUSTER) ## run formatting, lint, types and the fast tests (3 min)
	ruff format --check .
	ruff check .
	mypy
	pytest -m "not slow and not nightly" -n 2 --dist loadfile

test: $(CLUSTER) ## run check and the slow tests, which run DVC, train models and kill processes (10 min)
	ruff format --check .
	ruff check .
	mypy
	pytest -m "not nightly" -n 2 --dist loadfile --no-loadscope-reorder tests/dvc tests/bench tests/tracking tests/compare tests # slow first

nightly: $(CLUSTER) ## run the longest tests (parameter values, browsers, README) and make chaos (90 min)
	pytest -m nightly -n 2 --dist loadfile --no-loadscope-reorder --ignore=$(WALK) tests/nightly tests/core tests/dvc tests
	pytest -m nightly $(WALK) # alone, because its trainings use all cores
	@$(MAKE) --no-print-directory chaos

$(MADE): requirements.lock numerics.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "bukva needs Python 3.11 or newer; this is " + sys.version.split()[0])'
	@echo "Creating .venv and installing about 2 GB of packages. This takes a few minutes ..."
	@$(PYTHON) -m venv --clear .venv
	@$(BIN)/pip install --disable-pip-version-check --progress-bar off -r requirements.lock | grep --line-buffered -oE '.* MB\)|^Installing.{0,90}'
	@touch $@

$(BUKVA): pyproject.toml $(MADE)
	@$(BIN)/pip install -qq --disable-pip-version-check --no-deps --no-build-isolation -e .
	@$(BIN)/python -m bukva.report.page > .venv/vega.js # for the pages of dvc plots
	@touch $@

$(MKDOCS): docs.lock
	@$(PYTHON) -m venv --clear .venv/docs
	@.venv/docs/bin/pip install -qq --disable-pip-version-check -r docs.lock
	@touch $@

$(CLUSTER): cluster.lock $(BUKVA)
	@$(BIN)/pip install -qq --disable-pip-version-check -r cluster.lock
	@touch $@
