# The two commands of the README, and three more. Everything is installed into .venv; nothing else is touched.
PYTHON ?= python3
BIN := .venv/bin
# Tests run in random order; on CI in the same one every time, as with Hypothesis's examples.
ORDER := $(if $(CI),--randomly-seed=1)
# Every worker and every process that a test starts would compile all modules again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test suite checks style types kernels compiled test-threads test-oldest fuzz browser bench coverage mutants gallery paper docs examples clean

help:
	@echo "make demo    explain a model of the bundled Bikeshare data"
	@echo "make test    ruff, mypy, import-linter and the tests"
	@echo "make test-threads runs the tests of the computing rooms in four threads at once"
	@echo "make test-oldest  runs the tests with the oldest supported version of every dependency, in .venv-oldest"
	@echo "make fuzz    random calls, numbers against brute force, damaged files: 10,000, 100,000, 10,000"
	@echo "make browser finds or installs chromium, for the tests of the report"
	@echo "make bench   speed against named peers, in one table (20 minutes)"
	@echo "make coverage simulates how often intervals, tests and sentences hold what they say (hours)"
	@echo "make mutants puts errors into the source, one at a time, and counts those that tests notice (an hour)"
	@echo "make gallery the paper's figures and tables, as pages for the site: docs/paper"
	@echo "make docs    the site: docs/build/index.html, every example run (5 minutes)"
	@echo "make clean   remove .venv, caches and builds"

demo: .venv/installed-demo
	@$(BIN)/python -m losslens.demo

test: browser
	@$(MAKE) --no-print-directory --jobs=2 style compiled
	@$(MAKE) --no-print-directory --jobs=2 types suite

checks: style types

style: .venv/installed-test
	$(BIN)/ruff check --quiet .
	$(BIN)/ruff format --quiet --check .
	$(BIN)/lint-imports --no-logo

# One process, a minute of it: beside the tests it leaves no core idle.
types: .venv/installed-test
	$(BIN)/mypy

suite: .venv/installed-test
	$(BIN)/pytest -q $(ORDER)

# What all workers of the tests load, compiled once: kernels while pip installs what only the tests need; modules and
# rewritten asserts beside the checks. Whatever is wrong with a file the tests themselves will tell.
kernels: .venv/installed-library
	@$(BIN)/losslens warmup >/dev/null || true

compiled: kernels .venv/installed-test
	@$(BIN)/pytest -q -n 0 --collect-only >/dev/null 2>&1 || true

# Each of these tests runs in four threads at once; what measures the whole process is marked thread_unsafe.
# Left out: two files whose calls of polars the plugin cannot analyse.
test-threads: .venv/installed-test
	$(BIN)/pytest -q $(ORDER) -p run-parallel --parallel-threads=4 tests/losses/test_rows.py tests/test_game_theory.py \
		tests/cells tests/donors --ignore=tests/donors/test_questions.py tests/passes --ignore=tests/passes/parts tests/shapley/test_axioms.py

# Old releases warn about newer ones of others, and draw pictures that differ in single pixels.
test-oldest: .venv/installed-test
	@test -d .venv-oldest || $(PYTHON) -m venv .venv-oldest
	@$(BIN)/python -m tests.oldest > .venv-oldest/constraints.txt
	@.venv-oldest/bin/python -m pip install --quiet --disable-pip-version-check --editable ".[suite]" \
		--constraint .venv-oldest/constraints.txt
	NUMBA_CACHE_DIR=.venv-oldest/numba .venv-oldest/bin/python -m pytest -q $(ORDER) --ignore=tests/plots/test_images.py \
		-W ignore::DeprecationWarning -W ignore::FutureWarning -W ignore::PendingDeprecationWarning \
		-W "ignore:numpy.ufunc size changed"

# Another run: make fuzz SEED=7. A finding says how to repeat it.
SEED ?= 0
fuzz: .venv/installed-test
	$(BIN)/python -m tests.fuzz --seed $(SEED)

# The report is tested in a real browser: found, or installed where we may. Without one those tests are skipped, loudly.
browser:
	@for name in chromium chromium-browser google-chrome google-chrome-stable; do \
		if command -v "$$name" >/dev/null; then exit 0; fi; \
	done; \
	if [ -n "$$LOSSLENS_BROWSER" ]; then exit 0; fi; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "installing chromium, for the tests of the report"; \
		export DEBIAN_FRONTEND=noninteractive; \
		apt-get install -y -qq chromium >/dev/null 2>&1 \
			|| { apt-get update -qq && apt-get install -y -qq chromium; } >/dev/null 2>&1 || true; \
	fi; \
	command -v chromium >/dev/null || echo "NO BROWSER: the report will not be tested in one"

bench: .venv/installed-bench
	@$(BIN)/python -m benchmarks

# What the library promises about new data, on data whose truth is known; one part: make coverage ONLY=sentences.
ONLY ?= coverage coverage_data shapley_coverage conditional extrapolation regions segments interactions sentences \
	accuracy shapley_errors survival
coverage: .venv/installed-bench
	@for part in $(ONLY); do $(BIN)/python -m benchmarks.$$part || exit 1; done

mutants: .venv/installed-test
	@$(BIN)/python -m tests.mutants

# With as many test sets as the paper: make gallery FULL=--full.
gallery: .venv/installed-demo
	@$(MAKE) --no-print-directory paper

paper:
	@$(BIN)/python -m docs.gallery.page $(FULL)

# A warning, an example that fails and a link that leads nowhere stop the build. One thread a library: two pages, or the
# paper and the examples of README and pages, are run at a time.
docs:
	@$(MAKE) --no-print-directory --jobs=2 kernels .venv/installed-docs
	@OMP_NUM_THREADS=1 $(MAKE) --no-print-directory --jobs=2 paper examples
	OMP_NUM_THREADS=1 $(BIN)/python -m sphinx --jobs 2 --fail-on-warning --keep-going --quiet docs docs/build
	@$(BIN)/python -m docs.check docs/build

examples:
	$(BIN)/pytest -q -n 0 tests/test_readme.py

clean:
	rm -rf .venv .venv-oldest build dist docs/build docs/jupyter_execute docs/paper docs/reference/generated .cache .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find src tests -type d -name __pycache__ -prune -exec rm -rf {} +

$(BIN)/python:
	@echo "creating .venv"
	@$(PYTHON) -m venv .venv

# Modules are compiled when they are first imported: most of those that pip installs never are.
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile

# One stamp an extra, so that pip runs again only when pyproject.toml has changed.
# Order-only (|): the interpreter's date says nothing about what is installed.
.venv/installed-%: pyproject.toml | $(BIN)/python
	@echo "installing losslens[$*] into .venv (a minute or two the first time)"
	@$(PIP) --editable ".[$*]"
	@touch $@

# The library by itself, before what tests it: its kernels compile meanwhile.
.venv/installed-library: pyproject.toml | $(BIN)/python
	@echo "installing losslens into .venv"
	@$(PIP) --editable .
	@touch $@

.venv/installed-test .venv/installed-docs: | .venv/installed-library
