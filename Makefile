# Two commands: `make demo` and `make test`. Each makes .venv, installs what it needs, and runs.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
QUICK ?=

.PHONY: demo test check docs lock clean

.venv/installed: pyproject.toml requirements.lock
	$(PYTHON) -m venv .venv
	$(BIN)/pip install -q -c requirements.lock -e .
	touch $@

.venv/installed-dev: .venv/installed
	$(BIN)/pip install -q -c requirements.lock -e '.[dev]'
	touch $@

.venv/installed-eval: .venv/installed
	$(BIN)/pip install -q -c requirements.lock -e '.[eval]'
	touch $@

.venv/installed-browser: .venv/installed
	$(BIN)/pip install -q -c requirements.lock -e '.[browser]'
	touch $@

demo: .venv/installed
	$(BIN)/understudy demo -o demo

test: .venv/installed-dev
	$(BIN)/pytest -n auto $(if $(QUICK),-m 'not slow')

check: .venv/installed-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright
	$(MAKE) test

docs: .venv/installed
	$(BIN)/python docs/commands.py

lock: .venv/installed-dev .venv/installed-eval .venv/installed-browser
	$(BIN)/pip freeze --exclude-editable > requirements.lock

clean:
	rm -rf .venv demo build dist
