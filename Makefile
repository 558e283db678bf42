# Every target does all of its own set-up; a finished step leaves a stamp, so that repeating it costs nothing.
# Needed beforehand: make, Python 3.11 or newer, and access to the package registries.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.SUFFIXES:

VENV := .venv
BIN := $(VENV)/bin
STAMPS := $(VENV)/.stamps
INTEROP := .interop
PAGES := src/penstock/pages
SITE := src/penstock/site
NODE_TESTS := tests/interop/node
NODE_OLD := tests/interop/javascript-8
NODE_DITTO := tests/interop/node-ditto
JAVA_CLIENTS := tests/interop/java
JAVA_DITTO := tests/interop/java-ditto
NODE_ADAPTERS := tests/contract/node
REACT_EXAMPLE := examples/react-page
JAVA_ADAPTERS := tests/contract/java
S3A := tests/pipeline/s3a

# Passed on to what a target runs: make demo ARGS="--port 9000", make test ARGS="-k recovery -x"
ARGS ?=

export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Whatever this machine is used to, modules are compiled once and kept. Else each of hundreds of processes compiles them, and
# each worker of pytest all tests as well.
unexport PYTHONDONTWRITEBYTECODE
export UV_PYTHON_DOWNLOADS := never
export UV_HTTP_TIMEOUT ?= 180
# Node.js brings its own certificates; behind a proxy of a company the system's are needed as well.
export NODE_USE_SYSTEM_CA ?= 1

# A package that comes as source (pyspark) is built with what build.txt names, by hash as well.
INSTALL := scripts/uv.sh pip install --quiet --require-hashes --build-constraints requirements/build.txt

# npm and the tools it starts look for "node" on the path; scripts/node.sh has put the right one into the venv.
NPM := PATH="$(CURDIR)/$(BIN):$$PATH" npm
NPM_CI := $(NPM) ci --no-audit --no-fund --loglevel=error >/dev/null

.PHONY: help setup compiled demo docs screenshots wheels test test-fast test-install test-helm test-spark test-interop-long test-cluster-long test-prometheus lint bench bench-smoke fuzz mutants lock page jar interop-setup system-setup clean

help: ## show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' $(MAKEFILE_LIST) | while IFS='|' read -r name text; do \
	    printf '  make %-18s %s\n' "$$name" "$$text"; done

# --- the environment --------------------------------------------------------------------------------------

$(STAMPS)/venv: scripts/venv.sh scripts/python.sh
	@scripts/venv.sh $(VENV)
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/uv: requirements/uv.txt $(STAMPS)/venv
	@$(BIN)/python -m pip install --quiet --require-hashes -r requirements/uv.txt
	@touch $@

$(STAMPS)/dev: requirements/dev.txt requirements/build.txt scripts/uv.sh $(STAMPS)/uv
	@echo "penstock: installing Python packages into $(VENV), which takes half a minute or more"
	@$(INSTALL) --python $(BIN)/python -r requirements/dev.txt
	@touch $@

$(STAMPS)/package: pyproject.toml src/penstock/__init__.py $(STAMPS)/dev
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	@touch $@

$(STAMPS)/node: requirements/node.txt scripts/node.sh scripts/uv.sh $(STAMPS)/uv
	@scripts/node.sh $(VENV)
	@touch $@

# --- the web page -----------------------------------------------------------------------------------------

ifneq ($(wildcard web/package.json),)
PAGE := $(PAGES)/index.html
WEB_TOOLS := web/node_modules/.stamp
endif
# Folders are listed too: a deleted source file changes nothing else.
WEB_SOURCES := $(shell find web -name node_modules -prune -o -print 2>/dev/null)

web/node_modules/.stamp: web/package.json web/package-lock.json $(STAMPS)/node
	@cd web && $(NPM_CI)
	@touch $@

$(PAGES)/index.html: web/node_modules/.stamp $(WEB_SOURCES)
	@echo "penstock: building the pages"
	@cd web && $(NPM) run --silent build
	@touch $@

page: $(PAGE) ## build the web page into src/penstock/pages

# --- the part of the pipeline that is in Java -------------------------------------------------------------

JAR := src/penstock/pipeline/penstock-spark.jar
JAVA_SOURCES := $(wildcard src/penstock/pipeline/jvm/*.java)

# A stamp, because without a JDK there is no jar; it is tried again then.
$(STAMPS)/jar: scripts/jar.sh $(JAVA_SOURCES) $(STAMPS)/dev
	@scripts/jar.sh $(BIN)/python $(JAR) $(JAVA_SOURCES)
	@test ! -e $(JAR) || touch $@

jar: $(STAMPS)/jar ## build the jar for Spark's real-time mode and checkpoints in S3, where there is a JDK

# --- what people type -------------------------------------------------------------------------------------

setup: $(STAMPS)/package $(PAGE) $(STAMPS)/jar ## make .venv with everything in it; the command is .venv/bin/penstock

# Of the sources as they are now; what is on the shelf already is not made again. PENSTOCK_BUILD=interpreted goes without.
compiled: $(STAMPS)/package ## compile kernel, wire and the rules of the fabric with mypyc, where there is a C compiler
	@$(if $(filter interpreted,$(PENSTOCK_BUILD)),true,PENSTOCK_BUILD= $(BIN)/penstock compile --optional)

# Compiles beside the server, because nobody wants to wait a minute for the first prices.
demo: setup ## start the server with the demo feeds
	@exec $(BIN)/penstock demo $(if $(filter interpreted,$(PENSTOCK_BUILD)),,--compile) $(ARGS)

# Into the package, so that the server has it at /docs/. The sources of the site are those of everything that it shows.
docs: setup ## build the documentation as a site into src/penstock/site; it works without a network
	@$(BIN)/python scripts/site.py $(SITE)

screenshots: setup system-setup ## make the pictures of the docs again, with Chromium
	@$(BIN)/python -m tests.e2e.screenshots $(ARGS)

# Into dist/; PYTHONS are those to compile for.
PYTHONS ?= $(shell scripts/pythons.sh)

wheels: docs $(STAMPS)/uv ## build the packages into dist: one for any Python, and compiled ones for the Pythons of this machine
	@scripts/wheels.sh dist $(PYTHONS)

lint: $(STAMPS)/package $(WEB_TOOLS) ## ruff, mypy --strict, import directions, the page's types, lock files
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy $(wildcard src tests bench fuzz mutants)
	@$(BIN)/lint-imports --no-logo
	$(if $(WEB_TOOLS),@cd web && $(NPM) run --silent check)
	@scripts/check-locks.sh

# How long the tests search at random: ci, or long; test-fast has a shorter one.
PROFILE ?= ci

# Test files run side by side. One more than two cores have, because tests wait for processes half of their time.
WORKERS ?= 3

# Without ARGS the tests of what is compiled run three times: first interpreted, then compiled without what is written in C, then with
# all others in the compiled build.
test: setup compiled interop-setup system-setup ## all tests but the long ones, with the published clients and a browser; PROFILE=long searches longer
	$(if $(ARGS),,@PENSTOCK_BUILD=interpreted scripts/tests.sh -n $(WORKERS) --dist loadfile tests/kernel tests/wire tests/cluster/test_items.py)
	$(if $(ARGS),,@! $(BIN)/penstock --version | grep -q "(compiled)" || PENSTOCK_BUILD=mypyc PENSTOCK_PROFILE=fast scripts/tests.sh -n $(WORKERS) --dist loadfile tests/kernel tests/wire/tlcp tests/wire/test_websocket.py)
	@PENSTOCK_PROFILE=$(PROFILE) scripts/tests.sh -n $(WORKERS) --dist loadfile --no-loadscope-reorder \
	    -m "not spark_long and not interop_long and not cluster_long and not prometheus_long and not install_long and not helm_long" --durations 30 --durations-min 5 $(ARGS)

# Interpreted: what was edited need not be compiled first. What is left out is listed in tests/fast.py.
test-fast: setup ## the tests without a JVM, a browser, published clients and long searches; two minutes
	@PENSTOCK_BUILD=interpreted PENSTOCK_PROFILE=fast $(BIN)/python -m pytest -p tests.fast -p no:schemathesis -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(ARGS)

test-install: setup ## wheels, each extra in a clean environment, each Python of this machine; minutes
	@PENSTOCK_PROFILE=$(PROFILE) $(BIN)/python -m pytest -m install_long tests $(ARGS)

test-spark: setup $(INTEROP)/kafka/broker.stamp $(INTEROP)/kafka/connector.stamp $(INTEROP)/s3a/.stamp ## the long Spark tests: Spark Connect, a cluster of processes, Kafka, checkpoints in an object store, many kills
	@PENSTOCK_PROFILE=$(PROFILE) $(BIN)/python -m pytest -m spark_long tests/pipeline $(ARGS)

test-interop-long: setup compiled interop-setup system-setup ## all that the published clients of Java and of the previous generation can do, and all clients behind balancers
	@$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile -m interop_long tests/interop $(ARGS)

test-cluster-long: setup compiled system-setup ## pairs of kills and freezes in a cluster of processes, each part frozen for a minute, clusters of other shapes
	@$(BIN)/python -m pytest -m cluster_long tests/e2e $(ARGS)

HELM := $(INTEROP)/helm/helm

# Go checks what it downloads against its checksum database.
$(HELM):
	@command -v go >/dev/null || { echo "test-helm: there is no go (Debian: apt-get install golang)" >&2; exit 1; }
	@GOBIN="$(CURDIR)/$(INTEROP)/helm" go install helm.sh/helm/v3/cmd/helm@v3.22.0

test-helm: setup $(HELM) ## the Helm chart, linted and rendered by helm from Go's module proxy; minutes the first time
	@$(BIN)/python -m pytest -m helm_long tests/e2e/test_container.py $(ARGS)

test-prometheus: setup compiled system-setup ## a real Prometheus scrapes a server for a minute
	@$(BIN)/python -m pytest -m prometheus_long tests/e2e $(ARGS)

bench: setup compiled system-setup ## the benchmarks, side by side with peers and baselines (one of them: ARGS=peers); less than 40 minutes, goes on where it was interrupted
	-@$(MAKE) --silent --no-print-directory $(INTEROP)/kafka/broker.stamp # without it Kafka is left out
	@$(BIN)/python -m bench $(or $(ARGS),all)

bench-smoke: setup compiled system-setup ## the fan-out benchmarks in miniature, two minutes; fails on wrong results only
	@$(BIN)/python -m bench smoke

# Inputs per codec; the goal is make fuzz RUNS=1000000.
RUNS ?= 100000

# Interpreted: the search is led by the branches that an input takes, which cannot be seen in compiled code.
fuzz: $(STAMPS)/package $(STAMPS)/fuzz ## the codecs against any bytes; RUNS=1000000 for more of them
	@PENSTOCK_BUILD=interpreted $(BIN)/python -m fuzz --runs $(RUNS) $(ARGS)

$(STAMPS)/fuzz: requirements/fuzz.txt scripts/uv.sh $(STAMPS)/uv
	@$(INSTALL) --python $(BIN)/python -r requirements/fuzz.txt
	@touch $@

# How many faults, and which: the same seed plants the same; any when there is none.
SAMPLE ?= 50
SEED ?=

mutants: $(STAMPS)/package ## small faults planted in kernel, wire, twins, TLEX rules and journal: the nearest tests must catch 90 %
	@$(BIN)/python -m mutants --sample $(SAMPLE) $(addprefix --seed ,$(SEED)) --workers $(WORKERS) $(ARGS)

# --- what the tests need beyond .venv ---------------------------------------------------------------------

$(INTEROP)/%/.stamp: requirements/interop-%.txt scripts/uv.sh $(STAMPS)/uv
	@$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(INTEROP)/$*
	@$(INSTALL) --python $(INTEROP)/$*/bin/python -r requirements/interop-$*.txt
	@touch $@

$(INTEROP)/kafka/%.stamp: scripts/kafka.sh tests/pipeline/kafka/%.xml | system-setup
	@scripts/kafka.sh $(INTEROP)/kafka $*
	@touch $@

$(INTEROP)/s3a/.stamp: scripts/java.sh $(S3A)/pom.xml $(S3A)/jars.sha256 | system-setup
	@scripts/java.sh $(S3A)/pom.xml $(S3A)/jars.sha256 $(INTEROP)/s3a
	@touch $@

$(INTEROP)/adapter-java/.stamp: scripts/java.sh $(wildcard $(JAVA_ADAPTERS)/*) | system-setup
	@scripts/java.sh $(JAVA_ADAPTERS)/pom.xml $(JAVA_ADAPTERS)/jars.sha256 $(INTEROP)/adapter-java $(wildcard $(JAVA_ADAPTERS)/*.java)
	@touch $@

$(NODE_TESTS)/node_modules/.stamp: $(NODE_TESTS)/package.json $(NODE_TESTS)/package-lock.json $(STAMPS)/node
	@cd $(NODE_TESTS) && $(NPM_CI)
	@touch $@

$(NODE_OLD)/node_modules/.stamp: $(NODE_OLD)/package.json $(NODE_OLD)/package-lock.json $(STAMPS)/node
	@cd $(NODE_OLD) && $(NPM_CI)
	@touch $@

# The server's certificate of the tests comes along in the form in which Java takes it.
$(INTEROP)/java-%/.stamp: scripts/java.sh $(JAVA_CLIENTS)/client-%.xml $(JAVA_CLIENTS)/client-%.sha256 \
    $(JAVA_CLIENTS)/Client.java tests/config/tls/certificate.pem | system-setup
	@scripts/java.sh $(JAVA_CLIENTS)/client-$*.xml $(JAVA_CLIENTS)/client-$*.sha256 $(INTEROP)/java-$* $(JAVA_CLIENTS)/Client.java
	@keytool -importcert -noprompt -alias penstock -file tests/config/tls/certificate.pem -storetype PKCS12 \
	    -keystore $(INTEROP)/java-$*/trust.p12 -storepass penstock >/dev/null 2>&1
	@touch $@

$(INTEROP)/java-ditto/.stamp: scripts/java.sh $(wildcard $(JAVA_DITTO)/*) | system-setup
	@scripts/java.sh $(JAVA_DITTO)/pom.xml $(JAVA_DITTO)/jars.sha256 $(INTEROP)/java-ditto $(JAVA_DITTO)/Client.java
	@touch $@

$(NODE_DITTO)/node_modules/.stamp: $(NODE_DITTO)/package.json $(NODE_DITTO)/package-lock.json $(STAMPS)/node
	@cd $(NODE_DITTO) && $(NPM_CI)
	@touch $@

$(NODE_ADAPTERS)/node_modules/.stamp: $(NODE_ADAPTERS)/package.json $(NODE_ADAPTERS)/package-lock.json $(STAMPS)/node
	@cd $(NODE_ADAPTERS) && $(NPM_CI)
	@touch $@

$(REACT_EXAMPLE)/node_modules/.stamp: $(REACT_EXAMPLE)/package.json $(REACT_EXAMPLE)/package-lock.json $(STAMPS)/node
	@cd $(REACT_EXAMPLE) && $(NPM_CI)
	@touch $@

PUBLISHED_CLIENTS := $(INTEROP)/client-1/.stamp $(INTEROP)/client-2/.stamp $(NODE_TESTS)/node_modules/.stamp \
    $(NODE_OLD)/node_modules/.stamp $(INTEROP)/java-5.2.1/.stamp $(INTEROP)/java-4.3.7/.stamp $(NODE_DITTO)/node_modules/.stamp \
    $(INTEROP)/java-ditto/.stamp $(REACT_EXAMPLE)/node_modules/.stamp
PUBLISHED_ADAPTERS := $(INTEROP)/adapter-python/.stamp $(NODE_ADAPTERS)/node_modules/.stamp $(INTEROP)/adapter-java/.stamp

interop-setup: $(PUBLISHED_CLIENTS) $(PUBLISHED_ADAPTERS) $(INTEROP)/tables/.stamp $(INTEROP)/kafka/broker.stamp ## the published clients and adapter SDKs, each in an environment of its own, DuckDB and polars, and a Kafka broker

system-setup: ## Chromium, curl, openssl, PostgreSQL, HAProxy, nginx, Prometheus, mosquitto, slowhttptest, a JDK and Maven from the system's packages, where missing
	@scripts/system.sh

# --- upkeep -----------------------------------------------------------------------------------------------

COMPILE := scripts/uv.sh pip compile --quiet --universal --python-version 3.11 --generate-hashes \
    --no-emit-index-url --custom-compile-command "make lock" $(ARGS)

lock: $(STAMPS)/uv ## compile requirements/*.txt again; ARGS=--upgrade takes newer versions
	@$(COMPILE) pyproject.toml --output-file requirements/runtime.txt
	@$(COMPILE) pyproject.toml --extra lake --extra spark --extra compiled --extra push --extra postgres --extra cluster --extra kafka --extra nats requirements/dev.in --constraint requirements/runtime.txt --output-file requirements/dev.txt
	@$(COMPILE) pyproject.toml --extra spark --constraint requirements/dev.txt --output-file requirements/spark.txt
	@for name in uv build node fuzz wheels interop-client-1 interop-client-2 interop-adapter-python interop-tables; do \
	    $(COMPILE) requirements/$$name.in --output-file requirements/$$name.txt || exit 1; done
	@scripts/check-locks.sh

clean: ## back to a fresh checkout
	rm -rf $(VENV) $(INTEROP) .wheels $(PAGES) web/node_modules $(NODE_TESTS)/node_modules $(NODE_OLD)/node_modules $(NODE_DITTO)/node_modules $(NODE_ADAPTERS)/node_modules $(REACT_EXAMPLE)/node_modules $(SITE) build dist
	rm -rf bench/.build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src tests bench fuzz mutants scripts -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true
