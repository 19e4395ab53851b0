# Everything on a fresh machine: make reproduce, make test. The environment is .venv; pins are in constraints.txt.
# `make test` takes minutes; `make test-all` runs it, the slow tests, and those with programs that Tracr compiled.
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin

.PHONY: reproduce test test-all test-tracr test-lowest lint race claims paper schema docs release try-extras clean

reproduce: $(VENV)/.installed
	$(RUN)/hopscope reproduce

test: $(VENV)/.installed-dev
	$(RUN)/pytest -n 2 --dist loadgroup

test-all: test
	$(RUN)/pytest -n 2 --dist loadgroup -m slow --ignore $(TRACR)
	$(MAKE) test-tracr

# Circuits of transformers that Tracr compiled; JAX comes with it, 400 MB, and in one process with no other test.
TRACR := tests/language/test_token_module.py

test-tracr: $(VENV)/.installed-tracr
	$(RUN)/pytest -p no:xdist -m slow $(TRACR)

$(VENV)/.installed-tracr: $(VENV)/.installed-dev
	$(RUN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[tracr]"
	touch $@

# The quick tests with the lowest versions that pyproject.toml admits, in an environment of their own.
test-lowest: .venv-lowest/.installed
	.venv-lowest/bin/pytest -n 2 --dist loadgroup

.venv-lowest/.installed: pyproject.toml constraints.txt constraints-lowest.txt
	$(PYTHON) -m venv .venv-lowest
	.venv-lowest/bin/pip install --quiet --disable-pip-version-check -c constraints-lowest.txt \
		$$(grep '^torch==' constraints.txt) -e ".[llm,frames]" \
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

# docs/circuit.schema.json, of the dataclasses as they are.
schema: $(VENV)/.installed
	$(RUN)/python docs/circuit_schema.py

claims: $(VENV)/.installed
	$(RUN)/hopscope report results/figure-4 --claims-only
	$(RUN)/hopscope report results/paper-short --claims-only
	$(RUN)/hopscope report results/paper --claims-only
	$(RUN)/python docs/claims_pages.py README.md docs/claims.md results/paper results/figure-4 results/paper-short results/language-models

# The manuscript in docs/paper, every number from the records; a PDF of it where there is a Chromium to print it.
paper: $(VENV)/.installed-dev
	$(RUN)/python -m studies.manuscript
	$(MAKE) docs
	command -v chromium >/dev/null && chromium --headless --no-sandbox --disable-gpu --no-pdf-header-footer \
		--print-to-pdf=build/paper.pdf build/docs/paper/manuscript.html 2>/dev/null && echo build/paper.pdf || true

# A wheel and a source archive in build/release, each below 1 MB; the wheel is tried in an environment of its own with
# the core alone: help, theory and the main job, without a compiler and, where Linux allows it, without a network. Then
# in a fresh environment with each extra: pip check, and its modules imported. `make try-extras` does this alone.
TRY := env -i HOME="$$PWD" PATH="$$PWD/env/bin" $$(command -v unshare >/dev/null && unshare -rn true 2>/dev/null && echo "$$(command -v unshare) -rn")

release: $(VENV)/.installed-dev
	rm -rf build/release
	$(RUN)/hatchling build -d build/release
	$(RUN)/python -c "import pathlib; sizes = {f.name: f.stat().st_size for f in pathlib.Path('build/release').iterdir()}; print(sizes); assert len(sizes) == 2 and max(sizes.values()) < 1e6"
	$(PYTHON) -m venv build/release/env
	build/release/env/bin/pip install --quiet --disable-pip-version-check -c constraints.txt build/release/*.whl
	cd build/release && env/bin/pip check
	cd build/release && $(TRY) env/bin/hopscope --version
	cd build/release && $(TRY) env/bin/hopscope theory --hops 1-8
	cd build/release && $(TRY) env/bin/hopscope reproduce --preset tiny --out tiny
	cd build/release && $(TRY) env/bin/hopscope check tiny
	$(MAKE) try-extras

EXTRAS := llm:hopscope.benchmark.hosted,openai,transformers gguf:accelerate,gguf,transformers \
	lm-eval:lm_eval,hopscope.benchmark.lm_eval_tasks.harness_tasks frames:pandas docs:sphinx,furo,myst_parser

try-extras:
	set -e; for extra in $(EXTRAS); do \
		echo "with the extra $${extra%%:*}"; rm -rf build/release/env; $(PYTHON) -m venv build/release/env; \
		build/release/env/bin/pip install --quiet --disable-pip-version-check -c constraints.txt \
			"$$(echo build/release/*.whl)[$${extra%%:*}]"; \
		(cd build/release && env/bin/pip check && env/bin/python -c "import hopscope, $${extra#*:}"); \
	done
	rm -rf build/release/env

clean:
	rm -rf $(VENV) .venv-lowest build .mypy_cache .ruff_cache .pytest_cache .hypothesis
