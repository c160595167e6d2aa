# `make help` lists the targets. PIP, PYTHON and TORCH may be set in the environment.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP ?= $(BIN)/python -m pip
TORCH ?= torch==2.13.0
PYTEST := $(BIN)/python -m pytest -q
# A file's tests mostly in one process, which makes once what they share; one that is done takes over from others.
EVERY := $(PYTEST) -n auto --dist worksteal
READY := $(VENV)/.ready
PROTO := src/refluid/core/profiler.proto src/refluid/ir/framework.proto

.DEFAULT_GOAL := help
.PHONY: help setup demo demo-collective demo-pserver examples test test-all test-avx2 check types policies \
  format bench bench-full docs site gpu proto clean
MAKEFLAGS += --no-print-directory
# Tests start many processes: each would compile all modules anew.
unexport PYTHONDONTWRITEBYTECODE

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY) ## make .venv with refluid and everything to develop it

$(READY): pyproject.toml
	@echo "setting up $(VENV) (a few minutes the first time)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) install -qq "$(TORCH)"
	@$(PIP) install -qq -e ".[dev,report,compat,convert]"
	-@$(BIN)/refluid prepare
	@touch $@

demo: $(READY) ## train a conv net on MNIST, save it, load it, draw what it recognises
	@$(BIN)/python scripts/fetch_data.py mnist
	@$(BIN)/refluid run examples/recognize_digits.py

demo-collective: $(READY) ## train it by one process and by two together: the same accuracy, a picture
	@$(BIN)/python scripts/fetch_data.py mnist
	@$(BIN)/refluid run examples/digits_together.py
	@$(BIN)/refluid launch -n 2 examples/digits_together.py

demo-pserver: $(READY) ## train on flights with two servers and two trainers in each mode, kill one server; a picture
	@$(BIN)/python scripts/fetch_data.py flights
	@$(BIN)/refluid run examples/delays_served.py

examples: $(READY) ## run the other examples on their data; pictures in demo-output/
	@$(BIN)/python scripts/fetch_data.py brown flights spam photos bible ratings
	@for name in map_words predict_delays recognize_spam feed_pictures translate recommend_films; \
	  do echo "examples/$$name.py"; $(BIN)/refluid run examples/$$name.py || exit $$?; done

test: $(READY) ## the tests, without the slow ones; WITHOUT=--ignore=FOLDER leaves one out
	@$(EVERY) -m "not slow and not gpu" $(WITHOUT)

test-all: $(READY) ## every test that needs no GPU, then `make test-avx2`
	@$(EVERY) -m "not gpu"
	@$(MAKE) test-avx2

test-avx2: $(READY) ## the tests as on a processor with AVX2 only
	@ONEDNN_MAX_CPU_ISA=AVX2 ATEN_CPU_CAPABILITY=avx2 $(MAKE) test

check: $(READY) ## lint, format, types, layers and policies
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --check --quiet . || \
	  { echo "not formatted (make format):"; $(BIN)/ruff format --check .; exit 1; }
	@$(BIN)/lint-imports --no-cache --no-logo > $(VENV)/layers.txt || { cat $(VENV)/layers.txt; exit 1; }
	@$(MAKE) -j 2 types policies

types:
	@$(BIN)/mypy --no-error-summary

policies:
	@$(PYTEST) tests/policies

format: $(READY) ## format the code and mend what ruff can mend
	@$(BIN)/ruff check --fix --quiet . ; $(BIN)/ruff format --quiet .

bench: $(READY) ## measure small networks, operators and feeding against eager PyTorch
	@$(BIN)/python -m benchmarks.suite --quick
	@$(BIN)/python benchmarks/operators.py
	@$(BIN)/python scripts/fetch_data.py photos || true
	@$(BIN)/python benchmarks/feeding.py

bench-full: $(READY) ## measure every network against every installed peer; keeps the results
	@$(BIN)/python -m benchmarks.suite --fresh --record

docs: $(READY) ## write docs/operators.md and the tables of docs/knobs.md and fleet.md from code; RECORDINGS=shared/golden/ops replays those anew
	@$(BIN)/python scripts/build_docs.py $(if $(RECORDINGS),--recordings $(RECORDINGS))
	@$(BIN)/python scripts/knob_page.py
	@$(BIN)/python scripts/fleet_page.py

site: $(READY) ## build the documentation as web pages in build/site and check them in Chromium
	@$(PIP) install -qq -e ".[site]"
	@$(BIN)/python -m scripts.site.build
	@$(BIN)/python -m scripts.site.check

gpu: $(READY) ## tests and benchmark on a CUDA device, where there is one
	@if $(BIN)/python -c 'import sys, torch; sys.exit(not torch.cuda.is_available())'; then \
	  $(PYTEST) -m gpu; status=$$?; test $$status -eq 0 -o $$status -eq 5 || exit $$status; \
	  $(BIN)/python -m benchmarks.suite --device cuda --record && \
	  $(BIN)/python -m benchmarks.suite --device cuda --half float16 --record \
	    --workloads resnet50 bert && \
	  $(BIN)/python -m benchmarks.suite --device cuda --half bfloat16 --record \
	    --workloads resnet50 bert; \
	else echo "make gpu: torch sees no CUDA device here; nothing was run"; fi

proto: ## make the _pb2.py files anew from the .proto files
	@test -x .venv-proto/bin/python || $(PYTHON) -m venv .venv-proto
	@.venv-proto/bin/python -m pip install -qq grpcio-tools==1.62.3 "setuptools<80"
	@cd src && ../.venv-proto/bin/python -m grpc_tools.protoc -I. --python_out=. --pyi_out=. \
	  $(patsubst src/%,%,$(PROTO))

clean: ## remove what the targets made
	@rm -rf $(VENV) .venv-proto .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
