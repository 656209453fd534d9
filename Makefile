# `make demo` and `make test` set a fresh Debian or Ubuntu machine up by themselves.
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory
# Every process of a stack imports a thousand modules: Python compiles them once, not at each start.
unexport PYTHONDONTWRITEBYTECODE

BIN := .venv/bin
SETUP := scripts/setup.sh
CLIENT_SOURCES := $(shell find client -path client/node_modules -prune -o -path client/dist -prune \
	-o -type f -print 2>/dev/null) $(wildcard docs/*.md docs/adr/*.md)
PAGE_SOURCES := $(wildcard bench/page/*.* bench/page/src/*.ts bench/page/src/*/*.ts)
BENCHES := kernels.compile kernels.wasm kernels.ablation serving.manifest serving.cold
IMAGES := gateway compile aggregate fleet
# Two files at a time, the longest first: those that start whole stacks and browsers.
TESTS := tests/e2e tests/browser tests/images tests/chart tests/database tests/unit
PYTHON_SOURCES := kernelzoo cli services workers dashboards helm scripts bench fixtures
NJSSCAN_RULES := .venv/audit/bin/python -c \
	'import njsscan, os; print(os.path.join(njsscan.__path__[0], "rules", "semantic_grep"))'
# Seconds in all, seconds and MiB for one input.
FUZZ := -max_total_time=20 -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 -artifact_prefix=.venv/
ARGS ?=

.PHONY: help demo up compose test test-all tests check static unit audit bench bench-page networks nodes stale replay prose build generate lock clean setup

help:  ## This list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: setup bench-page  ## Tune real kernels and a network in real browsers, serve them to pages (under two minutes)
	@$(BIN)/kernelzoo demo $(ARGS)

up: setup  ## Run the stack until Ctrl-C; ARGS="--agents 5" adds browser agents
	@$(BIN)/kernelzoo up $(ARGS)

compose:  ## Run the images under Docker Compose, with Prometheus and Grafana
	@docker/keys.sh
	@docker compose up --build --detach --wait $(ARGS)

test: TIER := -m "not slow"
test-all: TIER := --hypothesis-profile thorough

test: tests  ## Tests of every main path, for every commit: unit, database, browser, end to end, client

test-all: tests  ## Every test, before a release: those marked slow as well, and more drawn examples

tests: setup bench-page .venv/.monitoring tests/chart/schemas/node_modules/.installed \
		tests/browser/transformers/node_modules/.installed
	@$(BIN)/python -m scripts.tests --numprocesses 2 --dist loadfile --no-loadscope-reorder $(TIER) $(TESTS) $(ARGS)
	@npm --prefix client test --silent

check:  ## Format, lint, types, imports, unit tests: the fast part, with the seconds that it took
	@begin=$$(date +%s); $(MAKE) static unit && echo "checked in $$(($$(date +%s) - begin)) s"

static: .venv/.installed client/node_modules/.installed bench/page/node_modules/.installed
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/lint-imports --no-logo
	@npm --prefix client run --silent check
	@npm --prefix bench/page run --silent check

unit: .venv/.installed .venv/.monitoring
	@$(BIN)/python -m pytest tests/unit --quiet -m "not slow" $(ARGS)

audit: .venv/.audit tests/security/node_modules/.installed  ## Security: static analysis, known vulnerabilities, fuzzing (two minutes)
	@.venv/audit/bin/bandit --quiet --recursive --severity-level medium \
		--configfile tests/security/bandit.yaml $(PYTHON_SOURCES)
	@PATH="$(CURDIR)/.venv/audit/bin:$$PATH" semgrep scan --metrics off --disable-version-check --quiet \
		--error --config tests/security/semgrep.yaml --config "$$($(NJSSCAN_RULES))" \
		$(PYTHON_SOURCES) client/src
	@tests/security/node_modules/.bin/eslint --config tests/security/eslint.config.js \
		--max-warnings 0 client examples
	@.venv/audit/bin/python -m tests.security.advisories
	@if ! $(BIN)/python -c 'import atheris' 2>/dev/null; then \
		echo "not fuzzed: Atheris has no build for this machine"; \
	elif $(BIN)/python -m tests.fuzz.parsers $(FUZZ) >.venv/fuzz.log 2>&1; then \
		grep executed .venv/fuzz.log; \
	else tail -n 40 .venv/fuzz.log; exit 1; fi

bench: setup bench-page  ## Benchmarks beside their peers (ten minutes); BENCHES=kernels.compile runs one
	@for name in $(BENCHES); do $(BIN)/python -m bench.$$name $(ARGS) || exit 1; done

bench-page: bench/page/dist/.built

networks: .venv/.models  ## Networks with random weights as ONNX in .kernelzoo/networks; ARGS="resnet50 minilm" makes these
	@.venv/models/bin/python -m bench.models.export .kernelzoo/networks $(ARGS)

nodes: setup  ## ONNX's tests of all operators in Chromium (minutes); writes docs/onnx.md
	@$(BIN)/python -W ignore::RuntimeWarning -m scripts.onnx_coverage

stale: .venv/.installed  ## Benchmark results that are older than the code that they measure
	@$(BIN)/python -m bench.stale

prose: .venv/.installed  ## Docstrings that open without a main clause; ARGS="typescript client/src/sdk"
	@$(BIN)/python -m scripts.docstrings $(ARGS)

replay: .venv/.installed  ## Kernels that differ from the merge base; ARGS="COMMIT --all --diff 3"
	@$(BIN)/python -m scripts.replay $(ARGS)

build: setup  ## Everything that demo and test need, without running them

generate: .venv/.installed client/node_modules/.installed  ## Write what follows from code and results: interface, types, docs/api, docs/operators.md, docs/sizing.md, tables of docs/plans.md
	@$(BIN)/python -m scripts.operators
	@$(BIN)/python -m scripts.sizing
	@$(BIN)/python -m scripts.plan_figures
	@$(BIN)/python -m services.gateway.openapi > docs/api/openapi.json
	@$(BIN)/python -m kernelzoo.formats.key_types > client/src/wire/operators.ts
	@npm --prefix client run --silent generate
	@npm --prefix client run --silent reference

lock: .venv/.installed  ## Write requirements.lock from pyproject.toml; ARGS=--upgrade raises versions
	@$(BIN)/uv pip compile pyproject.toml --group dev --universal --generate-hashes \
		--no-emit-index-url --no-header --quiet --output-file requirements.lock $(ARGS)
	@$(BIN)/uv pip compile --group audit --universal --generate-hashes --no-emit-index-url \
		--no-header --no-annotate --quiet --output-file tests/security/requirements.lock $(ARGS)
	@$(BIN)/uv pip compile --group models --universal --generate-hashes --no-emit-index-url \
		--no-header --no-annotate --quiet --output-file bench/models/requirements.lock $(ARGS)
	@for image in $(IMAGES); do $(BIN)/uv pip compile --group image-$$image \
		--constraints requirements.lock --universal --generate-hashes --no-emit-index-url \
		--no-header --no-annotate --quiet --output-file docker/requirements/$$image.lock || exit 1; \
	done

clean:  ## Remove what was built and installed here; the data in .kernelzoo stays
	@rm -rf .venv client/node_modules client/dist bench/page/node_modules bench/page/dist \
		tests/chart/schemas/node_modules tests/browser/transformers/node_modules \
		tests/security/node_modules \
		.mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis

setup: .venv/.installed .venv/.system client/dist/.built .kernelzoo/networks/digits.onnx

.kernelzoo/networks/digits.onnx: examples/digits/train.py examples/digits/strokes.py .venv/.installed
	@echo "· training the network of examples/digits"
	@OPENBLAS_NUM_THREADS=1 $(BIN)/python examples/digits/train.py $@

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

.venv/.audit: .venv/.installed tests/security/requirements.lock $(SETUP)
	@$(SETUP) audit

.venv/.models: .venv/.installed bench/models/requirements.lock $(SETUP)
	@$(SETUP) models

tests/security/node_modules/.installed: tests/security/package-lock.json
	@npm --prefix tests/security ci --silent
	@touch $@

client/node_modules/.installed: client/package-lock.json $(SETUP)
	@$(SETUP) node

client/dist/.built: client/node_modules/.installed $(CLIENT_SOURCES)
	@$(SETUP) client

tests/chart/schemas/node_modules/.installed: tests/chart/schemas/package-lock.json
	@npm --prefix tests/chart/schemas ci --silent
	@touch $@

tests/browser/transformers/node_modules/.installed: tests/browser/transformers/package-lock.json
	@npm --prefix tests/browser/transformers ci --silent
	@touch $@

bench/page/node_modules/.installed: bench/page/package-lock.json
	@npm --prefix bench/page ci --silent
	@touch $@

bench/page/dist/.built: bench/page/node_modules/.installed client/node_modules/.installed \
		$(PAGE_SOURCES) $(CLIENT_SOURCES)
	@npm --prefix bench/page run --silent build
	@touch $@
