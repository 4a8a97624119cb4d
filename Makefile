# Everything a newcomer or a CI machine types. Needs Python >= 3.11 and nothing else.
PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3 python; do \
	$$p -c 'import sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
FUZZ_SECONDS ?= 600
DOCS_STAMP := $(VENV)/.installed-docs

.PHONY: install demo test check lint types docs docs-test fuzz benchmark clean

install: $(STAMP)

$(STAMP): pyproject.toml
	@test -n "$(PYTHON)" || { echo "schirn needs Python 3.11 or newer on the PATH" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[dev]"
	@touch $(STAMP)

demo: $(STAMP)
	$(BIN)/schirn demo

test: $(STAMP)
	$(BIN)/python -m pytest

check: lint types docs-test test

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

docs-test: $(STAMP)
	$(BIN)/python -m pytest --doctest-modules src/schirn
	$(BIN)/python -m pytest --doctest-glob='*.md' README.md docs

$(DOCS_STAMP): $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[docs]"
	@touch $(DOCS_STAMP)

# The site, in docs/_build/html. Runs every example of the gallery; a warning is an error.
docs: $(DOCS_STAMP)
	$(BIN)/python -m sphinx -W --keep-going -q docs docs/_build/html

fuzz: $(STAMP)
	$(BIN)/python tests/fuzz --seconds $(FUZZ_SECONDS)

benchmark: $(STAMP)
	$(BIN)/python -m benchmarks.speed

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis docs/_build docs/gallery docs/api/generated
