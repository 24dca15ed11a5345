# make run    sets up .venv and runs the main job on the default case (results in out/concentration)
# make test   sets up .venv and runs the tests
# make docs   sets up .venv and builds the documentation in out/docs/html
# make lint   ruff and mypy
# PYTHON=python3.12 make test   chooses the interpreter the environment is made with

PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
# The stamp depends on the files that name the dependencies: change them and the next call reinstalls.
STAMP := $(VENV)/.installed-test
DEVSTAMP := $(VENV)/.installed-dev
DOCSTAMP := $(VENV)/.installed-docs
.DELETE_ON_ERROR:

.PHONY: run test docs lint clean
run: $(STAMP)
	$(PY) -m sphere_attention_scripts.simulate run --out out/concentration --overwrite

# One process for each processor; what each computes with threads of its own is then one thread's.
test: $(STAMP)
	@echo "the tests take about 5 minutes on 2 cores, a minute more the first time, to compile"
	OPENBLAS_NUM_THREADS=1 $(PY) -m pytest -n auto --dist worksteal

# DOCS=--quick leaves placeholders for the pictures
docs: $(DOCSTAMP)
	$(PY) scripts/docs/build.py --out out/docs $(DOCS)

lint: $(DEVSTAMP)
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy

$(STAMP): setup.cfg pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "This project needs Python 3.11 or newer; choose one with PYTHON=python3.X make ..."; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "$(PYTHON) cannot make virtual environments; on Debian and Ubuntu: apt-get install python3-venv"; exit 1; }
	$(PYTHON) -m venv --clear $(VENV)
	@# A half-made environment would pass for a finished one: remove it when the installation fails.
	$(PY) -m pip install --quiet --disable-pip-version-check -e ".[test]" || { rm -rf $(VENV); exit 1; }
	@touch $@

$(DEVSTAMP): $(STAMP)
	$(PY) -m pip install --quiet --disable-pip-version-check -e ".[dev]"
	@touch $@

$(DOCSTAMP): $(STAMP)
	$(PY) -m pip install --quiet --disable-pip-version-check -e ".[docs]"
	@touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info
