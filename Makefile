# Every target that needs the environment builds it first; nothing is done twice.

SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help setup demo test lint bench long figures clean

BIN := .venv/bin
STAMP := .venv/setup.stamp
WORKERS ?= 2
# The tests start hundreds of processes, and each would compile Whence anew.
unexport PYTHONDONTWRITEBYTECODE

help: ## List the targets.
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMP) ## Build .venv with Whence and the tools to work on it.

$(STAMP): pyproject.toml scripts/setup.sh
	@bash scripts/setup.sh
	@touch $@

demo: setup ## Watch groups communicate under faults, simulated and as eight live processes, and see every promise judged.
	@$(BIN)/whence demo
	@$(BIN)/whence report out/demo --out out/demo/pipeline.html

test: lint ## Check the style and types, then run every test with coverage of core and wire.
	@$(BIN)/pytest -n $(WORKERS) --dist loadgroup --cov --cov-config=pyproject.toml --cov-report=term --durations=15

lint: setup ## Check style, format and types.
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy --strict $(wildcard src tests bench examples)

long: setup ## Run every test at full size, the long ones too; takes far longer than make test.
	@$(BIN)/pytest -n $(WORKERS) --dist loadgroup --long

bench: setup ## Run every benchmark; each prints one JSON line. Fails at the end if a goal was missed.
	@missed=""; \
	for script in bench/[a-z]*.py; do $(BIN)/python "$$script" || missed="$$missed $$script"; done; \
	[[ -z "$$missed" ]] || { echo "goals missed by:$$missed" >&2; exit 1; }

figures: setup ## Reproduce every figure of the papers in quick mode, into out/figures; half an hour on two cores.
	@$(BIN)/whence reproduce all --quick --out out/figures

clean: ## Remove the environment, caches and everything generated.
	@rm -rf .venv out build dist .coverage .coverage.* .hypothesis .mypy_cache .pytest_cache .ruff_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
