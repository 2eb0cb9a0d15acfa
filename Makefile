# Two commands do everything on a machine with Python >= 3.11: `make demo` and `make test`.
.POSIX:
.SUFFIXES:

VENV = .venv
BIN = $(VENV)/bin
PYTHON = python3
# The tests start our programs hundreds of times, each worker rewrites the assertions of all tests:
# what was compiled is kept, also where the environment (that of many containers) says otherwise.
PYTEST = PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n auto --dist worksteal
# What the demo needs: the whole of `make real` takes twice as long to build.
DEMO_REAL = newest/etcd newest/kube-apiserver newest/kube-controller-manager newest/metallb-controller

# Those that meet the server that the environment names; the others would do the same on any.
REAL_ENVTEST = tests/envtest/admission tests/envtest/definitions tests/envtest/faults/test_proxy.py \
	tests/envtest/test_binaries.py tests/envtest/test_controllers.py tests/envtest/test_kubectl.py \
	tests/envtest/test_kubectl_commands.py tests/envtest/test_metallb.py tests/envtest/test_replay.py
REAL_CLI = tests/reconcilers/cli/test_completion.py tests/reconcilers/cli/test_check_repair.py \
	tests/reconcilers/cli/test_demo.py \
	tests/reconcilers/cli/test_lbipam_standin.py tests/reconcilers/cli/test_demo_shards.py tests/reconcilers/cli/test_real_parts.py \
	tests/reconcilers/cli/test_run.py tests/reconcilers/cli/test_samples.py \
	tests/reconcilers/cli/test_standin.py tests/reconcilers/cli/test_terminal.py \
	tests/reconcilers/cli/test_ui.py tests/reconcilers/cli/test_up.py
REAL_TESTS = tests/contract tests/faults tests/metallb tests/cilium tests/storm $(REAL_CLI) \
	tests/manifests tests/bench/test_real.py tests/docs/test_cilium_page.py tests/docs/test_on_a_cluster.py $(REAL_ENVTEST)
# Those of the product that start no servers.
QUICK_TESTS = tests/allocator tests/controller tests/reconcilers \
	--ignore=tests/reconcilers/cli --ignore=tests/reconcilers/simulation

help:  ## Show the targets
	@grep -E '^[a-z-]+:.*##' Makefile | sed 's/:.*##/\t/'

demo: $(VENV)/.run  ## Set everything up and play the whole story
	$(BIN)/butler-ipam demo

test: $(VENV)/.dev  ## Set everything up and pass the tests
	$(PYTEST) $(PYTEST_ARGS)

quick: $(VENV)/.dev  ## Lint and pass the tests that start no servers, for the inner loop
	$(BIN)/ruff check .
	$(PYTEST) -q -m "not slow" $(QUICK_TESTS) $(PYTEST_ARGS)

real:  ## Build the real servers that the suite is held against into .real/ (needs Go)
	$(PYTHON) tests/realservers/build.py

clusterctl:  ## Build clusterctl and Cluster API's core into .real/, for tests with them (needs Go, minutes)
	$(PYTHON) tests/realservers/build.py clusterapi/clusterctl clusterapi/core-manager

test-real: $(VENV)/.dev real  ## Pass the tests that meet a server on the real etcd and kube-apiserver
	KUBEBUILDER_ASSETS=$(CURDIR)/.real/newest PATH="$(CURDIR)/.real/newest:$$PATH" \
		$(PYTEST) -m "not by_hand" $(REAL_TESTS) $(PYTEST_ARGS)

demo-real: $(VENV)/.run  ## Play the whole story on the real servers, with the real MetalLB (needs Go)
	$(PYTHON) tests/realservers/build.py $(DEMO_REAL)
	KUBEBUILDER_ASSETS=$(CURDIR)/.real/newest $(BIN)/butler-ipam demo

check: $(VENV)/.dev  ## Format, lint, types, import contracts, docs, tests
	$(MAKE) lint
	$(MAKE) test

lint: $(VENV)/.dev  ## Lint, strict types, import contracts, docstrings
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/mypy .ci/*.py
	$(BIN)/lint-imports

format: $(VENV)/.dev  ## Format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

crds: $(VENV)/.run  ## Write manifests/crds and crds.json anew from the models
	$(BIN)/butler-ipam crds --directory manifests/crds
	$(BIN)/butler-ipam crds -o json > crds.json.new
	mv crds.json.new manifests/crds.json

api-docs: $(VENV)/.run  ## Write API.md anew from the models
	$(BIN)/butler-ipam crds -o markdown > API.md.new
	mv API.md.new API.md

docs: $(VENV)/.dev  ## Build the documentation site into build/site
	$(BIN)/python .ci/site.py --listings
	$(BIN)/python .ci/site.py build

manifests: $(VENV)/.run crds  ## Write the one-file install and the chart's copies anew (needs kubectl)
	$(BIN)/python .ci/clusterapi.py
	$(BIN)/python -m manifests.rendering
	$(BIN)/python .ci/chart.py

axe:  ## Install the accessibility checker that a test has look at the page (needs npm)
	npm ci --silent --no-audit --no-fund --prefix tests/accessibility

player:  ## Install what plays the demo's recording in the documentation site (needs npm)
	npm ci --silent --no-audit --no-fund --prefix docs/player

cast: $(VENV)/.dev  ## Record the demo anew for the documents (needs asciinema 2)
	$(BIN)/python .ci/cast.py

dashboard: $(VENV)/.dev  ## Draw the dashboard with data in it anew (needs prometheus, chromium)
	$(BIN)/python .ci/dashboard.py

screenshots: $(VENV)/.dev  ## Take the pictures of the documents anew (needs chromium)
	$(BIN)/python .ci/screenshots.py

bench: $(VENV)/.dev  ## Print the numbers that the documentation claims
	$(BIN)/python -m tests.bench $(BENCH_ARGS)

release: $(VENV)/.dev  ## Build all that a release consists of into dist/ (needs Helm)
	PATH="$(CURDIR)/.real/newest:$$PATH" $(BIN)/python .ci/release.py

wheel: $(VENV)/.dev  ## Build the wheels of the product and of the framework alone into dist/
	$(BIN)/python -m hatchling build -t wheel
	cd controller && $(CURDIR)/$(BIN)/python -P -m hatchling build -t wheel -d $(CURDIR)/dist

notices: $(VENV)/.dev  ## Write the bill of materials and the third-party notices anew
	$(BIN)/python .ci/supply_chain.py

image-check: $(VENV)/.dev  ## Go through the Containerfile's steps without a container engine
	$(BIN)/python .ci/image.py

lock:  ## Renew the hashed locks (needs uv)
	uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --group build pyproject.toml -o requirements-run.txt
	uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --extra envtest --group build pyproject.toml -o requirements.txt
	uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --extra envtest --group dev pyproject.toml -o requirements-dev.txt

$(VENV)/.run: requirements.txt pyproject.toml .ci/venv
	sh .ci/venv $(VENV) requirements.txt
	touch $@

$(VENV)/.dev: requirements-dev.txt pyproject.toml .ci/venv
	sh .ci/venv $(VENV) requirements-dev.txt
	touch $@ $(VENV)/.run

clean:  ## Remove what the other targets made
	rm -rf $(VENV) dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

.PHONY: help demo test quick real clusterctl test-real demo-real check lint format crds api-docs docs manifests axe player cast dashboard screenshots bench release wheel notices image-check lock clean
