# Everything a newcomer or a contributor runs. Needs Python 3.11 to 3.13 and make; everything else is
# installed into .venv inside this folder, at pinned versions (requirements/). `make` alone lists the targets.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

# The first of these that runs and is a version we test on. Choose another with `make test PYTHON=python3.12`.
CANDIDATES := python3 python3.13 python3.12 python3.11
SUPPORTED := import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))
PYTHON ?= $(shell for p in $(CANDIDATES); do $$p -c '$(SUPPORTED)' 2>/dev/null && { echo $$p; break; }; done)

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
TESTS := $(BIN)/python -m pytest
BEAM_FACTS := $(addprefix tests/beam/test_,$(addsuffix .py,contract run_agent windows paying_once))
PRISM_VERSION := 2.77.0
PRISM := .parts/prism-$(PRISM_VERSION)/prism
UNIT := -m 'not services and not local_model and not phoenix'
ARGS :=
export PATH := $(CURDIR)/.parts/node_modules/.bin:$(PATH)

.PHONY: help
help:  ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /|/' | awk -F'|' '{printf "make %-14s %s\n", $$1, $$2}'

# --- the two commands -----------------------------------------------------------------------------

.PHONY: demo
demo: $(VENV)/installed-demo  ## set up, then watch real events go through a real model on this machine
	@$(BIN)/beam-agents demo $(ARGS)

.PHONY: test
test: $(VENV)/installed-test  ## set up, then run the unit tests (under 5 minutes)
	@$(TESTS) -q -n 2 --dist loadfile $(UNIT) $(ARGS)

# --- for contributors -----------------------------------------------------------------------------

.PHONY: test-all
test-all: test test-services chaos-short prism test-pythons  ## all tests; a missing part fails and says how to install it

.PHONY: test-services
test-services: $(VENV)/installed-all  ## the tests that need servers, other runtimes or the real local model
	@$(TESTS) -q -m 'services or local_model' --ignore tests/chaos --ignore tests/runners $(ARGS)

.PHONY: parts
parts:  ## install what test-all needs from other registries (apt-get when root, npm)
	@.ci/parts

.PHONY: test-pythons
test-pythons:  ## the unit tests on every supported Python that is on this machine
	@for p in python3.11 python3.12 python3.13; do \
	    $$p -c '$(SUPPORTED)' 2>/dev/null || { echo "$$p is not on this machine: not tested on it"; continue; }; \
	    echo "--- unit tests on $$p"; \
	    $(MAKE) --no-print-directory test VENV=.venv-$$p PYTHON=$$p; \
	done

.PHONY: prism
prism: $(VENV)/installed-test $(PRISM)  ## every transform on every runner, Prism included; prints the table (14 minutes at most)
	@timeout --kill-after=10 830 $(TESTS) -q -n 2 tests/runners $(ARGS)

.PHONY: beam-versions
beam-versions: $(VENV)/installed-test  ## what agents need of Beam, on the two newest versions
	@$(MAKE) --no-print-directory VENV=.venv-beam-2.76 .venv-beam-2.76/installed-beam-2.76
	@for venv in $(VENV) .venv-beam-2.76; do \
	    $$venv/bin/python -c 'import apache_beam; print("--- Beam", apache_beam.__version__)'; \
	    timeout --kill-after=10 240 $$venv/bin/python -m pytest -q $(BEAM_FACTS) $(ARGS) || exit 1; \
	done

.PHONY: lint
lint: $(VENV)/installed-test  ## ruff and mypy
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy

.PHONY: format
format: $(VENV)/installed-test  ## let ruff format and mend what it can
	@$(BIN)/ruff check --fix --quiet
	@$(BIN)/ruff format

.PHONY: coverage
coverage: $(VENV)/installed-test  ## the unit tests, with branch coverage
	@$(TESTS) -q $(UNIT) --cov --cov-report=term-missing:skip-covered $(ARGS)

.PHONY: chaos
chaos: $(VENV)/installed-all  ## kill workers, fail disks, restart servers, and audit every request (about 20 minutes)
	@$(BIN)/python -m tests.chaos $(ARGS)

.PHONY: chaos-short
chaos-short: $(VENV)/installed-all  ## the same, seeded and short (4 minutes)
	@$(TESTS) -q -m services tests/chaos $(ARGS)

.PHONY: bench
bench: $(VENV)/installed-bench  ## every benchmark beside its peers (6 minutes); results in .bench/
	@PRISM="$(wildcard $(PRISM))" $(BIN)/python -m benchmarks $(ARGS)

.PHONY: flink
flink: .venv-flink/installed  ## agents on a real Flink cluster, faults included (Python 3.11, Java 17, redis-server; half an hour)
	@.venv-flink/bin/python -m pytest -q tests/flink
	@.venv-flink/bin/python -m tests.flink.page
	@.venv-flink/bin/python -m tests.flink.proof --times 3 $(ARGS)

.PHONY: flink-short
flink-short: .venv-flink/installed  ## the same with three rows, once each (10 minutes)
	@.venv-flink/bin/python -m pytest -q tests/flink
	@.venv-flink/bin/python -m tests.flink.proof undisturbed worker task-manager-and-workers $(ARGS)

.PHONY: flink-latency
flink-latency: .venv-flink/installed  ## latency and cost of agents on Flink, beside PyFlink's own AsyncFunction (15 minutes)
	@.venv-flink/bin/python -m benchmarks.flink $(ARGS)

.venv-flink/installed: requirements/flink.txt
	@command -v python3.11 java redis-server > /dev/null || { \
	    echo "make flink needs python3.11, java (17) and redis-server;" >&2; \
	    echo "on Debian or Ubuntu: apt-get install python3.11-venv openjdk-17-jre-headless redis-server" >&2; exit 2; }
	@python3.11 -m venv .venv-flink
	@echo "Installing PyFlink into .venv-flink (0.9 GB, the first time takes minutes) ..."
	@.venv-flink/bin/pip install --quiet --disable-pip-version-check --requirement $<
	@touch $@

.PHONY: pins
pins:  ## compile requirements/*.txt again from pyproject.toml (needs uv)
	@requirements/compile

.PHONY: clean
clean:  ## remove the venvs and everything that tests and demo leave behind
	rm -rf .venv .venv-python3.* .venv-beam-* .venv-flink .demo .cache .bench .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage

# --- parts that are not from PyPI ---------------------------------------------------------------------

$(PRISM):
	@command -v go >/dev/null || { echo "Prism is built with Go: install it from https://go.dev/dl/" >&2; exit 2; }
	@echo "Building Prism $(PRISM_VERSION), Beam's portable runner (the first time takes minutes) ..."
	@GOBIN=$(abspath $(dir $@)) go install github.com/apache/beam/sdks/v2/go/cmd/prism@v$(PRISM_VERSION)

# --- the venv -------------------------------------------------------------------------------------

# One stamp for each set of requirements: make does nothing while it is newer than the files it depends on.
$(VENV)/installed-%: requirements/%.txt pyproject.toml | $(BIN)/python
	@echo "Installing $$(wc -l < $<) pinned packages of $< into $(VENV) (the first time takes minutes) ..."
	@$(PIP) install --requirement $<
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@
	@echo "Installed."

$(BIN)/python:
	@test -n "$(PYTHON)" || { \
	    echo "beam-agents needs Python 3.11, 3.12 or 3.13; none of $(CANDIDATES) is one." >&2; \
	    echo "Install one, or name it: make ... PYTHON=/path/to/python3.11" >&2; exit 2; }
	@echo "Creating $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(VENV) || { \
	    rm -rf $(VENV); \
	    echo "$(PYTHON) cannot create a venv. On Debian or Ubuntu: apt-get install python3-venv" >&2; exit 2; }
