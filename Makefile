# Everything on a fresh machine: make reproduce, make test. The environment is .venv; pins are in constraints.txt.
# `make test` takes minutes; `make test-all` runs it and then the slow tests.
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin

.PHONY: reproduce test test-all test-lowest lint race claims docs clean

reproduce: $(VENV)/.installed
	$(RUN)/hopscope reproduce

test: $(VENV)/.installed-dev
	$(RUN)/pytest -n 2 --dist loadgroup

test-all: test
	$(RUN)/pytest -n 2 --dist loadgroup -m slow

# The quick tests with the lowest versions that pyproject.toml admits, in an environment of their own.
test-lowest: .venv-lowest/.installed
	.venv-lowest/bin/pytest -n 2 --dist loadgroup

.venv-lowest/.installed: pyproject.toml constraints.txt constraints-lowest.txt
	$(PYTHON) -m venv .venv-lowest
	.venv-lowest/bin/pip install --quiet --disable-pip-version-check -c constraints-lowest.txt \
		$$(grep '^torch==' constraints.txt) -e ".[llm,ray,frames]" \
		pytest pytest-xdist hypothesis beartype
	touch $@

lint: $(VENV)/.installed-dev
	$(RUN)/ruff check .
	$(RUN)/ruff format --check .
	$(RUN)/mypy

race: $(VENV)/.installed
	$(RUN)/python race/trainers.py

$(VENV)/bin/python:
	$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11) and 'hopscope needs Python 3.11 or newer; say make PYTHON=...')"
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(RUN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	touch $@

$(VENV)/.installed-dev: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(RUN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $@ $(VENV)/.installed

docs: $(VENV)/.installed-dev
	$(RUN)/sphinx-build -q -W --keep-going -b html docs build/docs
	@echo build/docs/index.html

claims: $(VENV)/.installed
	$(RUN)/hopscope report results/laptop --claims-only
	$(RUN)/hopscope report results/figure-4 --claims-only
	$(RUN)/hopscope report results/paper-short --claims-only
	$(RUN)/hopscope report results/paper --claims-only
	$(RUN)/python -m hopscope.paper.claims README.md docs/claims.md laptop=results/laptop/claims.json figure-4=results/figure-4/claims.json paper-short=results/paper-short/claims.json paper=results/paper/claims.json

clean:
	rm -rf $(VENV) .venv-lowest .mypy_cache .ruff_cache .pytest_cache .hypothesis
