# Two commands to know: `make demo` and `make test`. Each sets up the environment it needs, once.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/installed
WORKERS ?= 2

.DEFAULT_GOAL := help
.PHONY: help setup demo serve test lint browser bench clean

help:  ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | sort | awk -F '\t' '{printf "make %-8s %s\n", $$1, $$2}'

setup: $(STAMP)  ## the environment alone, in .venv

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[test]'
	touch $(STAMP)

demo: setup  ## train spelling → pronunciation in a few minutes, score it, look at it
	$(BIN)/regard demo

serve: setup  ## the demo's model behind HTTP, at http://127.0.0.1:8000 until Ctrl-C; trained first if it is not there
	test -e runs/demo/weights.safetensors || $(BIN)/regard demo
	$(BIN)/regard serve runs/demo

test: setup lint browser  ## everything that must hold before a change is merged; the last lines say what was skipped
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile

lint: setup  ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# apt-get waits for the lock of dpkg by itself, but not for that of its lists: update is repeated while that is held
browser:  ## Chromium for the tests of the page, where it can be installed; they say so and are skipped without it
	@command -v chromium >/dev/null || command -v google-chrome >/dev/null || \
	{ test "$$(id -u)" = 0 && command -v apt-get >/dev/null && \
	  for second in $$(seq 0 5 300); do \
	    said=$$(apt-get update -qq 2>&1); ended=$$?; \
	    test $$ended != 0 && echo "$$said" | grep -q "get lock" || break; \
	    test $$second != 0 || echo "waiting up to 5 minutes for another apt-get to end"; sleep 5; \
	  done; test $$ended = 0 && \
	  DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 install -y -qq --no-install-recommends \
	  chromium >/dev/null; } || \
	echo "no Chromium here: the tests of the page in a browser will be SKIPPED; the end of the tests says how many"

bench: setup  ## speed beside peers: `make bench DATA=folder of Multi30k`; `make bench WORK=decode DATA=…` for one
	$(BIN)/python -m bench $(or $(WORK),all) $(if $(DATA),--data $(DATA))

clean:  ## forget the environment and everything generated
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
