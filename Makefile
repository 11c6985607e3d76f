# Two commands from a fresh machine: `make train ENV=Pendulum-v1` and `make test`. Both make .venv on the way.
#
#   PYTHON       the Python to build .venv with, 3.11 or later
#   TORCH        what pip installs as torch, before anything that depends on it: so nothing else chooses its build
#   TORCH_INDEX  where pip takes torch from. Set it to PyTorch's index of CPU wheels on a Linux machine without an
#                NVIDIA GPU, where the default build brings several GB of CUDA libraries that nothing will use.

PYTHON ?= python3
TORCH ?= torch==2.13.0
TORCH_INDEX ?=
ENV ?= Pendulum-v1
ARGS ?=
WHAT ?= run
SECONDS ?= 3600

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check

# wheels only: compiling a simulator takes minutes and a compiler; where there is no wheel the rest still installs
COMPILED := pybullet,box2d,box2d-py,envpool,mujoco
SIMULATORS := mujoco bullet box2d envpool

.PHONY: train test check slow faults soak gpu learning bench screenshots audit peers clean

train: $(VENV)/simulators.stamp
	$(BIN)/spreeze train $(ENV) $(ARGS)

test: $(VENV)/dev.stamp
	$(BIN)/python -m pytest $(ARGS)

check: $(VENV)/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# asks PyPI's vulnerability service, so it is no part of check, which needs no network
audit: $(VENV)/dev.stamp
	$(PIP) install --quiet 'pip-audit>=2.7'
	$(BIN)/python .ci/audit.py

faults: $(VENV)/dev.stamp
	FAULTS_SEED=$${FAULTS_SEED:-$$(date +%s)} $(BIN)/python -m pytest -m '' tests/faults $(ARGS)

soak: $(VENV)/dev.stamp
	$(BIN)/python tests/faults/soak.py --seconds $(SECONDS) $(ARGS)

slow gpu learning: $(VENV)/dev.stamp
	$(BIN)/python -m pytest -m $@ $(ARGS)

bench: $(VENV)/simulators.stamp
	$(BIN)/spreeze bench $(WHAT) $(ENV) $(ARGS)

# the README's pictures, of the runs in RUNS or of some that are trained for it; needs Chromium
screenshots: $(VENV)/dev.stamp
	$(BIN)/python docs/screenshots.py $(RUNS)

# what `spreeze bench compare` measures beside Spreeze: each in an environment of its own, torch first as above
PEERS ?= $(patsubst benchmarks/peers/%.txt,%,$(wildcard benchmarks/peers/*.txt))

peers: $(PEERS:%=.peers/%.stamp)

.peers/%.stamp: benchmarks/peers/%.txt
	$(PYTHON) -m venv .peers/$*
	.peers/$*/bin/python -m pip --disable-pip-version-check install --quiet \
	    $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) '$(TORCH)'
	.peers/$*/bin/python -m pip --disable-pip-version-check install --quiet -r $<
	@touch $@

clean:
	rm -rf $(VENV) build dist .pytest_cache .ruff_cache .mypy_cache .hypothesis src/*.egg-info

$(VENV)/torch.stamp:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	    || { echo "Spreeze needs Python 3.11 or later; name one: make PYTHON=python3.12" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@if [ "$$(uname -s)" = Linux ] && [ -z "$(TORCH_INDEX)" ] && ! command -v nvidia-smi >/dev/null; then \
	    echo "No NVIDIA GPU here. If pip fetches CUDA libraries now: make clean, then TORCH_INDEX (see Makefile)." >&2; fi
	$(PIP) install $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) '$(TORCH)'
	@touch $@

$(VENV)/core.stamp: pyproject.toml $(VENV)/torch.stamp
	@echo "installing Spreeze and what its commands need"
	@$(PIP) install --quiet -e '.[video,report,export,web]'
	@touch $@

$(VENV)/simulators.stamp: $(VENV)/core.stamp
	@for extra in $(SIMULATORS); do \
	    echo "installing the simulator extra '$$extra'"; \
	    $(PIP) install --quiet --only-binary $(COMPILED) -e ".[$$extra]" \
	        || echo "left out: '$$extra' has no wheel for this machine; 'spreeze doctor' says what that means" >&2; \
	done
	@touch $@

$(VENV)/dev.stamp: $(VENV)/simulators.stamp
	$(PIP) install --quiet -e '.[dev]'
	@touch $@
