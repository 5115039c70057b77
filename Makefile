# Needs make and Python 3.11 or newer with pip; everything else goes into .venv.
# Another interpreter: make setup PYTHON=python3.13

SHELL := /bin/sh
.SHELLFLAGS := -ec
MAKEFLAGS += --no-builtin-rules --no-print-directory
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?=
ARGS ?=
JOBS ?= 2
# Twice the cores: of four files of tests, about two wait for real processes. Each worker takes 7 s of CPU to import all tests.
TEST_JOBS ?= 4

# Without bytecode each process would compile Rota and pytest would rewrite all tests again: half of the CPU of a run.
export PYTHONDONTWRITEBYTECODE :=

VENV := .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.setup-done
DEV_STAMP := $(VENV)/.setup-dev-done
UV := $(PY) -m uv
PIP := $(PY) -m pip --quiet --disable-pip-version-check
LOCK := requirements.lock
DEV_LOCK := requirements-dev.lock
RAY := 2.60.0
RAY_STAMP := $(VENV)/.ray-$(RAY)
PSYCOPG := 3.3.8
PSYCOPG_STAMP := $(VENV)/.psycopg-$(PSYCOPG)
TORCH := 2.13.0
TORCH_STAMP := $(VENV)/.torch-$(TORCH)

.PHONY: help setup demo quick test test-all lint typecheck format docs docs-update lock bench chaos ray-chaos fuzz clean install-browser install-torch install-ray install-postgres screenshots

help:
	@echo 'make setup             create .venv with Rota and the tools for its tests (done once; again when a lock changes)'
	@echo 'make demo              run the demo; alone, it installs no tools for tests'
	@echo 'make quick             lint, types and the fast tests, in less than a minute: for while you edit'
	@echo 'make test              everything CI checks: lint, types, docs, tests'
	@echo 'make test-all          the long tests as well, with more examples and other seeds (SEED=n): an hour or more'
	@echo 'make lint              check style and formatting'
	@echo 'make typecheck         check types'
	@echo 'make format            fix style and formatting where a tool can'
	@echo 'make docs              build the documentation into docs/_build/html'
	@echo 'make docs-update       write again what the documentation takes from the code: the reference, and what examples print'
	@echo 'make install-torch     install PyTorch without CUDA, for the tests of tensors'
	@echo 'make install-ray       install Ray, for the tests of clusters'
	@echo 'make install-postgres  install psycopg and a PostgreSQL server, for the tests of journals'
	@echo 'make install-browser   install Chromium if no browser is found, for the tests of pages'
	@echo 'make lock              write both lock files again (UPGRADE=1 takes newer versions)'
	@echo 'make bench             run the benchmarks (ARGS="..." is passed on)'
	@echo 'make chaos             break real daemons, supervisors, jobs, disks and clocks (QUICK=1, SEED=n, USERS=1 for jobs of two users)'
	@echo 'make ray-chaos         break a real Ray cluster, its network, its scheduler and its jobs (QUICK=1, SEED=n)'
	@echo 'make fuzz              simulate random whole set-ups and check what must hold (CASES=n, SEED=n)'
	@echo 'make screenshots       take the pictures of the documentation again, in a real browser'
	@echo 'make clean             remove .venv and everything that was built'

setup: $(DEV_STAMP)
	@echo 'setup: done; the command is $(VENV)/bin/rota'

# Every candidate is run, not just looked up: a launcher on PATH may have no interpreter behind it.
$(PY):
	@found=; seen=; \
	for candidate in $(or $(PYTHON),python3 python3.14 python3.13 python3.12 python3.11); do \
	    version=$$($$candidate -c 'import platform; print(platform.python_version())' 2>/dev/null) || continue; \
	    seen="$$seen $$candidate is $$version;"; \
	    if $$candidate -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then found=$$candidate; break; fi; \
	done; \
	if [ -z "$$found" ]; then \
	    echo "Rota needs Python 3.11 or newer (found:$${seen:- none}). Next: make setup PYTHON=/path/to/python3.11" >&2; \
	    exit 1; \
	fi; \
	echo "setup: creating $(VENV) with $$found ($$version)"; \
	$$found -m venv --clear $(VENV)

# A .venv whose interpreter has gone is made anew, and then its stamp says nothing.
ifeq ($(realpath $(PY)),)
.PHONY: $(STAMP) $(DEV_STAMP) $(TORCH_STAMP) $(RAY_STAMP) $(PSYCOPG_STAMP)
endif

# uv is several times faster than pip; where it can't be had, or can't reach what pip can, pip does the same work.
install = { $(UV) --version >/dev/null 2>&1 && $(UV) pip install --quiet --python $(PY) $(1); } || $(PIP) install $(1)

# What the demo needs: the package, what it depends on, and the backend that installs it.
$(STAMP): $(LOCK) pyproject.toml | $(PY)
	@$(UV) --version >/dev/null 2>&1 || $(PIP) install uv >/dev/null 2>&1 || echo 'setup: uv is not available, using pip'
	@echo 'setup: installing the locked dependencies'
	@$(call install,--require-hashes -r $(LOCK))
	@echo 'setup: installing Rota (editable)'
	@$(call install,--no-deps --no-build-isolation --editable .)
	@: > $@

# What everything else needs as well: tools for style, types, tests and documentation.
$(DEV_STAMP): $(DEV_LOCK) $(STAMP)
	@echo 'setup: installing the locked tools for tests'
	@$(call install,--require-hashes -r $(DEV_LOCK))
	@: > $@

demo: $(STAMP)
	@$(VENV)/bin/rota demo $(ARGS)

lint: $(DEV_STAMP)
	@echo '== lint'
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .

typecheck: $(DEV_STAMP)
	@echo '== typecheck'
	@$(PY) -m mypy

docs: $(DEV_STAMP)
	@echo '== docs'
	@$(PY) -m sphinx -q -E -W --keep-going -d docs/_build/doctrees -b html docs docs/_build/html
	@echo 'docs/_build/html/index.html is up to date'

# Parts of the documentation are made from the code and kept in the repository: the reference, and what examples print. Tests say when
# they are out of step.
docs-update: $(DEV_STAMP)
	@$(PY) -m docs.reference
	@$(PY) -m tests.docs.pages
	@echo 'the reference is what the code says, and the examples print what they print today'

# Pages are tested in a real browser. Where none is found and packages may be installed, Debian's is; otherwise those tests say
# that they were skipped.
install-browser:
	@if ! { command -v chromium || command -v chromium-browser || command -v google-chrome; } >/dev/null 2>&1 \
	    && command -v apt-get >/dev/null 2>&1; then \
	    as=; [ "$$(id -u)" = 0 ] || as='sudo -n'; \
	    echo '== installing chromium for the tests of the pages'; \
	    { $$as apt-get update -qq && DEBIAN_FRONTEND=noninteractive $$as apt-get install -y -qq --no-install-recommends \
	        chromium fonts-dejavu-core; } >/dev/null 2>&1 \
	        || echo 'chromium could not be installed: the tests of the pages will be skipped'; \
	fi

# Sizes of parameters are read from real modules. PyTorch is not in the lock, which would pin several GB of CUDA packages with it,
# and where only a build with those can be had it is left out: then the tests that need it say that they were skipped.
install-torch: $(TORCH_STAMP)

$(TORCH_STAMP): | $(DEV_STAMP)
	@echo '== installing torch $(TORCH) for the tests of tensors'
	@plan=$$($(PIP) install --dry-run --report - torch==$(TORCH) 2>/dev/null) || plan=none; \
	case $$plan in \
	    none) echo 'torch $(TORCH) cannot be had: the tests that need it will be skipped' ;; \
	    *'"name": "nvidia-'*) echo 'torch $(TORCH) can be had with CUDA only: the tests that need it will be skipped' ;; \
	    *) { $(PIP) install torch==$(TORCH) >/dev/null 2>&1 && : > $@; } \
	        || echo 'torch $(TORCH) could not be installed: the tests that need it will be skipped' ;; \
	esac

# Ray is large, and for tests of clusters alone.
install-ray: $(RAY_STAMP)

$(RAY_STAMP): | $(DEV_STAMP)
	@echo '== installing ray $(RAY) for the tests of clusters'
	@{ $(PIP) install ray==$(RAY) >/dev/null 2>&1 && : > $@; } \
	    || echo 'ray $(RAY) could not be installed: the tests that need it will be skipped'

# Journals in PostgreSQL are tested with servers of the tests' own. The programs come from Debian where packages may be installed;
# the server that Debian would start is not wanted.
install-postgres: $(PSYCOPG_STAMP)
	@if ! { ls /usr/lib/postgresql/*/bin/initdb || command -v initdb; } >/dev/null 2>&1 && command -v apt-get >/dev/null 2>&1; then \
	    as=; [ "$$(id -u)" = 0 ] || as='sudo -n'; \
	    echo '== installing postgresql for the tests of journals'; \
	    { $$as apt-get update -qq \
	        && $$as env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends postgresql-common \
	        && $$as sed -i 's/^#* *create_main_cluster *=.*/create_main_cluster = false/' /etc/postgresql-common/createcluster.conf \
	        && $$as env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends postgresql; } >/dev/null 2>&1 \
	        || echo 'postgresql could not be installed: the tests that need it will be skipped'; \
	fi

$(PSYCOPG_STAMP): | $(DEV_STAMP)
	@echo '== installing psycopg $(PSYCOPG) for the tests of journals'
	@{ $(PIP) install 'psycopg[binary]==$(PSYCOPG)' >/dev/null 2>&1 && : > $@; } \
	    || echo 'psycopg $(PSYCOPG) could not be installed: the tests that need it will be skipped'

screenshots: $(DEV_STAMP) install-browser
	@ROTA_SCREENSHOTS=docs/images $(PY) -m pytest -q tests/browser
	@echo 'docs/images is up to date'

# Files of tests that keep a core busy and files that wait for real processes take turns (tests/conftest.py), so that both cores
# are in use all the time. A file runs whole on one worker: what its tests share is started once.
suite = $(PY) -m pytest -n $(TEST_JOBS) --dist loadfile --no-loadscope-reorder --durations=20 $(1) $(ARGS)

test: install-browser install-torch install-ray install-postgres | $(DEV_STAMP)
	@$(MAKE) -j2 lint typecheck docs
	@echo '== tests'
	@$(call suite,-m 'not nightly')

# Everything: long tests too, all examples of every property, and other random ones in every run. A seed reproduces a run.
test-all: export ROTA_EXAMPLES := many
test-all: export ROTA_SEED := $(or $(SEED),$(shell date +%Y%m%d))
test-all: install-browser install-torch install-ray install-postgres | $(DEV_STAMP)
	@$(MAKE) -j2 lint typecheck docs
	@echo "== all tests, seed $$ROTA_SEED (again: make test-all SEED=$$ROTA_SEED)"
	@$(call suite,--hypothesis-seed=$$ROTA_SEED)

# The edit loop: every room, without tests that are slow or start processes; a little chaos and a batch of set-ups.
QUICK := tests/architecture tests/unit tests/properties/test_chaos.py::test_a_short_run \
    'tests/properties/test_setups.py::test_every_setup_keeps_every_promise[0]'

quick: export ROTA_EXAMPLES := fewest
quick: lint typecheck
	@echo '== quick tests'
	@$(PY) -m pytest -q -p no:schemathesis -n $(JOBS) --dist worksteal \
	    -m 'not slow and not nightly and not process and not postgres' $(QUICK) $(ARGS)

format: $(DEV_STAMP)
	@$(PY) -m ruff check --fix .
	@$(PY) -m ruff format .

compile = $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
    --no-emit-find-links --custom-compile-command 'make lock' $(if $(UPGRADE),--upgrade) pyproject.toml

# Not after setup: setup installs the locks, so one that can't be installed must still be replaceable. The larger lock comes first
# and holds all of the smaller, which takes its versions from there.
lock: | $(PY)
	@$(UV) --version >/dev/null 2>&1 || $(PIP) install uv
	@$(compile) --extra editable --extra dev --output-file $(DEV_LOCK)
	@$(compile) --extra editable --constraint $(DEV_LOCK) --output-file $(LOCK)
	@echo '$(LOCK) and $(DEV_LOCK) are up to date'

bench: $(DEV_STAMP)
	@$(PY) benchmarks/run.py $(ARGS)

# Real processes and faults of thirteen kinds at seeded moments; the last line of the output is JSON. With USERS=1 jobs of two users.
chaos: $(DEV_STAMP)
	@$(PY) -m tests.chaos.chaos --faults $(if $(QUICK),26,$(if $(USERS),200,260)) --seed $(or $(SEED),0) $(if $(USERS),--users) $(ARGS)

# A real Ray cluster and faults of sixteen kinds, twenty of each; with QUICK=1 one. The last line of the output is JSON.
ray-chaos: $(DEV_STAMP) install-ray install-postgres
	@$(PY) -m tests.chaos.ray_chaos --faults $(if $(QUICK),16,320) --seed $(or $(SEED),0) $(ARGS)

# Random whole set-ups, thousands of them; the last line of the output is JSON.
fuzz: $(DEV_STAMP)
	@$(PY) -m tests.fuzz --cases $(or $(CASES),5000) --seed $(or $(SEED),0) --workers $(JOBS)

CLEAN_DIRS := $(VENV) build dist docs/_build .hypothesis .mypy_cache .pytest_cache .ruff_cache

clean:
	@$(or $(PYTHON),python3) -c 'import pathlib, shutil, sys; \
	caches = [p for d in ("rota", "tests", "benchmarks", "docs") for p in pathlib.Path(d).rglob("__pycache__")]; \
	[shutil.rmtree(p, ignore_errors=True) for p in [*sys.argv[1:], *caches]]' $(CLEAN_DIRS)
	@echo 'clean: removed .venv and everything that was built'
