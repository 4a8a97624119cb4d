# All commands of contributors and CI. Requires only Python >= 3.11.
PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3 python; do \
	$$p -c 'import sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
FUZZ_SECONDS ?= 600
SOAK_SECONDS ?= 600
RELEASE := .venv-release
RELEASE_STAMP := $(RELEASE)/.installed
DOCS_STAMP := $(VENV)/.installed-docs
# One test process per core. The tests of a file share fixtures, hence stay in one process.
PARALLEL ?= -n logical --maxprocesses 8 --dist loadfile

# One interpreter per Python version from 3.11 on, found on the PATH and in pyenv.
PYTHONS = $(shell for p in python3.11 python3.12 python3.13 python3.14 python3.15 \
	$(HOME)/.pyenv/versions/*/bin/python; do \
	$$p -c 'import sys, venv; sys.version_info >= (3, 11) and print("%d.%d" % sys.version_info[:2], sys.executable)' \
	2>/dev/null; done | sort -V | awk '!seen[$$1]++ { print $$2 }')
WHEEL = $(shell ls -t dist/schirn-*.whl 2>/dev/null | head -n 1)

.PHONY: install demo test test-all check lint types docs docs-test site fuzz benchmark clean
.PHONY: test-oldest test-newest test-pythons api coverage mutants dist smoke soak audit lock

# Matrices in tests and examples are small: more threads would only slow them down.
test test-all docs-test docs fuzz soak test-oldest test-newest coverage mutants: export OMP_NUM_THREADS ?= 1

install: $(STAMP)

$(STAMP): pyproject.toml
	@test -n "$(PYTHON)" || { echo "schirn needs Python 3.11 or newer on the PATH" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[dev]"
	@touch $(STAMP)

demo: $(STAMP)
	$(BIN)/schirn demo

# PYTEST adds arguments: make test PYTEST="tests/linalg -x".
test: $(STAMP)
	$(BIN)/python -m pytest $(PARALLEL) -m "not slow" $(PYTEST)

test-all: $(STAMP)
	$(BIN)/python -m pytest $(PARALLEL) $(PYTEST)

# All that a change must pass, and all that CI runs.
check: lint types docs-test site test-all

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

docs-test: $(STAMP)
	$(BIN)/python -m pytest $(PARALLEL) --doctest-modules --doctest-ignore-import-errors --doctest-glob='*.md' \
		--ignore-glob='docs/*.py' src/schirn README.md docs

$(DOCS_STAMP): $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[docs]"
	@touch $(DOCS_STAMP)

# Build the site in docs/_build/html. Runs every example of the gallery; warnings are errors.
docs: $(DOCS_STAMP)
	$(BIN)/python -m sphinx -E -W --keep-going -q docs docs/_build/html

# The site as part of the check: without a network its tools may be missing.
site: $(STAMP)
	@if $(MAKE) --no-print-directory $(DOCS_STAMP); then $(MAKE) --no-print-directory docs; \
		else echo "The tools of the site cannot be installed here: it is not built"; fi

fuzz: $(STAMP)
	$(BIN)/python tests/fuzz --seconds $(FUZZ_SECONDS)

# Kill benchmark, clean, review server and model writing at random moments; count what is lost.
soak: $(STAMP)
	$(BIN)/python -m benchmarks.soak --seconds $(SOAK_SECONDS)

# Run the whole suite in a new environment $(1) of the interpreter $(2), with the pip options $(3).
define fresh-suite
$(2) -m venv --clear $(1)
$(1)/bin/python -m pip install --quiet --disable-pip-version-check --upgrade pip
$(1)/bin/python -m pip install --quiet --disable-pip-version-check $(3) -e ".[test]"
$(1)/bin/python -m pytest $(PARALLEL) -p no:cacheprovider
endef

# The oldest dependencies that pyproject.toml allows, on the oldest Python. Without this SciPy
# switch, the checks of scikit-learn 1.6 cannot be imported next to array-api-compat.
test-oldest: export SCIPY_ARRAY_API = 1
test-oldest:
	$(call fresh-suite,.venv-oldest,$(firstword $(PYTHONS)),-c tests/oldest.txt)

# The newest releases on the newest installed Python; PRE=--pre includes pre-releases.
test-newest:
	$(call fresh-suite,.venv-newest,$(lastword $(PYTHONS)),--upgrade --upgrade-strategy eager $(PRE))

# Every installed Python from 3.11 on, each with the newest releases.
test-pythons:
	@for python in $(PYTHONS); do echo "== $$python"; \
		$(MAKE) --no-print-directory test-newest PYTHONS=$$python || exit 1; done

# Run after an intended change of public names or parameters.
api: $(STAMP)
	$(BIN)/python tests/api_listing.py

coverage: $(STAMP)
	$(BIN)/python -m pytest --cov --cov-report=term --cov-report=html

# Does a test fail if a line is changed? See CONTRIBUTING.md. mutmut 3.8 does not support pytest 9.
mutants: $(STAMP)
	$(PYTHON) -m venv .venv-mutants
	.venv-mutants/bin/python -m pip install --quiet --disable-pip-version-check \
		"mutmut>=3.8" "pytest<9" -e ".[test]"
	.venv-mutants/bin/mutmut run
	.venv-mutants/bin/mutmut results

# The tools of a release, in versions whose checksums are in the repository.
$(RELEASE_STAMP): release/tools.txt
	$(PYTHON) -m venv --clear $(RELEASE)
	$(RELEASE)/bin/python -m pip install --quiet --disable-pip-version-check \
		--require-hashes --no-deps -r release/tools.txt
	@touch $(RELEASE_STAMP)

# Newest versions with checksums, of the tools and of what users install; commit the result.
lock: $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
		--no-annotate --custom-compile-command "make lock" release/tools.in -o release/tools.txt
	$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
		--custom-compile-command "make lock" --extra all pyproject.toml -o release/versions.txt

# Build wheel and sdist. The wheel must stay below 1.25 MB, and the sdist, with tests and
# documentation, below 2.5 MB: no data slip in.
dist: $(RELEASE_STAMP)
	rm -rf dist
	$(RELEASE)/bin/python -m build --no-isolation --outdir dist .
	@for f in dist/*; do size=$$(wc -c < $$f); echo "$$f: $$size bytes"; \
		case $$f in *.whl) most=1250000;; *) most=2500000;; esac; test $$size -lt $$most || exit 1; done

# Run what the README shows, with the built wheel in an empty environment.
smoke: dist
	$(BIN)/python tests/smoke.py $(WHEEL)

# Before a release: code that bandit warns about and that release/bandit.json does not list, known
# weaknesses of the dependencies (skipped where the database cannot be reached), and a bill of
# materials next to the wheel.
audit: dist
	$(RELEASE)/bin/bandit --quiet --recursive --severity-level medium --baseline release/bandit.json src
	@$(PYTHON) release/known_weaknesses.py $(RELEASE)/bin/pip-audit
	@$(PYTHON) release/sbom.py $(WHEEL) $(WHEEL:.whl=.cdx.json)

benchmark: $(STAMP)
	$(BIN)/python -m benchmarks.speed

clean:
	rm -rf $(VENV) $(RELEASE) .venv-oldest .venv-newest .venv-mutants build dist mutants htmlcov .pytest_cache .mypy_cache .ruff_cache .hypothesis docs/_build docs/gallery docs/api/generated
