# `make help` lists the targets.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
SITE   := .environments/site
PORT   ?= 8774
DATA   ?= .demo

# Container images set it. Without cached bytecode every start of covey or of a client compiles all modules.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo docs tables programs test test-quick soak soak-lab conformance conformance-clustering conformance-compute conformance-nova bench attack lint types layers check lock format clean

help:  ## Show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-23s %s\n", $$1, $$2}'

$(BIN)/uv:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements/uv.txt

$(VENV)/.demo: requirements/demo.txt pyproject.toml | $(BIN)/uv
	$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes -r requirements/demo.txt
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --editable .
	@touch $@

$(VENV)/.dev: requirements/dev.txt $(VENV)/.demo
	$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes -r requirements/dev.txt
	@touch $@

setup: $(VENV)/.dev  ## Prepare .venv with everything that development needs

demo: $(VENV)/.demo  ## Run Covey on SQLite with the demo fleet (PORT=8774 DATA=.demo)
	$(BIN)/covey demo --port $(PORT) --data-dir $(DATA)

# A test process for each core, and two more in `make test`, whose tests of real processes often wait. Properties run
# three tenths of their examples there, and all in `make soak`.
SOAK  ?= 1
PYTEST = $(BIN)/pytest --numprocesses=$(or $(WORKERS),auto) --durations=20
# A test of real processes that a busy machine fails is tried again, and its failure is shown. Storms are not.
AGAIN  = --reruns=1 --rerun-show-tracebacks --rerun-exclude-path=tests/unit --rerun-exclude-path=tests/property
QUICK := tests/unit tests/property $(patsubst %,tests/functional/test_%.py,smoke servers server_groups hosts flavors)

programs: setup  ## Install Chromium, RabbitMQ, curl and libvirt for the tests that need them, where that is allowed
	@$(BIN)/python -m tests.programs

test: WORKERS ?= $(shell $(PYTHON) -c 'import os; print(os.cpu_count() + 2)')
test: programs  ## Run the suite, on SQLite and on a PostgreSQL that it starts itself (WORKERS=N)
	EXAMPLES=0.3 $(PYTEST) $(AGAIN)

test-quick: setup  ## For the edit loop: unit tests, properties in short, a part of the API on SQLite
	EXAMPLES=0.05 $(PYTEST) -k "not postgresql" $(QUICK)

soak: setup  ## Run storms, kills and schemathesis against real processes, and properties in full (SOAK=0.3 runs three tenths)
	SOAK=$(SOAK) $(BIN)/pytest --durations=20 -m soak tests/acceptance
	EXAMPLES=$(SOAK) $(PYTEST) tests/property

soak-lab: programs  ## Kill agents, workers, services and libvirtd under load, on real hypervisors; not a part of check
	SOAK=$(SOAK) $(BIN)/pytest --durations=20 -m soak tests/lab

conformance: setup  ## Run Placement's own suites against Covey, on both databases (CONFORMANCE="--help")
	$(BIN)/python -m tests.conformance $(CONFORMANCE)

conformance-clustering: setup  ## Run Senlin's own API tests beside a real Keystone; not a part of check
	$(BIN)/python -m tests.conformance.clustering $(CONFORMANCE)

conformance-compute: setup  ## Run Tempest's compute API tests beside a real Keystone, on both databases; not a part of check
	$(BIN)/python -m tests.conformance.compute $(CONFORMANCE)

conformance-nova: programs  ## Run a real Nova on Covey's Placement API, and check group policies through it; not a part of check
	$(BIN)/python -m tests.conformance.nova $(CONFORMANCE)

bench: setup  ## Measure decisions, Nova and Placement beside them, and boots over HTTP (BENCH="--help")
	$(BIN)/python -m tests.bench $(BENCH)

attack: setup  ## Measure boots of honest clients beside each attack of a hostile one (ATTACK="--help")
	$(BIN)/python -m tests.bench.attacks $(ATTACK)

lint: setup  ## ruff: format and rules
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: setup  ## mypy --strict
	$(BIN)/mypy

layers: setup  ## Check the import contracts
	$(BIN)/lint-imports

check: lint types layers test soak conformance  ## All checks; CI runs them with SOAK=0.3

$(SITE)/installed: requirements/docs.txt | $(BIN)/uv
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(SITE)
	$(BIN)/uv pip install --quiet --python $(SITE)/bin/python --no-deps --require-hashes -r requirements/docs.txt
	@touch $@

docs: $(VENV)/.demo $(SITE)/installed  ## Build the documentation into site/; a broken link is an error
	$(SITE)/bin/sphinx-build --quiet --fail-on-warning --keep-going --fresh-env --builder html docs site
	$(BIN)/python -m docs.openapi site/reference/openapi.json

tables: setup  ## Generate the tables of the reference from the code
	$(BIN)/python -m docs.tables

format: setup  ## Let ruff rewrite what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

PIN := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
  --no-annotate --no-header --upgrade

lock: $(BIN)/uv  ## Update every pinned dependency and its hashes
	$(PIN) --extra client --extra solver pyproject.toml -o requirements/demo.txt
	$(PIN) --extra all --group dev -c requirements/demo.txt pyproject.toml -o requirements/dev.txt
	$(PIN) requirements/libvirt.in -o requirements/libvirt.txt
	$(PIN) requirements/docs.in -o requirements/docs.txt
	$(PIN) requirements/clustering-client.in -o requirements/clustering-client.txt
	$(PIN) tests/conformance/requirements.in -o tests/conformance/requirements.txt
	$(PIN) tests/conformance/clustering/requirements.in -o tests/conformance/clustering/requirements.txt
	$(PIN) tests/conformance/compute/requirements.in -o tests/conformance/compute/requirements.txt
	$(PIN) tests/conformance/nova/requirements.in -o tests/conformance/nova/requirements.txt

clean:  ## Remove what the other targets created
	rm -rf $(VENV) .demo site .conformance .environments .bench .mypy_cache .ruff_cache .pytest_cache .coverage .import_linter_cache
