# `make demo` and `make test` do everything; VENV= puts the environment elsewhere, PYTHON= chooses the interpreter.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
PYTEST := $(BIN)/python -m pytest --numprocesses auto

.DEFAULT_GOAL := help
.PHONY: help demo test test-all check format docs bench clean

help:
	@echo "make demo      install, and run the main job on a bundled text"
	@echo "make test      install, and run the tests (under three minutes)"
	@echo "make test-all  the long drills too"
	@echo "make check     formatting, lint, types, layers, architecture"
	@echo "make docs      build the documents into site/"
	@echo "make bench     measure what benchmarks/ measures"

demo: $(VENV)/.installed-core
	@$(BIN)/python examples/demo.py

test: $(VENV)/.installed-test
	$(PYTEST) -m "not long"

test-all: $(VENV)/.installed-test
	$(PYTEST)

check: $(VENV)/.installed-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -q tests/architecture

format: $(VENV)/.installed-dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(VENV)/.installed-docs
	$(BIN)/zensical build --clean --strict

bench: $(VENV)/.installed-test
	$(BIN)/python benchmarks/load.py --shape small

clean:
	rm -rf $(VENV) site dist

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed-core: $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) --editable .
	@touch $@

$(VENV)/.installed-%: $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) --editable ".[$*]"
	@touch $@
