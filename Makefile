# `make` alone lists the targets. The first target that needs it makes the environment; a new lock makes it again.
SHELL := bash
.SHELLFLAGS := -o pipefail -c
PYTHON ?= python3
BIN := .venv/bin
MADE := .venv/made
BUKVA := $(BIN)/bukva
CLUSTER := .venv/cluster
export PATH := $(CURDIR)/$(BIN):$(PATH)

.DEFAULT_GOAL := help
.PHONY: help repro attention counting report ui cluster bench reference chaos check test nightly

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo 'Other commands, after . .venv/bin/activate: bukva --help'
	@echo 'An experiment (dvc exp run) stays in the checkout; return to the baseline: dvc exp apply baseline'

repro: $(BUKVA) ## run the pipeline on the text that params.yaml names, print the scores, save them as experiment baseline
	@bukva check
	@dvc repro
	@bukva scores
	@bukva baseline

attention: $(BUKVA) ## study the attention of the trained GPT; charts in reports/attention
	@bukva attention

counting: $(BUKVA) ## show which characters a trained GPT with n-grams predicts by counting; in reports/counting
	@bukva counting

report: $(BUKVA) ## write reports/index.html about the last run, and experiments.html about all; each is one file
	@bukva report

ui: $(BUKVA) ## experiments, reports, playground and MLflow on pages of this machine; prints their one address
	@bukva ui

cluster: $(CLUSTER) ## install what bukva sweep needs: Ray and Optuna

bench: $(BUKVA) ## measure speed beside plain code at a clean commit (40 min); only print: make bench ONLY="race counting"
	@python -m bench $(ONLY)

reference: $(BUKVA) ## record in docs/reference what README's experiments give here (10 min); some only: make reference ONLY=heads
	@python -m bench.reference $(ONLY)

chaos: $(BUKVA) ## break the pipeline and count what survives (an hour); some rows only: make chaos ONLY="dvc full-disk"
	@python -m chaos $(if $(filter 1,$(WRITE)),--write) $(ONLY)

check: $(CLUSTER) ## run formatting, lint, types and the fast tests (1 min)
	ruff format --check .
	ruff check .
	mypy
	pytest -m "not slow and not nightly" -n 2 --dist loadfile

test: $(CLUSTER) ## run check and the slow tests, which run DVC, train and kill (6 min)
	ruff format --check .
	ruff check .
	mypy
	pytest -m "not nightly" -n 2 --dist loadfile --no-loadscope-reorder tests/dvc tests/bench tests/tracking tests/experiments tests # slow first

nightly: $(CLUSTER) ## run what takes longer: many values, browsers, recipes, and make chaos (an hour or more)
	pytest -m nightly
	python -m chaos

$(MADE): requirements.lock numerics.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "bukva needs Python 3.11 or newer; this is " + sys.version.split()[0])'
	@echo "Making .venv: some 2 GB of packages, once, which takes some minutes ..."
	@$(PYTHON) -m venv --clear .venv
	@$(BIN)/pip install --disable-pip-version-check --progress-bar off -r requirements.lock | grep --line-buffered -E ' MB\)|^Installing' | cut -c 1-100
	@touch $@

$(BUKVA): pyproject.toml $(MADE)
	@$(BIN)/pip install -qq --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

$(CLUSTER): cluster.lock $(BUKVA)
	@$(BIN)/pip install -qq --disable-pip-version-check -r cluster.lock
	@touch $@
