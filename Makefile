# Every target sets itself up: Python >= 3.11, make and a package index are all it needs.
#   make demo | test | lint | validate | validate-gpu | bench | format | docs
#   make PYTHON=python3.12 test     picks an interpreter; each version keeps its own environment.
PYTHON ?= python3
VERSION := $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')
VENV := .venv/$(VERSION)
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.PHONY: demo test lint format validate validate-gpu bench docs clean

demo: $(INSTALLED)
	$(BIN)/sino demo

test: $(INSTALLED)
	$(BIN)/python -m pytest -n auto

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python

format: $(INSTALLED)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

validate: $(INSTALLED)
	$(BIN)/python -m validation.one_dimensional
	$(BIN)/python -m validation.two_dimensional_reduced
	$(BIN)/python -m validation.networks
	$(BIN)/python -m validation.survival

validate-gpu: $(INSTALLED)
	$(BIN)/python -m validation.two_dimensional

bench: $(INSTALLED)
	$(BIN)/python -m bench.solvers
	$(BIN)/python -m bench.models
	$(BIN)/python -m bench.training
	$(BIN)/python -m bench.account
	$(BIN)/python -m bench.ratios
	$(BIN)/python -m bench.worth

# Rewrites the generated parts of the documentation, from the committed results and the commands, and builds the site.
docs: $(INSTALLED)
	$(BIN)/python -m validation.tables
	$(BIN)/python -m scripts.commands
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --site-dir site
	@echo "open site/index.html"

clean:
	rm -rf .venv demo site build dist

$(INSTALLED): pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "sino needs Python 3.11 or newer")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $(INSTALLED)
