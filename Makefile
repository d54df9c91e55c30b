# `make` alone lists the targets. The first target that needs it makes the environment; a new lock makes it again.
PYTHON ?= python3
BIN := .venv/bin
MADE := .venv/made
CLUSTER := .venv/cluster
export PATH := $(CURDIR)/$(BIN):$(PATH)
export PYTHONPATH := src

.DEFAULT_GOAL := help
.PHONY: help repro attention counting report play plan ui server sync compare seeds push experiments cluster clean-checkpoints bench chaos check test

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo 'An experiment (dvc exp run) stays in the checkout; return to the last commit:'
	@echo '  git checkout HEAD params.yaml dvc.lock reports && dvc checkout'

repro: $(MADE) ## run the pipeline on the text that params.yaml names and print the scores
	@python -m bukva check
	@dvc repro
	@python -m bukva scores reports/scores.json

attention: $(MADE) ## study the attention of the trained GPT; figures in reports/attention
	@python -m bukva attention reports/attention

counting: $(MADE) ## show which characters the trained GPT predicts by counting, which by learning; in reports/counting
	@python -m bukva counting reports/counting

report: $(MADE) ## write reports/index.html about the last run, and experiments.html about all; each is one file
	@python -m bukva report reports/index.html

play: $(MADE) ## write with the trained models on a page of this machine, two of them side by side
	@python -m bukva play

plan: $(MADE) ## convert a time budget (BUDGET=10min) into training steps; WRITE=1 writes them to params.yaml
	@python -m bukva plan $(if $(filter 1,$(WRITE)),--write) -- '$(BUDGET)'

ui: $(MADE) ## start MLflow on this machine and print the address of the page that compares the losses
	@python -m bukva.stage.completion
	@python -m bukva.tracking serve

server: $(MADE) ## start MLflow on PostgreSQL on this machine, as a team runs it (docs/sharing.md)
	@python -m bukva.tracking server

sync: $(MADE) ## complete MLflow from the journals; safe to repeat
	@python -m bukva.stage.completion
	@python -m bukva.tracking sync

compare: $(MADE) ## is B better than A, and how sure is that: make compare A=HEAD B=experiment (SPLIT=val spares test)
	@python -m bukva compare $(if $(SPLIT),--split $(SPLIT)) -- $(A) $(B)

seeds: $(MADE) ## queue the missing seeds of the present configuration: make seeds N=5
	@python -m bukva seeds -- '$(N)'

push: $(MADE) ## send all results to DVC's remote, so that another clone restores them instead of training
	@python -m bukva push

experiments: $(MADE) ## the leaderboard: all experiments by val, verdicts against BASELINE (HEAD); TEST=1 shows test scores
	@python -m bukva experiments $(if $(BASELINE),--baseline $(BASELINE)) $(if $(filter 1,$(TEST)),--test)

cluster: $(CLUSTER) ## install what python -m bukva.cluster needs for search and for several machines

clean-checkpoints: ## remove all checkpoints; interrupted trainings start from the beginning
	@rm -rf .bukva/checkpoints

bench: $(MADE) ## measure speed beside a plain implementation (an hour); some rows only: make bench ONLY="clean tokenize"
	@python -m bench $(ONLY)

scale: $(MADE) ## time and memory of the stages of the text, by its length: make scale CORPUS=data/sample MB="40 400 4000"
	@PYTHONPATH=src python -m bench.scale --corpus $(CORPUS) $(MB)

chaos: $(MADE) ## break the pipeline and count what survives (an hour); some rows only: make chaos ONLY="dvc full-disk"
	@python -m chaos $(if $(filter 1,$(WRITE)),--write) $(ONLY)

check: $(CLUSTER) ## run formatting, lint, types and the fast tests (2 min)
	ruff format --check .
	ruff check .
	mypy
	pytest -m "not slow" -n 2 --dist loadfile

test: $(CLUSTER) ## run check and the slow tests, which run DVC, train and kill (14 min)
	ruff format --check .
	ruff check .
	mypy
	pytest -n 2 --dist loadfile --no-loadscope-reorder tests/chaos tests/dvc tests/tracking tests/config tests # slow first

$(MADE): requirements.lock numerics.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "bukva needs Python 3.11 or newer; this is " + sys.version.split()[0])'
	@echo "Making .venv (some 2 GB of packages, once) ..."
	@$(PYTHON) -m venv --clear .venv
	@$(BIN)/pip install -qq --disable-pip-version-check -r requirements.lock
	@touch $@

$(CLUSTER): cluster.lock $(MADE)
	@$(BIN)/pip install -qq --disable-pip-version-check -r cluster.lock
	@touch $@
