# Every target works in a fresh clone with Python 3.11, make and git; installing happens once.
PYTHON ?= python3.11
export GRADIO_ANALYTICS_ENABLED := False
export TOKENIZERS_PARALLELISM := true

.DEFAULT_GOAL := help
.PHONY: help quickstart app test check

help: ## print this help
	@grep -E '^[a-z]+:.*## ' Makefile | sed 's/:.*## /\t/' | expand -t 14

quickstart: .venv/.installed ## from nothing to an answer: sample corpus, dataset, tokenizer, model, metrics, answer
	.venv/bin/python data_scripts/make_sample_corpus.py --output outputs/sample-corpus --pairs 12000 --overwrite
	.venv/bin/python data_scripts/build_dataset.py --input outputs/sample-corpus --output outputs/sample-dataset --overwrite
	.venv/bin/python data_scripts/train_tokenizer.py --dataset outputs/sample-dataset --output outputs/sample-tokenizer --overwrite
	.venv/bin/wenzhen train recipes/quickstart.yaml --overwrite
	.venv/bin/wenzhen train recipes/quickstart-departments.yaml --overwrite
	.venv/bin/wenzhen index outputs/quickstart --overwrite
	.venv/bin/wenzhen evaluate outputs/quickstart
	.venv/bin/wenzhen answer outputs/quickstart "我今年55岁，上个月体检发现高血压。平时要注意什么？"
	@echo
	@echo "model       outputs/quickstart"
	@echo "metrics     outputs/quickstart/metrics.json"
	@echo "loss curve  outputs/quickstart/figures/loss.png"
	@echo "evidence    outputs/quickstart/evidence"
	@echo "demo        make app"

app: .venv/.installed ## open the demo on the quickstart model
	.venv/bin/python app.py --model outputs/quickstart

test: .venv/.installed-dev ## run the tests
	.venv/bin/python -m pytest --numprocesses auto --dist worksteal

check: .venv/.installed-dev ## run ruff and mypy
	.venv/bin/python -m ruff check .
	.venv/bin/python -m ruff format --check .
	.venv/bin/python -m mypy

.venv/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	.venv/bin/python -m pip install -c constraints.txt -e .
	touch .venv/.installed

.venv/.installed-dev: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	.venv/bin/python -m pip install -c constraints.txt -e ".[dev]"
	touch .venv/.installed .venv/.installed-dev
