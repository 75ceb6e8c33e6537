# The two commands of the README, and more. Everything is installed into .venv; nothing else is touched.
# On Windows from a shell with sh, such as Git's: environments have other folders there.
ifeq ($(OS),Windows_NT)
PYTHON ?= python
SCRIPTS := Scripts
EXE := .exe
else
PYTHON ?= python3
SCRIPTS := bin
endif
BIN := .venv/$(SCRIPTS)
OLDEST := .venv-oldest/$(SCRIPTS)
# Tests run in random order; on CI in the same one every time, as with Hypothesis's examples.
ORDER := $(if $(CI),--randomly-seed=1)
# Every worker and every process that a test starts would compile all modules again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test suite checks all style types kernels compiled test-threads test-oldest pythons fuzz frozen same browser bench coverage mutants gallery paper docs examples clean

help:
	@echo "make demo    explain a model of the bundled Bikeshare data"
	@echo "make test    the tests: whether the library works on this machine"
	@echo "make checks  reads the source: ruff, mypy, import-linter, zizmor"
	@echo "make all     both, two at a time"
	@echo "make test-threads runs the tests of the computing rooms in four threads at once"
	@echo "make test-oldest  runs the tests with the oldest supported version of every dependency, in .venv-oldest"
	@echo "make pythons runs the tests on every Python from 3.11 on that this machine has, each in a .venv of its own"
	@echo "make fuzz    random calls, numbers against brute force, damaged files: 10,000, 100,000, 10,000"
	@echo "make frozen DIR=...  keeps the numbers of 1,100 calls, outside the repository, before a refactoring (3 minutes)"
	@echo "make same DIR=...    compares them afterwards, and lists what is computed in another way"
	@echo "make browser finds or installs chromium, for the tests of the report"
	@echo "make bench   speed against named peers, in one table (20 minutes)"
	@echo "make wheel   builds sdist and wheel into dist, and tries the wheel in a fresh environment without extras"
	@echo "make coverage simulates how often intervals, tests and sentences hold what they say (hours)"
	@echo "make mutants puts errors into the source, one at a time, and counts those that tests notice (an hour)"
	@echo "make gallery the paper's figures and tables, as pages for the site: docs/paper"
	@echo "make docs    the site: docs/build/index.html, every example run (5 minutes)"
	@echo "make clean   remove .venv, caches and builds"

demo: .venv/installed-demo
	@$(BIN)/python -m losslens.demo

test: browser
	@$(MAKE) --no-print-directory --jobs=2 kernels .venv/installed-suite
	@$(MAKE) --no-print-directory suite

checks: style types

all: browser
	@$(MAKE) --no-print-directory --jobs=2 kernels .venv/installed-checks
	@$(MAKE) --no-print-directory --jobs=2 style compiled
	@$(MAKE) --no-print-directory --jobs=2 types suite

style: .venv/installed-checks
	$(BIN)/ruff check --quiet .
	$(BIN)/ruff format --quiet --check .
	$(BIN)/lint-imports --no-logo
	@$(BIN)/zizmor --offline --quiet .github/workflows

# One process, a minute of it: beside the tests it leaves no core idle.
types: .venv/installed-checks
	$(BIN)/mypy

# Some of them: make suite TESTS=tests/losses
TESTS ?=
suite: .venv/installed-suite
	$(BIN)/pytest -q $(ORDER) $(TESTS)

# What all workers of the tests load, compiled once: kernels while pip installs what only the tests need; modules and
# rewritten asserts beside the checks. Whatever is wrong with a file the tests themselves will tell.
kernels: .venv/installed-library
	@$(BIN)/losslens warmup >/dev/null || true

compiled: kernels .venv/installed-suite
	@$(BIN)/pytest -q -n 0 --collect-only >/dev/null 2>&1 || true

# Each of these tests runs in four threads at once; what measures the whole process is marked thread_unsafe.
# Left out: two files whose calls of polars the plugin cannot analyse.
test-threads: .venv/installed-suite
	$(BIN)/pytest -q $(ORDER) -p run-parallel --parallel-threads=4 tests/losses/test_rows.py tests/test_game_theory.py \
		tests/cells tests/donors --ignore=tests/donors/test_questions.py tests/passes --ignore=tests/passes/parts tests/shapley/test_axioms.py

# Old releases warn about newer ones of others, and draw pictures that differ in single pixels.
test-oldest: .venv/installed-suite
	@test -d .venv-oldest || $(PYTHON) -m venv .venv-oldest
	@$(BIN)/python -m tests.oldest > .venv-oldest/constraints.txt
	@$(OLDEST)/python -m pip install --quiet --disable-pip-version-check --editable ".[suite]" \
		--constraint .venv-oldest/constraints.txt
	NUMBA_CACHE_DIR=.venv-oldest/numba $(OLDEST)/python -m pytest -q $(ORDER) --ignore=tests/plots/test_images.py --ignore=tests/test_deprecations.py \
		-W ignore::DeprecationWarning -W ignore::FutureWarning -W ignore::PendingDeprecationWarning \
		-W "ignore:numpy.ufunc size changed"

# The newest releases that each Python gets, in .venv-3.12 and so on; some tests: make pythons TESTS=tests/losses.
pythons: browser
	@$(PYTHON) -m tests.pythons $(ORDER) $(TESTS)

# Another run: make fuzz SEED=7. A finding says how to repeat it.
SEED ?= 0
fuzz: .venv/installed-suite
	$(BIN)/python -m tests.fuzz --seed $(SEED)

# Some calls: make same DIR=... FROZEN="--only 'shapley_importance/*'"; other options: python -m tests.frozen --help.
frozen: .venv/installed-suite
	$(BIN)/python -m tests.frozen write $(FROZEN) "$(or $(DIR),$(error name a folder outside the repository: make $@ DIR=...))"

same: .venv/installed-suite
	$(BIN)/python -m tests.frozen same $(FROZEN) "$(or $(DIR),$(error name the folder that make frozen wrote: make $@ DIR=...))"

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

# Outside .venv: what is tried is what somebody gets who has nothing of this tree.
.PHONY: wheel
wheel:
	@$(PYTHON) -m tests.wheel

# What the library promises about new data, on data whose truth is known; one part: make coverage ONLY=sentences.
ONLY ?= coverage coverage_data shapley_coverage conditional extrapolation regions segments interactions sentences \
	accuracy shapley_errors survival budgets
coverage: .venv/installed-bench
	@for part in $(ONLY); do $(BIN)/python -m benchmarks.$$part || exit 1; done

# Every plot on three data sets, as contact sheets to look at: make contact DIR=contact.
contact: .venv/installed-suite
	PYTHONPATH=tests/support $(BIN)/python -W ignore tests/plots/test_every_plot.py $(or $(DIR),contact)

mutants: .venv/installed-suite
	@$(BIN)/python -m tests.mutants

# With all repetitions, as many as the paper has: make gallery FULL=--full.
gallery: .venv/installed-demo
	@$(MAKE) --no-print-directory paper

paper:
	@$(BIN)/python -m docs.gallery.page $(FULL)

# A warning, an example that fails and a link that leads nowhere stop the build. One thread a library: two pages, or the
# paper and the examples of README and pages, are run at a time.
docs:
	@$(MAKE) --no-print-directory --jobs=2 kernels .venv/installed-docs
	@OMP_NUM_THREADS=1 $(MAKE) --no-print-directory --jobs=2 paper examples
	@$(BIN)/python -m docs.reference.complete
	OMP_NUM_THREADS=1 $(BIN)/python -m sphinx --jobs 2 --fail-on-warning --keep-going --quiet docs docs/build
	@$(BIN)/python -m docs.check docs/build

examples:
	$(BIN)/pytest -q -n 0 tests/test_readme.py

clean:
	rm -rf .venv .venv-oldest .venv-3.* build dist docs/build docs/jupyter_execute docs/paper docs/reference/generated .cache .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find src tests -type d -name __pycache__ -prune -exec rm -rf {} +

$(BIN)/python$(EXE):
	@echo "creating .venv"
	@$(PYTHON) -m venv .venv

# Modules are compiled when they are first imported: most of those that pip installs never are.
PIP := $(BIN)/python -u -m pip install --disable-pip-version-check --no-compile
# Of what pip says, the name of each package while it is fetched, and that they are unpacked.
NAMES := while read -r word name rest; do case "$$word" in \
	Collecting) printf ' %s' "$${name%%[<>=!~;\[]*}";; \
	Installing) test "$$name" = collected && printf '\n unpacking them\n';; esac; done; true

# One stamp an extra, so that pip runs again only when pyproject.toml has changed.
# Order-only (|): the interpreter's date says nothing about what is installed.
# Who waits sees the names of the packages; the stamp, and not the end of the pipe, says whether pip was successful.
.venv/installed-%: pyproject.toml | $(BIN)/python$(EXE)
	@echo "installing losslens[$*] into .venv (a minute or two the first time)"
	@rm -f $@
	@{ $(PIP) --editable ".[$*$(ALSO)]" && touch $@ $(HOLDS); } | $(NAMES)
	@test -f $@

# The library by itself, before what tests it: its kernels compile meanwhile.
.venv/installed-library: pyproject.toml | $(BIN)/python$(EXE)
	@echo "installing losslens into .venv"
	@rm -f $@
	@{ $(PIP) --editable . && touch $@; } | $(NAMES)
	@test -f $@

.venv/installed-suite .venv/installed-checks .venv/installed-docs: | .venv/installed-library

# The tests of other people's tools.
.venv/installed-suite .venv/installed-checks .venv/installed-docs: ALSO := ,places

# What the tests need is among what the checks need: pip need not run twice.
.venv/installed-checks: HOLDS := .venv/installed-suite
