# A thin front for cmake, ctest and the tools; `make help` lists what there is.
JOBS         ?= $(shell nproc)
MODEL        ?= models/fable
PROMPT       ?= Tell me a story about a brave fox.
PREFIX       ?= /usr/local
FUZZ_SECONDS ?= 60
# Instruction sets of the CPU kernels: native (baseline and this machine's), all.
ISA          ?= native
# CUDA kernels: auto (for this machine's GPU, if it has one), 1, all, 0, or compute capabilities (90).
CUDA         ?= auto
# 1: with debug information, in files of their own.
DEBUG        ?= 0
# Given on the command line to run or test one thing: make test ONLY=tokenizer
ONLY         ?=
CMAKE_FLAGS  ?=

ifneq ($(shell command -v ninja),)
export CMAKE_GENERATOR = Ninja
endif
# The address space of ThreadSanitizer does not bear the kernel's randomisation.
UNRANDOM = setarch $(shell uname -m) -R

.PHONY: all help deps run test test-long check check-all format abi asan tsan neon ptx fuzz coverage bench install deb clean
.DEFAULT_GOAL := all

# With the name of a preset, and a target or nothing: $(call build,release,tests).
build     = $(call configure,$(1)) && cmake --build --preset $(1) --parallel $(JOBS) $(if $(2),--target $(2))
configure = cmake --preset $(1) $(if $(filter release,$(1)),$(RELEASE_FLAGS)) -DSLUICE_ISA=$(ISA) $(CMAKE_FLAGS) >/dev/null
ctest     = ctest --preset $(1) -j $(JOBS) $(if $(ONLY),-R '$(ONLY)') | tools/test_times.awk

RELEASE_FLAGS = -DSLUICE_CUDA=$(patsubst 0,OFF,$(patsubst 1,ON,$(CUDA))) \
                -DCMAKE_BUILD_TYPE=$(if $(filter 1,$(DEBUG)),RelWithDebInfo,Release)
SHELL       = /bin/bash
.SHELLFLAGS = -o pipefail -c

all: ## build the program: build/sluice; ISA=all, CUDA=1|all, DEBUG=1
	@tools/deps.sh --check build
	@$(call build,release)

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z -]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

deps: ## install what building and testing need (Debian packages)
	@tools/deps.sh build test page

run: ## answer PROMPT="..." with the model in MODEL=models/fable
	@tools/deps.sh build
	@$(call build,release)
	@build/sluice run -m '$(MODEL)' -p '$(subst ','\'',$(PROMPT))' </dev/null

test: ## build and run all tests; ONLY=regex chooses
	@tools/deps.sh build test
	@$(call build,release,tests)
	@$(call ctest,release)

test-long: ## the same with every case of the suites that choose some
	@SLUICE_LONG=1 $(MAKE) --no-print-directory test

check: ## format, layers, sizes, words, public headers and symbols, wiring that must not compile, cppcheck, clang-tidy
	@tools/deps.sh build test check
	@$(call build,release,libsluice libsluice_shared) >/dev/null
	@$(call build,asan,cuda_stamp) >/dev/null
	@tools/check.sh $(JOBS)

check-all: ## the same, with clang's path-sensitive analyzer on all files
	@tools/deps.sh build test check
	@$(call build,release,libsluice libsluice_shared) >/dev/null
	@$(call build,asan,cuda_stamp) >/dev/null
	@tools/check.sh $(JOBS) --all

abi: ## record the ABI of the stable headers in tests/abi/reference.xml
	@tools/deps.sh check
	@python3 tools/check_abi.py --update

format: ## rewrite all sources in the house style
	@tools/deps.sh check
	@tools/check.sh --format

asan: ## run all tests under the address and undefined behaviour sanitizers (clang)
	@tools/deps.sh build test check
	@$(call build,$@,tests)
	@$(call ctest,$@)

tsan: ## run the tests that use threads under ThreadSanitizer
	@tools/deps.sh build test
	@$(call build,$@,tests)
	@$(UNRANDOM) $(call ctest,$@)

ptx: ## compile the CUDA kernels as far as PTX, where nvcc is installed
	@if command -v nvcc >/dev/null || [ -x /usr/local/cuda/bin/nvcc ]; then \
	    cmake --preset ptx >/dev/null && cmake --build --preset ptx --parallel $(JOBS) --target cuda_images; \
	else echo "ptx: nvcc is not installed: the CUDA kernels are compiled for the emulated driver only"; fi

neon: ## cross-compile for 64-bit ARM what needs no library and run its tests under qemu
	@tools/deps.sh build cross
	@$(call build,aarch64,tests)
	@$(call ctest,aarch64)

fuzz: ## run every fuzzer for FUZZ_SECONDS=60; ONLY=regex chooses
	@tools/deps.sh build fuzz
	@$(call build,fuzz,fuzzers)
	@tools/fuzz.sh $(FUZZ_SECONDS) '$(ONLY)'

coverage: ## how many lines of their readers the fuzzers reach, with what make fuzz has learned; ONLY=regex chooses
	@tools/deps.sh build fuzz
	@tools/fuzz_coverage.sh '$(ONLY)'

bench: ## run every benchmark; ONLY=regex chooses
	@tools/deps.sh build test
	@$(call build,release,benches)
	@for bench in $$(ls build/benches/* 2>/dev/null | grep -E '$(ONLY)'); do \
	    echo "== $${bench#build/benches/}"; "$$bench" || exit 1; done

install: ## install program, library, headers and package files in PREFIX=/usr/local
	@tools/deps.sh --check build
	@$(call build,release,package)
	@cmake --install build --prefix '$(PREFIX)'

deb: ## build a Debian package for every machine of this architecture: build-deb/sluice_*.deb
	@tools/deps.sh --check build
	@cmake --preset deb $(CMAKE_FLAGS) >/dev/null
	@cmake --build --preset deb --parallel $(JOBS) --target package
	@cd build-deb && cpack --config cpack.cmake

clean: ## remove everything that was built
	@rm -rf build build-*
