# Everything a person does with this repository, in one word each. `make help` lists them.
#
# On a fresh Debian 12 machine `make demo` and `make test` install what is missing, build, and run.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

JOBS ?= $(shell nproc)
SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo)

BUILD_PACKAGES := g++ cmake ninja-build make git libfmt-dev nlohmann-json3-dev libyaml-cpp-dev libcli11-dev libtomlplusplus-dev libpugixml-dev libsqlite3-dev
TEST_PACKAGES := libgtest-dev libgmock-dev pkg-config python3-torch python3-jsonschema python3-yaml
LINT_PACKAGES := clang-format clang-tidy
SIMULATE_PACKAGES := libsimgrid-dev
ONNX_PACKAGES := libonnx-dev libprotobuf-dev protobuf-compiler
PYTHON_PACKAGES := python3-dev pybind11-dev python3-pybind11
ALPA_PACKAGES := coinor-libcbc-dev
SLURM_PACKAGES := slurm-wlm munge
FUZZ_PACKAGES := clang libclang-rt-14-dev
SITE_PACKAGES := python3 cmark-gfm
PAGE_PACKAGES := emscripten dpkg-dev xz-utils ca-certificates

.PHONY: help
help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-17s %s\n", $$1, $$2}'

# $(call install,packages): installs those of the packages that are missing, and nothing when all are there.
define install
	@missing=$$(for p in $(1); do dpkg-query -W -f='$${Status}' $$p 2>/dev/null | grep -q 'ok installed' || echo $$p; done); \
	if [ -n "$$missing" ]; then \
	  echo "installing:" $$missing; \
	  $(SUDO) apt-get update -qq; \
	  $(SUDO) env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing >/dev/null; \
	fi
endef

.PHONY: deps deps-simulate deps-all deps-test
deps:
	$(call install,$(BUILD_PACKAGES))
deps-simulate: deps
	$(call install,$(SIMULATE_PACKAGES))
deps-all:
	$(call install,$(BUILD_PACKAGES) $(SIMULATE_PACKAGES) $(ALPA_PACKAGES) $(ONNX_PACKAGES) $(PYTHON_PACKAGES))
deps-test: deps-all
	$(call install,$(TEST_PACKAGES) $(LINT_PACKAGES) $(SITE_PACKAGES))

.PHONY: build
build: deps ## Build the programs: build/nest (and build/nest-simulate where SimGrid is installed)
	@cmake --preset release -DNEST_BUILD_TESTS=OFF $(CMAKE_ARGS) >/dev/null
	@cmake --build --preset release -j $(JOBS) --target nest nest-optional

.PHONY: python
python: deps ## Build the Python package: build/python (export PYTHONPATH=build/python)
	$(call install,$(PYTHON_PACKAGES))
	@cmake --preset release -DNEST_BUILD_TESTS=OFF $(CMAKE_ARGS) >/dev/null
	@cmake --build --preset release -j $(JOBS) --target nest-python nest-optional
	@PYTHONPATH=build/python $(or $(wildcard /usr/bin/python3),python3) -c 'import nest, nest._core; print("nest", nest.__version__, "in", nest.__path__[0])'

.PHONY: demo
demo: deps-all ## Install and build all parts, and show what nest does: a plan, why not otherwise, a page
	@cmake --preset release -DNEST_BUILD_TESTS=OFF $(CMAKE_ARGS) >/dev/null
	@cmake --build --preset release -j $(JOBS) --target nest nest-optional nest-python
	@tools/demo build

.PHONY: site
site: ## Build the documentation as a site: build/site/index.html, its links checked
	$(call install,$(SITE_PACKAGES))
	@python3 tools/site/build build/site

# Emscripten looks for Debian's packages of Node where Debian's own Node does.
.PHONY: page-wasm
page-wasm: export NODE_PATH := /usr/share/nodejs
page-wasm: deps ## Build the planner as WebAssembly: build/page/nest.js, build/page/nest.wasm
	$(call install,$(PAGE_PACKAGES) $(if $(shell which node),,nodejs))
	@page/wasm/sources build/page/sources
	@cmake -S . -B build/page -G Ninja -DCMAKE_TOOLCHAIN_FILE=/usr/share/emscripten/cmake/Modules/Platform/Emscripten.cmake \
	  -DCMAKE_BUILD_TYPE=None -DCMAKE_CXX_FLAGS="-O2 -DNDEBUG" -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=0 \
	  -DNEST_BUILD_TESTS=OFF -DNEST_WARNINGS=OFF -DNEST_BROWSER_SOURCES="$(CURDIR)/build/page/sources" $(CMAKE_ARGS) >/dev/null
	@cmake --build build/page -j $(JOBS) --target nest_browser

.PHONY: install
PREFIX ?= /usr/local
install: deps ## Install programs, library, headers, CMake package: make install PREFIX=/usr/local [DESTDIR=…]
	@cmake --preset release -DNEST_BUILD_TESTS=OFF -DCMAKE_INSTALL_PREFIX=$(PREFIX) $(CMAKE_ARGS) >/dev/null
	@cmake --build --preset release -j $(JOBS) --target nest nest-optional libnest
	@rm -rf build/share && tools/dist/tree build/nest build/share
	@cmake --install build | grep -v -- '-- Up-to-date'

.PHONY: uninstall
uninstall: ## Remove what `make install` installed: make uninstall [DESTDIR=…]
	@[ -f build/install_manifest.txt ] || { echo "make uninstall: build/install_manifest.txt is missing: nothing was installed from here" >&2; exit 2; }
	@sed 's|^|$(DESTDIR)|' build/install_manifest.txt | tr '\n' '\0' | xargs -0 rm -f
	@sed 's|^|$(DESTDIR)|; s|/[^/]*$$||' build/install_manifest.txt | grep -E '/nest(/|$$)' | sort -ru | xargs -r -d '\n' rmdir --ignore-fail-on-non-empty
	@rm build/install_manifest.txt

.PHONY: test
test: lint test-asan test-tsan test-programs ## Install, build and run every check: lint, sanitizers, all tests

# The random cases of the tests, as a part of what `make soak` runs: enough to notice a mistake, not to find the rarest.
SANITIZED := NEST_TEST_SCALE=0.02
OPTIMISED := NEST_TEST_SCALE=0.1

# Tests that run programs or compute much. nest is built there as a part of another project, the example's: that this works is a test too.
PROGRAM_TESTS := accuracy;browser;calibrate;cli;door;exporter;formats;html;install;instance;judge;paper;python;rivals;search;simulate
configure_test = cmake -S examples/cpp -B build/test -G Ninja -DNEST_SOURCE="$(CURDIR)" -DNEST_TESTS="$(1)" \
	  $(foreach o,BUILD_TESTS BUILD_TOOLS BUILD_PYTHON INSTALL WARNINGS HARDENING PRECOMPILE,-DNEST_$(o)=ON) \
	  -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=0 -DCMAKE_BUILD_TYPE=None \
	  -DCMAKE_CXX_FLAGS="-O0 -DNDEBUG -D_GLIBCXX_ASSERTIONS" -DNEST_CORE_FLAGS=-O2 -DNEST_LIBRARY_FLAGS=-O1 $(CMAKE_ARGS) >/dev/null
run_tests = ctest --test-dir build/test/nest -j $(JOBS) --output-on-failure

.PHONY: test-programs
test-programs: deps-test ## Run the tests of the programs, the Python package, the installed library, and the oracles
	@$(call configure_test,$(PROGRAM_TESTS))
	@cmake --build build/test -j $(JOBS) --target nest_tests
	@$(OPTIMISED) $(run_tests) --progress

.PHONY: test-asan
test-asan: deps-test ## Run the tests of the library under AddressSanitizer and UndefinedBehaviorSanitizer
	@cmake --preset asan $(CMAKE_ARGS) >/dev/null
	@cmake --build --preset asan -j $(JOBS)
	@$(SANITIZED) ctest --preset asan -j $(JOBS)

.PHONY: test-tsan
test-tsan: deps-test ## Run what uses several threads under ThreadSanitizer
	@cmake --preset tsan $(CMAKE_ARGS) >/dev/null
	@cmake --build --preset tsan -j $(JOBS)
	@$(SANITIZED) ctest --preset tsan

.PHONY: soak soak-tests soak-fuzz soak-kills soak-oracles
SCALE ?= 2
FUZZ_SECONDS ?= 3600
KILLS ?= 10000
ORACLE_SECONDS ?= 3600
soak: soak-fuzz soak-kills soak-oracles soak-tests ## Hours: fuzz every reader, kill and starve the programs, compare searches with all plans, all tests long (SCALE=2 FUZZ_SECONDS=3600 KILLS=10000 ORACLE_SECONDS=3600)

soak-tests: deps-test ## Run all tests long: whole oracles, the programs under sanitizers too (an hour; SCALE=2)
	@$(call configure_test)
	@cmake --build build/test -j $(JOBS) --target nest_tests
	@NEST_TEST_SCALE=$(SCALE) $(run_tests) --timeout 7200
	@cmake --preset asan -DNEST_TESTS= $(CMAKE_ARGS) >/dev/null
	@cmake --build --preset asan -j $(JOBS)
	@NEST_TEST_SCALE=$(SCALE) ctest --preset asan -j $(JOBS) --timeout 7200
	@cmake --preset tsan -DNEST_TESTS="door;rivals;search" $(CMAKE_ARGS) >/dev/null
	@cmake --build --preset tsan -j $(JOBS)
	@NEST_TEST_SCALE=$(SCALE) ctest --preset tsan --timeout 7200

soak-fuzz: deps-test ## Fuzz every reader with libFuzzer under sanitizers; corpus and counts grow in build/soak (FUZZ_SECONDS=3600)
	$(call install,$(FUZZ_PACKAGES))
	@cmake --preset fuzz $(CMAKE_ARGS) >/dev/null
	@cmake --build --preset fuzz -j $(JOBS)
	@tools/soak/fuzz build/fuzz/tests --state build/soak --seconds $(FUZZ_SECONDS) --jobs $(JOBS)

soak-oracles: deps-test ## Compare searches of random problems with every plan there is, other problems each time; counts grow in build/soak (ORACLE_SECONDS=3600)
	@$(call configure_test,search)
	@cmake --build build/test -j $(JOBS) --target test_search
	@tools/soak/oracles build/test/nest/tests/test_search --state build/soak --seconds $(ORACLE_SECONDS)

soak-kills: build ## End plans, simulations, sweeps and exports at random moments, and take memory, threads and disk from them (KILLS=10000)
	@tools/soak/kills build/nest --kills $(KILLS) --record build/soak-kills.json
	@tools/soak/starve build/nest --rounds 1000

.PHONY: quick
quick: ## Build and run the tests of one folder, for the next edit: make quick FOLDER=search
	@[ -n "$(FOLDER)" ] || { echo "make quick: which folder of tests/? make quick FOLDER=search" >&2; exit 2; }
	@[ -f build/quick/build.ninja ] || cmake --preset quick $(if $(shell which ccache),-DCMAKE_CXX_COMPILER_LAUNCHER=ccache) $(CMAKE_ARGS) >/dev/null
	@cmake --build --preset quick -j $(JOBS) --target test_$(FOLDER)
	@$(SANITIZED) build/quick/tests/test_$(FOLDER) --gtest_brief=1 $(if $(FILTER),--gtest_filter='$(FILTER)')

.PHONY: accuracy
# The measurements of DATA (or NEST_DATA, or those beside the checkout) give the page in docs/; without any, the rows that ship with nest are compared.
DATA ?= $(or $(NEST_DATA),$(wildcard ../shared/data))
accuracy: deps ## Compare predictions with measurements: make accuracy [DATA=folder]
	@cmake --preset release -DNEST_BUILD_TESTS=OFF $(CMAKE_ARGS) >/dev/null
	@cmake --build --preset release -j $(JOBS) --target nest-accuracy
	@build/nest-accuracy $(if $(DATA),--data $(DATA) --markdown docs/generated/accuracy.md --plots docs/generated/accuracy,--markdown build/accuracy.md) --json build/accuracy.json
	@build/nest-accuracy --near data/runs/published.yaml

.PHONY: recipes
recipes: deps ## Compare published recipes with our plans: make recipes DATA=folder; writes docs/generated/recipes.md
	@[ -n "$(DATA)" ] || { echo "make recipes: needs the folder of published runs: make recipes DATA=folder" >&2; exit 2; }
	@cmake --preset release -DNEST_BUILD_TESTS=OFF $(CMAKE_ARGS) >/dev/null
	@cmake --build --preset release -j $(JOBS) --target nest-accuracy
	@build/nest-accuracy --data $(DATA) --recipes docs/generated/recipes.md

.PHONY: simulation-check
simulation-check: deps ## Compare predictions with simulations of many plans; writes docs/generated/simulation
	@cmake --preset release -DNEST_BUILD_TESTS=OFF $(CMAKE_ARGS) >/dev/null
	@cmake --build --preset release -j $(JOBS) --target nest-simulation-check
	@build/nest-simulation-check --folder docs/generated/simulation

.PHONY: anytime-check
anytime-check: build ## Plan random jobs under limits of 0.2, 1 and 5 s: always a plan or a proof, true bounds, limits kept (half an hour)
	@tools/anytime build/nest --jobs $(or $(CASES),200)

.PHONY: slurm-check
slurm-check: build ## Submit exported jobs to a real Slurm whose nodes are this machine; where ranks start must be the plan's (needs root)
	$(call install,$(SLURM_PACKAGES))
	@tools/slurm build/nest

.PHONY: sweep-check sweep-slurm-check
sweep-check: build ## Kill, cut and starve sweeps, and measure 2,016 points beside the planner's own time (FAST=1: without these)
	$(call install,sqlite3 bc)
	@tools/sweep/check build/nest
sweep-slurm-check: build ## Run a sweep as a job array on a real Slurm whose nodes are this machine; its table must be one run's (needs root)
	$(call install,$(SLURM_PACKAGES) sqlite3)
	@tools/slurm build/nest sweep

.PHONY: regret
regret: deps ## Execute our plans beside all others that are known, on many networks; writes docs/generated/simulation/regret.md (hours; SAMPLE=N: N cases; goes on where it was stopped)
	@cmake --preset release -DNEST_BUILD_TESTS=OFF $(CMAKE_ARGS) >/dev/null
	@cmake --build --preset release -j $(JOBS) --target nest-regret
	@build/nest-regret --records build/regret.jsonl --sample $(or $(SAMPLE),0) --markdown docs/generated/simulation/regret.md

.PHONY: paper
paper: deps ## Repeat the evaluation of the NEST paper; writes docs/generated/evaluation.md (half an hour; goes on where it was stopped)
	$(call install,$(ALPA_PACKAGES))
	@cmake --preset release -DNEST_BUILD_TESTS=OFF $(CMAKE_ARGS) >/dev/null
	@cmake --build --preset release -j $(JOBS) --target nest-paper
	@build/nest-paper --records build/paper.jsonl --threads $(JOBS) --page docs/generated/evaluation.md --figures evaluation

.PHONY: dist dist-check container
dist: deps ## Build what others install: build/dist with a static program, a wheel, a Debian package, checksums, a bill of materials
	$(call install,$(PYTHON_PACKAGES))
	@cmake --preset release -DNEST_BUILD_TESTS=OFF $(CMAKE_ARGS) >/dev/null
	@cmake --build --preset release -j $(JOBS) --target nest-static nest-wheel
	@tools/dist/pack build
dist-check: dist ## Take it to places that have nothing, and work there: make dist-check [OLD=folder of an older system]
	$(call install,python3-venv)
	@tools/dist/check build $(OLD)
container: dist ## Build a container of one file, nest:VERSION, with podman, buildah or docker
	@tools/dist/container build

.PHONY: lint format
lint: deps-test ## Check formatting, static analysis and house rules
	@tools/lint $(JOBS)
format: deps-test ## Format all sources
	@git ls-files -co --exclude-standard '*.cc' '*.h' | xargs clang-format -i

.PHONY: page page-check
page: page-wasm ## Build nest for the browser, one file that needs nothing else: build/page/index.html
	$(call install,$(if $(shell which npm),,npm))
	@cd page && npm ci --silent && npx --no-install tsc --noEmit
	@node page/build.mjs
page-check: page build ## Test the page in Chromium: every panel, every way in and to fail; 200 questions beside the program
	$(call install,chromium)
	@cd page && node --test tests/units.test.mjs tests/page.test.mjs tests/input.test.mjs tests/same.test.mjs

.PHONY: clean
clean: ## Remove everything that was built
	@rm -rf build
