# Every target is one line; `make` alone is `make check`.
SHELL := /bin/bash -o pipefail
PYTHON ?= python3.11
BIN := .venv/bin
export PYSPARK_PYTHON := $(CURDIR)/$(BIN)/python
export PATH := $(CURDIR)/$(BIN):$(PATH)
unexport PYTHONDONTWRITEBYTECODE  # because every process of a test run would compile everything anew

.PHONY: check lint test demo bench specs docs nightly format lock clean
check: lint            ; @pytest -n 2 --dist worksteal -m "not cluster and not spark and not slow" $(T)
lint: .venv/ready      ; @ruff format --check --quiet . && ruff check --quiet . && mypy && lint-imports --no-logo
test: lint             ; @pytest -n 2 --dist worksteal -m "not cluster and not spark" $(T); one=$$?; pytest -n 3 --dist loadfile --no-loadscope-reorder -m "cluster or spark" $(T); two=$$?; [[ $$one$$two =~ ^(00|05|50)$$ ]]  # 5: none
demo: .venv/ready      ; @cvs demo
bench: .venv/ready     ; @python bench/$(or $(B),store).py
specs: .venv/ready     ; @python specs/run.py check
docs: .venv/ready      ; @python -m tests.house.docs
nightly: .venv/ready   ; @python tests/nightly.py $(PART)
format: .venv/ready    ; @ruff format --quiet . && ruff check --quiet --fix .
lock: .venv/ready      ; @uv pip compile --python-version 3.11 --generate-hashes --no-emit-index-url --no-header -q pyproject.toml --extra dev -o requirements.lock
clean:                 ; @rm -rf .venv .mypy_cache .ruff_cache .hypothesis

.venv/ready: requirements.lock requirements-bootstrap.lock pyproject.toml
	@$(PYTHON) -m venv .venv
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements-bootstrap.lock
	@$(BIN)/uv pip sync --quiet --python $(BIN)/python --require-hashes requirements.lock
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --editable .
	@touch $@
