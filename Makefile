# `make demo` and `make test` set a fresh Debian or Ubuntu machine up by themselves.
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory
# Every process of a stack imports a thousand modules: Python compiles them once, not at each start.
unexport PYTHONDONTWRITEBYTECODE

BIN := .venv/bin
SETUP := scripts/setup.sh
CLIENT_SOURCES := $(shell find client -path client/node_modules -prune -o -path client/dist -prune \
	-o -type f -print 2>/dev/null)
PAGE_SOURCES := $(wildcard bench/page/*.* bench/page/src/*.ts bench/page/src/*/*.ts)
BENCHES := compile kernels_wasm ablation manifest cold
IMAGES := gateway compile aggregate fleet
# Two files at a time, the longest first: those that start whole stacks and browsers.
TESTS := tests/e2e tests/browser tests/images tests/chart tests/database tests/unit
ARGS ?=

.PHONY: help demo up compose test check static unit bench bench-page build generate lock clean setup

help:  ## This list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: setup  ## Tune a real kernel in real browsers and serve it to a page (about a minute)
	@$(BIN)/kernelzoo demo $(ARGS)

up: setup  ## Run the stack until Ctrl-C; ARGS="--agents 5" adds browser agents
	@$(BIN)/kernelzoo up $(ARGS)

compose:  ## Run the images under Docker Compose, with Prometheus and Grafana
	@docker/keys.sh
	@docker compose up --build --detach --wait $(ARGS)

test: setup .venv/.monitoring tests/chart/schemas/node_modules/.installed  ## All tests: unit, database, browser, end to end, client
	@$(BIN)/python -m pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder $(TESTS) $(ARGS)
	@npm --prefix client test --silent

check: static unit  ## Format, lint, types, imports, unit tests: the fast part

static: .venv/.installed client/node_modules/.installed
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/lint-imports --no-logo
	@npm --prefix client run --silent check

unit: .venv/.installed .venv/.monitoring
	@$(BIN)/python -m pytest tests/unit --quiet $(ARGS)

bench: setup bench-page  ## Benchmarks beside their peers (ten minutes); BENCHES=compile runs one
	@for name in $(BENCHES); do $(BIN)/python -m bench.$$name $(ARGS) || exit 1; done

bench-page: bench/page/dist/.built

build: setup  ## Everything that demo and test need, without running them

generate: .venv/.installed client/node_modules/.installed  ## Write the HTTP interface and the client's types of it
	@$(BIN)/python -m services.gateway.openapi > docs/api/openapi.json
	@npm --prefix client run --silent generate

lock: .venv/.installed  ## Write requirements.lock from pyproject.toml; ARGS=--upgrade raises versions
	@$(BIN)/uv pip compile pyproject.toml --group dev --universal --generate-hashes \
		--no-emit-index-url --no-header --quiet --output-file requirements.lock $(ARGS)
	@for image in $(IMAGES); do $(BIN)/uv pip compile --group image-$$image \
		--constraints requirements.lock --universal --generate-hashes --no-emit-index-url \
		--no-header --no-annotate --quiet --output-file docker/requirements/$$image.lock || exit 1; \
	done

clean:  ## Remove what was built and installed here; the data in .kernelzoo stays
	@rm -rf .venv client/node_modules client/dist bench/page/node_modules bench/page/dist \
		tests/chart/schemas/node_modules \
		.mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis

setup: .venv/.installed .venv/.system client/dist/.built

dashboards/grafana: $(wildcard dashboards/*.py) .venv/.installed
	@$(BIN)/python -m dashboards.generate

helm/kernelzoo/README.md: helm/kernelzoo/values.yaml helm/readme.py .venv/.installed
	@$(BIN)/python -m helm.readme

.venv/.installed: requirements.lock pyproject.toml $(SETUP)
	@$(SETUP) python

.venv/.system: .venv/.installed $(SETUP)
	@$(SETUP) system

.venv/.monitoring: .venv/.installed $(SETUP)
	@$(SETUP) monitoring

client/node_modules/.installed: client/package-lock.json $(SETUP)
	@$(SETUP) node

client/dist/.built: client/node_modules/.installed $(CLIENT_SOURCES)
	@$(SETUP) client

tests/chart/schemas/node_modules/.installed: tests/chart/schemas/package-lock.json
	@npm --prefix tests/chart/schemas ci --silent
	@touch $@

bench/page/node_modules/.installed: bench/page/package-lock.json
	@npm --prefix bench/page ci --silent
	@touch $@

bench/page/dist/.built: bench/page/node_modules/.installed client/node_modules/.installed \
		$(PAGE_SOURCES) $(CLIENT_SOURCES)
	@npm --prefix bench/page run --silent check
	@npm --prefix bench/page run --silent build
	@touch $@
