# Every target makes the environment first where it is missing or out of date.

PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
CORE := .venv/.installed-core
PEERS := .venv-peers
BUILDERS := .venv-build
LABELSTUDIO := .venv-labelstudio
TESTERS ?= 2
SITE := OMP_NUM_THREADS=1 $(BIN)/sphinx-build -q -W --keep-going -b html -c docs/site

# torch comes with CUDA from the usual index, 6.1 GB in all. A Linux machine without NVIDIA's driver gets the build for the CPU,
# where PyTorch's own index can be reached; an environment that has torch keeps the one it has.
CPU_TORCH := https://download.pytorch.org/whl/cpu
define choose_torch
@if test "$$(uname -s)" = Linux && ! command -v nvidia-smi >/dev/null && \
	! $(BIN)/python -c 'import importlib.metadata as m; m.version("torch")' 2>/dev/null; then \
	echo "No GPU here: torch is installed for the CPU, 5 GB less than with CUDA"; \
	$(BIN)/python -m pip install -qq --disable-pip-version-check --no-deps --retries 0 --timeout 10 \
		-c constraints.txt --index-url $(CPU_TORCH) torch 2>/dev/null || \
	echo "$(CPU_TORCH) cannot be reached; torch comes with CUDA from the usual index"; \
fi
endef

.DEFAULT_GOAL := help
.PHONY: help setup demo label test check lint site page wheel bench-install bench bench-strategies bench-label soak format clean

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP)  ## make the environment in .venv

$(STAMP): pyproject.toml constraints.txt
	@echo "Making the environment in .venv: a few minutes the first time"
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(choose_torch)
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt -e ".[dev]"
	@touch $@

# What people need who only label; the rest, for developers, is several times as much.
$(CORE): pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@test -e $(STAMP) || echo "Making an environment for labelling in .venv: a minute or two the first time"
	$(choose_torch)
	@test -e $(STAMP) || $(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt -e .
	@touch $@

label: $(CORE)  ## label small digits in the browser
	@$(BIN)/understudy label --demo

demo: $(STAMP)  ## compare four strategies on the digits: a table, and a report in demo/
	@$(BIN)/understudy demo

test: $(STAMP)  ## run all tests, in two processes (TESTERS=4 make test: in four)
	@$(BIN)/python -m pytest -n $(TESTERS) --dist loadfile --no-loadscope-reorder

check: lint  ## format, lint, types, layers and documentation
	$(BIN)/python -m pytest --quiet tests/test_docs.py README.md docs

# All of `check` that `make test` does not do.
lint: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(SITE) -t quick -d build/site-check . build/site
	$(BIN)/python docs/site/check_site.py build/site

site: $(STAMP)  ## build the documentation site in site/, and run its notebooks where they changed
	$(SITE) -d build/site-pages . site
	$(BIN)/python docs/site/check_site.py site

page:  ## build the labelling page and the plotting library (needs Node 20.19 or later)
	cd page && npm ci --no-fund --no-audit && npm test && npm run build
	cd page/plot && npm ci --no-fund --no-audit && npm run build

wheel: $(BUILDERS)/.installed  ## build the package into dist/ and check what is in it
	$(BUILDERS)/bin/python benchmarks/wheel.py --out dist

$(BUILDERS)/.installed:
	@test -x $(BUILDERS)/bin/python || $(PYTHON) -m venv $(BUILDERS)
	@$(BUILDERS)/bin/python -m pip install -qq --disable-pip-version-check build twine
	@touch $@

bench-install: $(STAMP) wheel  ## install the package and each extra alone in clean environments, and use them: about 30 minutes
	$(BIN)/python benchmarks/install.py dist/understudy_al-*.whl --extras none --out benchmarks/results/install-cuda.json
	$(BIN)/python benchmarks/install.py dist/understudy_al-*.whl --torch torch==2.13.0 --out benchmarks/results/install.json
	$(BIN)/python benchmarks/install.py

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

$(LABELSTUDIO)/.installed:
	@echo "Making an environment for Label Studio in $(LABELSTUDIO): a gigabyte, several minutes"
	@test -x $(LABELSTUDIO)/bin/python || $(PYTHON) -m venv $(LABELSTUDIO)
	@$(LABELSTUDIO)/bin/python -m pip install -qq --disable-pip-version-check "label-studio==1.23.*"
	@touch $@

soak: $(STAMP) $(LABELSTUDIO)/.installed  ## kill the server, compare and embed again and again, follow a real Label Studio: is anything lost? more than an hour
	$(BIN)/python benchmarks/label_kills.py --kills 50 --labels 2000 --out benchmarks/results/soak-label.json
	$(BIN)/python benchmarks/label_kills.py --kills 50 --labels 2000 --postgres \
		--out benchmarks/results/soak-label-postgres.json
	UNDERSTUDY_SOAK=1 $(BIN)/python -m pytest -s tests/web/test_openapi.py | tee benchmarks/results/soak-api.txt
	$(BIN)/python benchmarks/compare_kills.py --kills 20 --out benchmarks/results/soak-compare.json
	$(BIN)/python benchmarks/compare_kills.py --kills 20 --regimes --out benchmarks/results/soak-compare-regimes.json
	$(BIN)/python benchmarks/embed_kills.py --encoder python:examples/keras_resnet50.py:thumbnails \
		--images 6000 --kills 100 --longest 4 --out benchmarks/results/soak-embed.json
	$(BIN)/python benchmarks/label_studio.py --label-studio $(LABELSTUDIO)/bin/label-studio \
		--out benchmarks/results/label-studio.json

format: $(STAMP)  ## format the code, mend what the linter can, and remake what pages take from the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(BIN)/python tests/made_pages.py

clean:  ## remove what was made here, except the environment
	rm -rf demo build dist site docs/notebooks .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name '.venv*' -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +
