.ONESHELL:
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

EDITABLE := -e '.[demo,testing]' -e plugins/source_basebackup -e 'plugins/sink_clickhouse[chdb]'
STAMP := $(VENV)/.stamp

.PHONY: venv demo test test-all bench bench-check lint clean

venv: $(STAMP)

$(STAMP): pyproject.toml plugins/source_basebackup/pyproject.toml plugins/sink_clickhouse/pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet 'pip>=25.1' uv
	$(BIN)/uv pip install --quiet --python $(BIN)/python $(EDITABLE) --group dev
	touch $(STAMP)
