# Two commands on a fresh machine: `make serve` and `make test`. Needs Python 3.11 or newer and make, nothing else.

DIR ?= .
PORT ?= 8765
ASK ?= What is this project about?

BIN := .venv/bin
RUN := $(BIN)/python -m
# What is given reaches the shell as variables, so that quotes and dollars in it stay what they are.
export DIR PORT ASK

.DEFAULT_GOAL := help
.PHONY: help serve demo test check browser screenshot bench test-long test-mutants clean

help:  ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' Makefile

serve: .venv/.installed  ## the web chat on this machine, with the demo agent on a folder: make serve DIR=path PORT=8765
	$(BIN)/turnlog serve --agent demo --workspace "$$DIR" --port "$$PORT"

demo: .venv/.installed  ## ask the demo agent about a folder: make demo DIR=path ASK='a question'
	$(BIN)/turnlog ask demo "$$ASK" --agent demo --workspace "$$DIR"
	@echo
	@echo "It is kept. Look at it again with: $(BIN)/turnlog show demo"

test: .venv/.developing .venv/.browser  ## run the tests
	$(RUN) pytest -n 2

check: .venv/.developing  ## lint, format and types
	$(RUN) ruff check
	$(RUN) ruff format --check
	$(RUN) mypy

bench: .venv/.developing  ## measure against the raw disk and the older ways, on this machine
	$(RUN) bench

test-long: .venv/.developing  ## run the sweeps in their full range: takes long
	$(RUN) pytest -n 2 -m long --timeout 7200

test-mutants: .venv/.developing  ## break the product on purpose, once a promise, and see that a test notices
	$(RUN) tests.mutants

browser: .venv/.browser  ## find or install a Chromium for the tests of the page

screenshot: .venv/.developing .venv/.browser  ## make the pictures of docs/images from a real run
	$(RUN) tests.browser.screenshot

clean:  ## remove the virtual environment and everything built
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis dist build
	find src tests bench docs -type d -name __pycache__ -prune -exec rm -rf {} +

# --- installing ------------------------------------------------------------------------------------------------

.venv/bin/pip:
	@for python in python3 python3.14 python3.13 python3.12 python3.11; do \
	  if "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	    if ! "$$python" -c 'import ensurepip, venv' 2>/dev/null; then \
	      echo "$$python cannot make a virtual environment: install its venv module first" \
	        "(on Debian and Ubuntu: apt install python3-venv)." >&2; \
	      exit 1; \
	    fi; \
	    exec "$$python" -m venv .venv; \
	  fi; \
	done; \
	echo "turnlog needs Python 3.11 or newer, and none was found as python3 or python3.11 to python3.14." >&2; \
	exit 1

.venv/.installed: pyproject.toml | .venv/bin/pip
	$(RUN) pip install --quiet --disable-pip-version-check --editable ".[server]"
	@touch $@

# Older pips do not know dependency groups, so the group is read here instead of by `pip install --group`.
.venv/.developing: pyproject.toml .venv/.installed
	$(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["dependency-groups"]["dev"], sep="\n")' \
	  > .venv/dev-requirements.txt
	$(RUN) pip install --quiet --disable-pip-version-check --requirement .venv/dev-requirements.txt
	@touch $@

# The tests of the page need a browser; without one they are skipped, and fail where nothing may be skipped.
.venv/.browser: .venv/.developing
	@$(RUN) tests.browser.install $@
