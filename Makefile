# The targets for contributors; CI runs the same ones. They need Python 3.11 or newer and make, and no other setup.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
BENCH := .bench
IMAGE ?= localhost/fleethook:dev
BASE ?=
PORT ?= 9443
CONSOLE_PORT ?= 9444
RECORDS := .run/records
REVIEW := examples/testdata/review-story-2.json
RULES := examples/admission/rules.py

.DEFAULT_GOAL := help
# Some images of containers set it. Each of the hundreds of processes of the tests would then compile all modules again.
unexport PYTHONDONTWRITEBYTECODE
.PHONY: help run test test-all test-oldest check docs format bench bench-quick schemas lock console-assets screenshots fleet-screenshots controlplane image image-test dist clean

help: ## List the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

# The requirements pin every package with hashes. The stamps let make skip an environment that is up to date.
$(VENV)/run.stamp: requirements/run.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("fleethook needs Python 3.11 or newer, this is " + sys.version.split()[0]) if sys.version_info < (3, 11) else 0'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/run.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	$(BIN)/python -m compileall -q app
	@touch $@

$(VENV)/dev.stamp: $(VENV)/run.stamp requirements/dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	@touch $@

# Succeeds once the server answers. Its certificate, which curl and the console check, exists then, too.
IS_READY := import http.client, ssl; server = http.client.HTTPSConnection("localhost", $(PORT), context=ssl.create_default_context(cafile="certs/ca.crt")); \
	server.request("GET", "/readyz"); exit(server.getresponse().status != 200)

run: $(VENV)/run.stamp ## Serve the examples over HTTPS, and the console; no cluster needed
	@echo 'Starting the server (https://localhost:$(PORT)) and then the console (http://localhost:$(CONSOLE_PORT)). Ctrl+C ends both. For other ports: make run PORT=… CONSOLE_PORT=…'
	@echo 'Once they serve, try in another terminal an overrider, and a rule of examples/admission:'
	@echo
	@for route in mutate-apps-v1-deployment rules/validate/needs-owner; do \
	  echo "  curl --cacert certs/ca.crt -H 'Content-Type: application/json' \\"; \
	  echo '    --data @$(REVIEW) \'; \
	  echo "    https://localhost:$(PORT)/$$route"; \
	  echo; \
	done
	@mkdir -p -m 700 $(RECORDS)
	@# The hooks of the examples are on this server, so their certificate is from its CA. Rules alone would be the only engine.
	@# Ctrl-C reaches both processes, or only make's shell, which then ends both by SIGTERM.
	@trap 'trap - INT TERM EXIT; kill $$server $$console 2>/dev/null; wait' INT TERM EXIT; \
	SSL_CERT_FILE=certs/ca.crt FLEETHOOK_ENGINES='["crds", "dispatch", "interpret", "overrider", "rules"]' \
	  $(BIN)/fleethook serve --manifests examples --rules $(RULES) --cert-dir certs --port $(PORT) \
	  --record $(RECORDS) --record-max 64Mi & server=$$!; \
	until $(BIN)/python -c '$(IS_READY)' 2>/dev/null; do kill -0 $$server 2>/dev/null || exit 1; sleep 0.2; done; \
	$(BIN)/fleethook console -f examples --rules $(RULES) --port $(CONSOLE_PORT) --records $(RECORDS) \
	  --metrics-url https://localhost:$(PORT)/metrics --metrics-ca-file certs/ca.crt & console=$$!; \
	wait $$server

# The tests of these directories need more than Python: a control plane, Chromium, Go, Node, promtool or an image.
FULL := $(addprefix tests/,e2e faults console/browser tools image distribution)
# Workers get neighbouring tests, which share the servers and control planes of their modules; an idle worker takes over
# the rest of another one.
PYTEST = $(BIN)/python -m pytest -n auto --dist worksteal --junit-xml=$(REPORTS)/$@.xml
REPORTS := .reports
# How many examples the properties draw: fast (the same ones each time), full or thorough (tests/hypothesis_profiles.py).
PROFILE ?= fast

test: $(VENV)/dev.stamp ## Run the tests that need only Python (minutes); ARGS selects some of all tests
	$(PYTEST) --hypothesis-profile=$(PROFILE) $(foreach one,$(FULL),$(if $(findstring $(one),$(ARGS)),,--ignore=$(one))) $(ARGS)

test-all: $(VENV)/dev.stamp node_modules/stamp ## Run all tests as CI does (needs Go, Node, Chromium, promtool, and a tool and rights to build images)
	rm -rf $(REPORTS)
	$(MAKE) test PROFILE=full ARGS=
	$(MAKE) controlplane dist image image-test test-oldest ARGS=
	@# These tests wait for other processes half of the time.
	$(PYTEST) -n 4 --hypothesis-profile=full $(FULL)
	@$(BIN)/python -m tests.summary $(REPORTS)

# These tests need kube-apiserver and etcd, and no kube-controller-manager of that release.
OLDEST := $(addprefix tests/e2e/test_,stories.py controller.py convergence.py dispatch_access.py interpreting.py read_your_writes.py selection.py certificates.py)
test-oldest: $(VENV)/dev.stamp ## Run end-to-end tests on the oldest kube-apiserver that fleethook supports (needs Go; minutes the first time)
	KUBEBUILDER_ASSETS="$$($(PYTHON) tests/e2e/controlplane/build.py oldest)" $(PYTEST) $(OLDEST)

check: $(VENV)/dev.stamp ## Lint, formatting, types, English, import contracts, generated files
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m tests.language
	$(BIN)/lint-imports --no-logo
	$(BIN)/python schemas/generate.py --check
	$(BIN)/hadolint Dockerfile

# MkDocs warns about its own future at each start otherwise. With --quiet, it would not count warnings, so nothing would fail.
docs: $(VENV)/dev.stamp ## Build the documentation site in site/; broken links fail
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict $(ARGS)

format: $(VENV)/dev.stamp ## Format the code and apply the automatic fixes of the linter
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The Python peers and the tools have an environment of their own, with the same interpreter.
$(BENCH)/venv.stamp: $(VENV)/run.stamp benchmarks/requirements.txt
	test -x $(BENCH)/venv/bin/python || $(BIN)/python -m venv $(BENCH)/venv
	$(BENCH)/venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/run.txt -r benchmarks/requirements.txt
	@touch $@

bench: $(VENV)/dev.stamp $(BENCH)/venv.stamp ## Measure beside the peers and write benchmarks/RESULTS.md (needs Go; an hour)
	$(BIN)/python -m benchmarks.run $(ARGS)

bench-quick: $(VENV)/dev.stamp ## Measure beside the floor and FastAPI (a minute)
	@$(BIN)/python -m benchmarks.quick $(ARGS)

schemas: $(VENV)/dev.stamp ## Generate schemas/ and docs/reference/ from the code
	$(BIN)/python schemas/generate.py

# The lock file has no addresses of packages, so npm asks the registry that it is configured for.
node_modules/stamp: package.json package-lock.json
	npm ci --no-audit --no-fund --silent
	@touch $@

console-assets: node_modules/stamp ## Bundle the scripts and styles of the console (needs Node)
	node app/fleethook/console/assets/build.mjs

screenshots: $(VENV)/dev.stamp ## Take pictures of the pages of the console for docs/images/ (needs Chromium)
	$(BIN)/python -m tests.console.browser.screenshots

fleet-screenshots: $(VENV)/dev.stamp ## Take pictures of all pages of the console on a fleet with faults, in .reports/console/ (needs Chromium)
	$(BIN)/python -m tests.console.browser.screenshots fleet $(ARGS)

lock: $(VENV)/dev.stamp ## Pin the newest releases that pyproject.toml allows
	$(BIN)/uv --version >/dev/null 2>&1 || $(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-annotate --no-header --no-emit-index-url --no-emit-find-links pyproject.toml -o requirements/run.txt
	$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-annotate --no-header --no-emit-index-url --no-emit-find-links --group dev --extra otel pyproject.toml -o requirements/dev.txt
	$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-annotate --no-header --no-emit-index-url --no-emit-find-links -c requirements/run.txt --extra otel pyproject.toml -o requirements/image.txt
	$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-annotate --no-header --no-emit-index-url --no-emit-find-links --group pyproject.toml:sbom -o requirements/sbom.txt
	$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-annotate --no-header --no-emit-index-url --no-emit-find-links -c requirements/run.txt benchmarks/requirements.in -o benchmarks/requirements.txt

controlplane: ## Build kube-apiserver, etcd, kube-controller-manager and Helm for the end-to-end tests (needs Go; minutes the first time)
	@$(PYTHON) tests/e2e/controlplane/build.py

image: ## Build the image with docker, podman or buildah (BASE= names another base image)
	@$(PYTHON) image/build.py --tag '$(IMAGE)' --base '$(BASE)'

image-test: $(VENV)/dev.stamp ## Run the image as the chart would, and ask every engine for a review (needs Helm, and root for buildah)
	FLEETHOOK_IMAGE='$(IMAGE)' $(PYTEST) -n 0 tests/image $(ARGS)

dist: $(VENV)/dev.stamp ## Build the sdist and the wheel into dist/, and run the wheel in a clean environment
	rm -rf dist
	$(BIN)/python -m hatchling build --target sdist --target wheel --directory dist
	FLEETHOOK_DIST=dist $(PYTEST) -n 0 tests/distribution $(ARGS)

clean: ## Remove the environments and caches of these targets
	rm -rf $(VENV) site dist .run $(BENCH) $(REPORTS) .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
