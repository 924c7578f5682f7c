# Everything from a fresh machine that has Python 3.11 or newer and make: no other tool is needed.

PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
PROJECTS := . plugins/source_basebackup plugins/sink_clickhouse examples/walshadow-sink-parquet
EDITABLE := -e '.[demo,testing]' -e plugins/source_basebackup -e 'plugins/sink_clickhouse[chdb]' \
	-e examples/walshadow-sink-parquet
PYTEST := $(BIN)/python -m pytest -n 2 --dist loadfile
# Tests of the codecs, which run once more as plain Python; and the fuzz tests, which run with bounds checked.
CODECS := tests/unit/pgformat tests/unit/decode
FUZZ := tests/fuzz

.PHONY: help venv demo test test-all lint format bench bench-check dist clean
.DEFAULT_GOAL := help

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "make %-12s %s\n", $$1, $$2}' Makefile

venv: $(VENV)/.installed ## make .venv with all packages in it, editable

demo: venv ## load a small shop from its own Postgres into its own ClickHouse
	@$(BIN)/walshadow demo

test: lint warm ## lint, then all tests but the slow ones
	$(call tests,)

test-all: lint warm ## as test, with the slow ones
	$(call tests,-m '')

define tests
	@echo "== tests" && $(PYTEST) --ignore=$(FUZZ) $(1)
	@echo "== codecs as plain Python" && NUMBA_DISABLE_JIT=1 $(PYTEST) -q $(1) $(CODECS)
	@echo "== fuzz, with bounds checked" && NUMBA_BOUNDSCHECK=1 $(PYTEST) -q $(1) $(FUZZ)
endef

lint: venv ## ruff, mypy --strict, and who may import whom
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy && $(BIN)/lint-imports

format: venv ## put the code in its usual form
	@$(BIN)/ruff check --fix . && $(BIN)/ruff format .

bench: $(VENV)/.bench ## time a load against its peers, write docs/benchmarks.md
	@$(BIN)/python tests/bench/run.py

bench-check: $(VENV)/.bench ## as bench, exit 1 below the bar
	@$(BIN)/python tests/bench/run.py --check

dist: venv ## build the wheels of all distributions into dist/
	@for p in $(PROJECTS); do \
		echo "wheel of $$p" && \
		if [ -x $(BIN)/uv ]; then $(BIN)/uv build --quiet --wheel --out-dir dist $$p || exit 1; \
		else $(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist ./$$p || exit 1; fi; \
	done

clean: ## remove what was built, and caches; .venv stays
	@rm -rf dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	@for p in $(PROJECTS); do rm -rf $$p/build; done
	@find . -name __pycache__ -type d -not -path './$(VENV)/*' -prune -exec rm -rf {} +

# Kernels are compiled once, before two test processes would both do it.
.PHONY: warm
warm: venv
	@$(BIN)/walshadow warmup

# uv is quick and not needed: where it can't be had, pip does the same.
$(VENV)/.installed: Makefile $(PROJECTS:%=%/pyproject.toml)
	@[ -n "$(PYTHON)" ] || { echo "error: no Python 3.11 or newer found; install one, or: make PYTHON=/path/to/python" >&2; exit 1; }
	@[ -x $(BIN)/python ] || { echo "making $(VENV)" && $(PYTHON) -m venv $(VENV); }
	@echo "installing the packages into $(VENV)"
	@$(BIN)/python -m pip install --quiet --root-user-action=ignore 'pip>=25.1'
	@$(BIN)/python -m pip install --quiet --root-user-action=ignore uv || true
	@if [ -x $(BIN)/uv ]; then $(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python $(EDITABLE) --group dev; \
		else $(BIN)/python -m pip install --quiet --root-user-action=ignore $(EDITABLE) --group dev; fi
	@touch $@

$(VENV)/.bench: $(VENV)/.installed
	@if [ -x $(BIN)/uv ]; then $(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python --group bench; \
		else $(BIN)/python -m pip install --quiet --root-user-action=ignore --group bench; fi
	@touch $@
