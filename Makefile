# Two commands: `make demo` and `make test`. Each makes .venv, installs what it needs, and runs.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
PIP := $(BIN)/pip install -q --disable-pip-version-check -c requirements.lock
# Statistics over many draws, the report in a real browser, and public data sets are left to `make test-all`.
EVERY_CHANGE := not slow and not browser and not dataset

.PHONY: demo test test-all check style docs site release-check lock locked sbom advisories clean

.venv/installed: pyproject.toml requirements.lock
	$(PYTHON) -m venv .venv
	$(PIP) -e .
	touch $@

.venv/installed-test: .venv/installed
	$(PIP) -e '.[dev,eval,files,browser,docs]'
	touch $@

demo: .venv/installed
	$(BIN)/understudy demo -o demo

test: .venv/installed-test
	$(BIN)/pytest -n auto -m '$(EVERY_CHANGE)'

test-all: .venv/installed-test
	UNDERSTUDY_FAULTS=full $(BIN)/pytest -n auto

style: .venv/installed-test
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright

check: style test

docs: .venv/installed
	$(BIN)/python docs/commands.py

.venv/installed-docs: .venv/installed
	$(PIP) -e '.[docs]'
	touch $@

# The documentation as a site, in build/site. It asks nothing of any other machine, neither now nor when it is read.
site: .venv/installed-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# Builds what would be uploaded and tries it in empty environments, with every Python from 3.11 that is on the machine.
release-check: .venv/installed-docs
	$(BIN)/python .ci/release.py --demo

lock: .venv/installed-test
	$(PIP) -e '.[ray]'
	$(BIN)/pip freeze --exclude-editable > requirements.lock
	$(BIN)/python .ci/supply.py hashes
	$(BIN)/python .ci/supply.py sbom

# Everything in the lock file, each file checked against its hash.
locked:
	$(PYTHON) -m venv .venv
	$(PYTHON) .ci/supply.py requirements > .venv/requirements.txt
	$(BIN)/pip install -q --disable-pip-version-check --require-hashes -r .venv/requirements.txt
	$(BIN)/pip install -q --disable-pip-version-check --no-deps -e .
	touch .venv/installed .venv/installed-test

sbom: .venv/installed-test
	$(BIN)/python .ci/supply.py sbom

# Known weaknesses of the packages in the lock file; asks a public database.
advisories: .venv/installed
	$(BIN)/pip install -q --disable-pip-version-check pip-audit
	$(BIN)/pip-audit -r requirements.lock --no-deps --disable-pip

clean:
	rm -rf .venv demo build dist
