# Every target makes the environment first where it is missing or out of date.

PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
CORE := .venv/.installed-core
PEERS := .venv-peers
TESTERS ?= 2

.DEFAULT_GOAL := help
.PHONY: help setup demo label test check page bench bench-strategies bench-label soak format clean

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP)  ## make the environment in .venv

$(STAMP): pyproject.toml constraints.txt
	@echo "Making the environment in .venv: a few minutes the first time"
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt -e ".[dev]"
	@touch $@

# What people need who only label; the rest, for developers, is several times as much.
$(CORE): pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@test -e $(STAMP) || (echo "Making an environment for labelling in .venv: a minute or two the first time" && \
		$(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt -e .)
	@touch $@

label: $(CORE)  ## label small digits in the browser
	@$(BIN)/understudy label --demo

demo: $(STAMP)  ## compare four strategies on the digits: a table, and a report in demo/
	@$(BIN)/understudy demo

test: $(STAMP)  ## run all tests, in two processes (TESTERS=4 make test: in four)
	@$(BIN)/python -m pytest -n $(TESTERS) --dist loadfile --no-loadscope-reorder

check: $(STAMP)  ## format, lint, types, layers and documentation
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest --quiet tests/test_docs.py README.md docs

page:  ## build the labelling page (needs Node 20.19 or later)
	cd page && npm ci --no-fund --no-audit && npm test && npm run build

bench: $(STAMP)  ## time the picks and the search for basis points
	$(BIN)/python benchmarks/picks.py --out benchmarks/results/picks-cpu.json
	$(BIN)/python benchmarks/kmeans.py

bench-strategies: $(PEERS)/.installed  ## time every strategy beside other libraries': an hour or two
	$(PEERS)/bin/python benchmarks/strategies.py --out benchmarks/results/strategies.json
	$(PEERS)/bin/python benchmarks/strategies.py --write-pages

$(PEERS)/.installed: pyproject.toml constraints.txt
	@echo "Making an environment for other libraries in $(PEERS)"
	@test -x $(PEERS)/bin/python || $(PYTHON) -m venv $(PEERS)
	@$(PEERS)/bin/python -m pip install -qq --disable-pip-version-check -c constraints.txt -e ".[peers]"
	@touch $@

bench-label: $(STAMP)  ## time from a label to its answer, and from a key to the next image
	$(BIN)/python benchmarks/label_latency.py --out benchmarks/results/label-latency.json
	$(BIN)/python benchmarks/page_speed.py --out benchmarks/results/page-speed.json

soak: $(STAMP)  ## kill the server, compare and embed again and again: is anything lost? about 40 minutes
	$(BIN)/python benchmarks/label_kills.py --kills 50 --labels 2000 --out benchmarks/results/soak-label.json
	$(BIN)/python benchmarks/label_kills.py --kills 50 --labels 2000 --postgres \
		--out benchmarks/results/soak-label-postgres.json
	UNDERSTUDY_SOAK=1 $(BIN)/python -m pytest -s tests/web/test_openapi.py | tee benchmarks/results/soak-api.txt
	$(BIN)/python benchmarks/compare_kills.py --kills 20 --out benchmarks/results/soak-compare.json
	$(BIN)/python benchmarks/embed_kills.py --encoder python:examples/keras_resnet50.py:thumbnails \
		--images 6000 --kills 100 --longest 4 --out benchmarks/results/soak-embed.json

format: $(STAMP)  ## format the code, mend what the linter can, and remake what pages take from the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(BIN)/python tests/made_pages.py

clean:  ## remove what was made here, except the environment
	rm -rf demo build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name '.venv*' -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +
