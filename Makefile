# make alone lists what exists. The environment is made when a target first needs it, and again when the lock changes.
PYTHON ?= python3
BIN := .venv/bin
MADE := .venv/made
export PATH := $(CURDIR)/$(BIN):$(PATH)
export PYTHONPATH := src

.DEFAULT_GOAL := help
.PHONY: help repro plan ui sync experiments clean-checkpoints bench chaos check test

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

repro: $(MADE) ## run the pipeline on the text that params.yaml names, and print the scores
	@python -m bukva check
	@dvc repro
	@python -m bukva scores reports/metrics.json

plan: $(MADE) ## BUDGET=10min: measure this machine, propose the GPT to train in that time; WRITE=1 puts it into params.yaml
	@python -m bukva plan $(if $(filter 1,$(WRITE)),--write) -- '$(BUDGET)'

ui: $(MADE) ## open MLflow on the losses of both models (loopback only)
	@python -m bukva.tracking serve

sync: $(MADE) ## fill MLflow from the journals again; doubles nothing
	@python -m bukva.tracking sync

experiments: $(MADE) ## all experiments: what was changed, and the held-out scores
	@dvc exp show --only-changed --drop 'Created|nats_per_char$$|chars$$|^(floors|window|context|src|data|stages|reports|numerics)'

clean-checkpoints: ## forget where interrupted trainings stand; the next ones begin from the start
	@rm -rf .bukva/checkpoints

bench: $(MADE) ## measure beside the plain way, within fifteen minutes; a few rows: make bench ONLY="clean tokenize"
	@python -m bench $(ONLY)

chaos: $(MADE) ## kill and break the pipeline in every way we know, within twenty minutes; a few rows: make chaos ONLY="dvc full"
	@python -m chaos $(if $(filter 1,$(WRITE)),--write) $(ONLY)

check: $(MADE) ## formatting, lint, types and the fast tests, within a minute
	ruff format --check .
	ruff check .
	mypy
	pytest -m "not slow" -n 2 --dist loadfile

test: $(MADE) ## all that check does, and the tests that run DVC, train, and kill; within a quarter of an hour
	ruff format --check .
	ruff check .
	mypy
	pytest -n 2 --dist loadfile

$(MADE): requirements.lock numerics.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "bukva needs Python 3.11 or newer; this is " + sys.version.split()[0])'
	@echo "Making .venv (some 2 GB of packages, once) ..."
	@$(PYTHON) -m venv --clear .venv
	@$(BIN)/pip install -qq --disable-pip-version-check -r requirements.lock
	@touch $@
