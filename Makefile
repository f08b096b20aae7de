# Everything a contributor needs. `make demo` and `make test` are all a newcomer has to know.

VENV ?= .venv
PYTHON ?= python3
BIN := $(VENV)/bin
# Two pytest processes per core: the tests spend half of their time waiting for processes.
CORES := $(shell $(PYTHON) -c 'import os; print(os.cpu_count())')
JOBS ?= $(shell expr 2 \* $(CORES))
# The tests start hundreds of processes. Each of them would compile headrace anew without its bytecode.
export PYTHONDONTWRITEBYTECODE =
# Every test in here needs a server: to read them takes as long as half of the others.
NEED_SERVERS := tests/dialects tests/store/postgres tests/store/redis tests/worker
BEGAN := $(shell date +%s)
# Ends a recipe's last command: prints how long `make` took, whether it failed or not.
print-time = ; code=$$?; echo "make $@ took $$(($$(date +%s) - $(BEGAN))) s"; exit $$code

.PHONY: help demo test quick check django-sources matrix matrix-postgres soak bench bench-peers clean

help:  ## Show this help
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-15s %s\n", $$1, $$2}'

# headrace alone, which is all that the demo needs; then what the tests need: libraries, linters and servers.
$(VENV)/.headrace: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/.ready: $(VENV)/.headrace
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[redis,postgres,dev]'
	@touch $@

demo: $(VENV)/.headrace  ## A tour of headrace on an embedded SQLite file, with real worker processes
	@$(BIN)/headrace demo

test: check  ## Everything CI runs: linters, types, tests
	@$(BIN)/python -m pytest -n $(JOBS) $(print-time)

quick: $(VENV)/.ready  ## The tests that need no server, start no process and are not slow, with few random histories: a minute
	@HEADRACE_VOLUME=0.2 $(BIN)/python -m pytest -n $(CORES) -m "not server and not process and not slow" $(NEED_SERVERS:%=--ignore=%) $(print-time)

check: $(VENV)/.ready  ## Linters, types and layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	@$(BIN)/python tests/sizes.py

matrix: $(VENV)/.ready  ## The tests on each CPython that is installed, then matrix-postgres, and a table; TESTS=tests/app for these alone
	@PYTHONPATH=tests $(BIN)/python -m matrix pythons postgres --tests "$(TESTS)" --jobs $(JOBS) $(print-time)

matrix-postgres: $(VENV)/.ready  ## The tests of PostgreSQL on each version that is installed, and a table
	@PYTHONPATH=tests $(BIN)/python -m matrix postgres --tests "$(TESTS)" --jobs $(JOBS) $(print-time)

django-sources: $(VENV)/.ready  ## Django's source distribution (Django 6): the suite then runs its tests of tasks, too
	@version=$$($(BIN)/python -c 'import django; print(django.__version__)'); folder=$(VENV)/django-sources; \
	$(BIN)/python -m pip download --quiet --disable-pip-version-check --no-binary :all: --no-deps --dest $$folder django==$$version \
	&& tar -xzf $$folder/*$$version.tar.gz -C $$folder

soak: $(VENV)/.ready  ## The tests at many times the volume: takes hours
	HEADRACE_VOLUME=20 $(BIN)/python -m pytest -n $(JOBS)

bench: $(VENV)/.ready  ## Measure: value, bar, verdict
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[redis,postgres,dev,bench]'
	-$(BIN)/python -m bench.sqlite
	-$(BIN)/python -m bench.redis_store
	-$(BIN)/python -m bench.postgres --peers
	-$(BIN)/python -m bench.housekeeping
	-$(BIN)/python -m bench.metrics
	-$(BIN)/python -m bench.bedrock
	-PYTHONPATH=tests $(BIN)/python -m bench.qless
	-PYTHONPATH=tests $(BIN)/python -m bench.gearmonkey
	-PYTHONPATH=tests $(BIN)/python -m bench.workkit
	-PYTHONPATH=tests $(BIN)/python -m bench.hworker
	-$(BIN)/python -m bench.growth

bench-peers: $(VENV)/.ready  ## Measure headrace beside other job queues; QUICK=1 takes under ten minutes
	$(BIN)/python -m bench.peers $(if $(QUICK),--quick)

clean:  ## Remove what the other targets made
	rm -rf $(VENV) .venv-3.* .mypy_cache .ruff_cache .hypothesis
