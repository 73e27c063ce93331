# Everything here starts from a bare machine: each target first brings .venv up to date.
.DEFAULT_GOAL := help
.PHONY: help demo test check lint bench bench-all bench-layers bench-decoder bench-encoded conformance fuzz fuzz-long stages replay math-exhaustive kernel keras pytorch jax tensorflow rtl report-test compression compressed-networks cortex-m4 targets pythons docs docs-test tutorials release packages light clean

BIN := .venv/bin
WORKERS ?= 2
N ?= 1000
LAYERS ?= 110
SEED ?= 0
HOURS ?= 1
# For make compression: a Python that has PyTorch and Ingot's extra test already, instead of installing them.
TRAINER ?= $(BIN)/python

help: ## show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## compile a digit classifier, run it on 360 images, show what it costs
	@tools/bootstrap.sh
	@$(BIN)/python examples/digits/demo.py

test: ## run every test (WORKERS=2 processes)
	@tools/bootstrap.sh test
	@tools/debian-packages.sh
	@tools/debian-packages.sh tools/kernel-packages.txt
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

check: lint ## before a commit, under 15 s: lint, the layering test, one net end to end
	@tools/bootstrap.sh test dev
	$(BIN)/python -m pytest tests/test_layering.py tests/test_tiny.py

lint: ## format, lint and types, changing nothing
	@tools/bootstrap.sh dev
	$(BIN)/python -m ruff format --check .
	$(BIN)/python -m ruff check .
	$(BIN)/python -m mypy

bench: ## measure the models of benchmarks/ beside onnxruntime, into build/benchmarks
	@tools/bootstrap.sh test
	@$(BIN)/python -m benchmarks.run

bench-all: ## the whole suite beside every peer that PEERS=python EMX= ONNX2C= SOURCES= have, into its README
	@tools/bootstrap.sh test
	@$(BIN)/python -m benchmarks.run --all --random --update \
	  $(if $(PEERS),--peers-python $(PEERS)) $(if $(EMX),--emx $(EMX)) $(if $(ONNX2C),--onnx2c $(ONNX2C)) \
	  $(if $(SOURCES),--sources $(SOURCES))
	@$(BIN)/python -m benchmarks.layers $(LAYERS)

bench-layers: ## random single layers beside onnxruntime, the worst ten by name (LAYERS=110, ten minutes)
	@tools/bootstrap.sh test
	@$(BIN)/python -m benchmarks.layers $(LAYERS)

bench-decoder: ## a decoder of 4-bit weights beside llama.cpp, into benchmarks/README.md (LLAMA=llama-bench built here; TRAINER=python3 with gguf)
	@tools/bootstrap.sh test
	@PYTHONPATH=src:. $(TRAINER) -m benchmarks.decoder --llama-bench $(LLAMA) --update benchmarks/README.md

bench-encoded: ## compressed dense layers beside dense ones, in two minutes; renews a table of docs/compression.md
	@tools/bootstrap.sh test
	@$(BIN)/python -m benchmarks.encoded --update \
	  $(if $(PEERS),--against onnxruntime --against openvino --peers-python $(PEERS))

conformance: ## run onnx's 2033 backend tests, write docs/operators.md
	@tools/bootstrap.sh test
	@$(BIN)/python -m tests.conformance.runner --workers $(WORKERS)

fuzz: ## N=1000 random models from SEED=0 on, beside onnxruntime; hostile files, two minutes; random stages
	@tools/bootstrap.sh test
	@tools/bootstrap.sh fuzz || echo "make fuzz: Atheris cannot be installed for this Python"
	@$(BIN)/python -m tests.fuzz $(N) $(SEED)
	@$(BIN)/python -m tests.fuzz.hunt --seconds 120 --seed $(SEED)
	@$(BIN)/python -m tests.stages all 100 $(SEED)

fuzz-long: ## hostile files for every reader, an hour (HOURS=1); writes what was reached to docs/fuzzing.md
	@tools/bootstrap.sh test
	@tools/bootstrap.sh fuzz || echo "make fuzz-long: Atheris cannot be installed for this Python"
	@$(BIN)/python -m tests.fuzz.hunt --document --seed $(SEED) --seconds $(shell awk 'BEGIN { print $(HOURS) * 3600 }')

replay: ## which C differs from what BASE=commit emits; QUICK=1 for a share, SEE=--help for more
	@tools/bootstrap.sh test
	@$(if $(BASE),,$(error BASE=commit says what to compare with))
	@$(BIN)/python -m tests.replay $(BASE) --workers $(WORKERS) $(if $(QUICK),--quick) $(SEE)

stages: ## N=2000 random stages of every generator (GENERATOR=all) from SEED=0 on, beside their formulas
	@tools/bootstrap.sh test
	@$(BIN)/python -m tests.stages $(or $(GENERATOR),all) $(if $(filter command line,$(origin N)),$(N),2000) $(SEED)

math-exhaustive: ## all 2^32 arguments of the float32 math functions (20 minutes), writes docs/math.md
	@tools/bootstrap.sh test
	@$(BIN)/python -m tests.exhaustive --workers $(WORKERS)

kernel: ## only the tests in Debian's kernel under QEMU (`make test` runs them too), two minutes
	@tools/bootstrap.sh test
	@tools/debian-packages.sh tools/kernel-packages.txt
	$(BIN)/python -m pytest -n $(WORKERS) tests/kernel

keras: ## layers and networks of Keras 3 beside its own answers, into docs/keras.md (KERAS=a Python that has it)
	@tools/bootstrap.sh test
	@$(if $(KERAS),,$(BIN)/python -m pip install --quiet 'keras>=3.15,<3.16' jax)
	@PYTHONPATH=src:. $(or $(KERAS),$(BIN)/python) -m tests.keras.oracle layers
	@PYTHONPATH=src:. $(or $(KERAS),$(BIN)/python) -m tests.keras.oracle networks --update docs/keras.md

pytorch: ## networks of PyTorch and scikit-learn beside their own answers, into docs/pytorch.md (PYTORCH=a Python that has them)
	@tools/bootstrap.sh test
	@$(if $(PYTORCH),,tools/bootstrap.sh test torch && $(BIN)/python -m pip install --quiet scikit-learn skl2onnx)
	@PYTHONPATH=src:. $(or $(PYTORCH),$(BIN)/python) -m tests.pytorch.oracle --update docs/pytorch.md

jax: ## networks of Flax beside JAX's own answers, into docs/pytorch.md (JAX=a Python that has them, else build/jax)
	@tools/bootstrap.sh test
	@$(if $(JAX),,$(BIN)/python -m venv build/jax && build/jax/bin/pip install --quiet '.[test]' jax flax jax2onnx)
	@PYTHONPATH=src:. $(or $(JAX),build/jax/bin/python) -m tests.jax.oracle --update docs/pytorch.md

tensorflow: ## networks as SavedModels and TFLite beside TensorFlow's own answers (TENSORFLOW=a Python, else build/tensorflow)
	@tools/bootstrap.sh test
	@$(if $(TENSORFLOW),,$(BIN)/python -m venv build/tensorflow && \
	  build/tensorflow/bin/pip install --quiet '.[test]' tensorflow-cpu)
	@KERAS_BACKEND=tensorflow TF_CPP_MIN_LOG_LEVEL=3 PYTHONPATH=src:. \
	  $(or $(TENSORFLOW),build/tensorflow/bin/python) -m tests.tensorflow.networks --update

rtl: ## the accelerator's Verilog under Verilator beside its simulator, and its cells; writes docs/hardware.md
	@tools/bootstrap.sh test rtl
	@tools/debian-packages.sh verilator yosys g++ make
	@$(BIN)/python -m tests.rtl --update

report-test: ## pages of `ingot report` in headless Chromium, clicked and measured at two widths, a minute
	@tools/bootstrap.sh test
	@tools/debian-packages.sh chromium chromium-driver
	@$(BIN)/python -m pip install --quiet 'selenium>=4.20'
	$(BIN)/python -m pytest tests/report/browser.py

compression: ## the paper's tables of AlexNet and VGG-16; two LeNets on digits, 46 times smaller (12 minutes; TRAINER=python3)
	@[ "$(TRAINER)" != "$(BIN)/python" ] || tools/bootstrap.sh test train
	@PYTHONPATH=src $(TRAINER) examples/compression/paper.py
	PYTHONPATH=src:. $(TRAINER) -m pytest tests/compress/finetune.py
	@PYTHONPATH=src $(TRAINER) examples/compression/measure.py

compressed-networks: ## ResNet-8 and DS-CNN compressed with training, into docs/compression.md (DATA=clones, two hours; TRAINER=python3)
	@[ "$(TRAINER)" != "$(BIN)/python" ] || tools/bootstrap.sh test train
	@PYTHONPATH=src:. $(TRAINER) -m benchmarks.compressed $(DATA) --update docs/compression.md --svg docs/compressed.svg

cortex-m4: ## both LeNets on a Cortex-M4 under QEMU: mistakes, instructions, flash, RAM
	@[ "$(TRAINER)" != "$(BIN)/python" ] || tools/bootstrap.sh test train
	@tools/debian-packages.sh qemu-system-arm
	@PYTHONPATH=src $(TRAINER) examples/compression/cortex_m4.py

targets: ## a corpus on every target: compiled, audited, run where QEMU, Node or wine can; into docs/targets.md
	@tools/bootstrap.sh test
	@tools/debian-packages.sh
	@$(BIN)/python -m tests.everywhere --workers $(WORKERS) --update docs/targets.md

packages: ## every kind of package built and run by its ecosystem's tools, as far as they are here
	@tools/bootstrap.sh test
	@tools/debian-packages.sh
	@$(BIN)/python -m pip install --quiet platformio idf-component-manager || echo "make packages: no PlatformIO, no ESP-IDF"
	@PATH="$(abspath $(BIN)):$$PATH" INGOT_PACKAGES=1 $(BIN)/python -m pytest tests/packages tests/test_png.py tests/resnet50_png.py

light: ## the nine light models of the onnx package, random weights, beside onnxruntime
	@tools/bootstrap.sh test
	@$(BIN)/python -m tests.light

pythons: ## the wheel and each extra in bare environments of every CPython here (4 minutes each), into docs/install.md
	@tools/bootstrap.sh test
	@$(BIN)/python -m tests.install --update docs/install.md $(PYTHONS)

docs: ## the documentation site into build/site; every link and anchor is checked
	@tools/bootstrap.sh docs
	@PYTHONPATH=src $(BIN)/python tools/site_pages.py
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "the site is build/site/index.html"

docs-test: docs ## every page of the site in headless Chromium at two widths: width, contrast, scripts
	@tools/bootstrap.sh test
	@tools/debian-packages.sh chromium chromium-driver
	@$(BIN)/python -m pip install --quiet 'selenium>=4.20'
	$(BIN)/python -m pytest tests/site/browser.py

tutorials: ## every command of every tutorial, into docs/tutorials/index.md (TUTORIALS=a Python that has PyTorch, Keras, JAX)
	@tools/bootstrap.sh test
	@tools/debian-packages.sh
	@tools/debian-packages.sh tools/kernel-packages.txt
	@tools/debian-packages.sh chromium
	@$(if $(TUTORIALS),,tools/bootstrap.sh test torch && $(BIN)/python -m pip install --quiet 'keras>=3.15,<3.16' jax)
	@$(BIN)/python -m tests.tutorials --update $(if $(TUTORIALS),--python $(TUTORIALS))

release: ## the source archive and the wheel, twice and compared, from a clean tree, into dist/ (VERSION= asks for one)
	@tools/bootstrap.sh test
	@$(BIN)/python tools/release.py $(VERSION)

clean: ## remove build products and caches (keeps .venv)
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache
	find . -path ./.venv -prune -o -type d -name __pycache__ -prune -exec rm -rf {} +
