# Every target builds what it needs: python3, pip and make are enough.
PYTHON ?= python3
BIN := .venv/bin
# Nothing is compiled that nobody imports: most modules of what is installed are never loaded.
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt

# Byte code is kept: the many processes that tests start need not compile the package again.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test test-all suite networks lint format manual notebooks gallery pictures bench clean

demo: .venv/ready
	$(BIN)/parley demo

# The quick tests and, beside them, what lint says: both run to their end, and either fails the whole.
test: .venv/ready-dev
	@$(MAKE) --no-print-directory --keep-going --jobs=2 suite lint CHOSEN="-m 'not slow'"

# The same with all tests (tests/slow.txt lists those that the others leave out).
test-all: .venv/ready-dev
	@$(MAKE) --no-print-directory --keep-going --jobs=2 suite lint

# Four workers on two cores, since some tests wait for processes; threads of their own would only be in the way.
# Collected once before: one process makes the byte code that all four would make at the same time.
suite: .venv/ready-dev
	@$(BIN)/pytest --collect-only -qq >/dev/null || true
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/pytest -n 4 --dist loadfile --no-loadscope-reorder $(CHOSEN)

# What needs PyTorch, which nothing else does: the tests above leave it out where it is not installed.
networks: .venv/ready-dev
	$(INSTALL) -e ".[torch]"
	$(BIN)/pytest tests/tasks/networks tests/lab/papers/chase2017 tests/lab/papers/hitaj2017 tests/lab/papers/zawacki2024/test_network_tables.py tests/audit/exact/test_pair_search.py

lint: .venv/ready-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: .venv/ready-dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# Every document as a page, and the reference from docstrings; whatever is doubtful about a link or a page fails it.
manual: .venv/ready-dev
	$(BIN)/python -m sphinx -q -W --keep-going docs build/manual
	@echo "build/manual/index.html"

# The notebooks of examples/, from the scripts beside them, run anew; hospitals and digits need theirs in PARLEY_DATA.
notebooks: .venv/ready-dev
	$(INSTALL) -e ".[notebooks]"
	$(BIN)/python docs/make_notebooks.py

# Every figure of the product with few owners and with many, to be looked at.
gallery: .venv/ready-dev
	$(BIN)/python docs/gallery.py build/gallery

# The pictures of README and documents, as far as tables and a browser are here; `docs/pictures.py --long` has the rest.
pictures: .venv/ready-dev
	$(BIN)/python docs/pictures.py

bench: .venv/ready-dev
	$(INSTALL) -e ".[bench]"
	@for study in benchmarks/*.py; do echo "== $$study"; PARLEY_STATE=$$(mktemp -d) $(BIN)/python $$study || exit 1; done

clean:
	rm -rf .venv build dist parley-demo .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
	rm -rf src/*.egg-info

# The newest pip reads an index in two thirds of the time: any other can fetch it, else the one that comes with Python.
.venv/bin/python:
	$(PYTHON) -m venv --without-pip .venv
	@$(PYTHON) -m pip --python $@ install --quiet --disable-pip-version-check --no-compile -c constraints.txt pip \
	  || { $@ -m ensurepip && { $(INSTALL) --upgrade pip || true; }; }

.venv/ready: .venv/bin/python pyproject.toml constraints.txt
	$(INSTALL) -e .
	@touch $@

# pip does one thing at a time: two of them fetch what is large, side by side, and a third finds what is left.
.venv/ready-dev: .venv/bin/python pyproject.toml lab/pyproject.toml constraints.txt
	@$(INSTALL) --no-deps opendp llvmlite pandas scikit-learn numpy mypy grpcio hypothesis & \
	  $(INSTALL) --no-deps pyarrow scipy matplotlib numba fonttools networkx cryptography pillow ruff; wait
	$(INSTALL) -e ".[dev]" -e ./lab
	@touch .venv/ready $@
