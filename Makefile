# A thin front for cmake, ctest and the tools; `make help` lists what there is.
JOBS         ?= $(shell nproc)
MODEL        ?= models/fable
PROMPT       ?= Tell me a story about a brave fox.
PREFIX       ?= /usr/local
FUZZ_SECONDS ?= 60
# Given on the command line to run or test one thing: make test ONLY=tokenizer
ONLY         ?=
CMAKE_FLAGS  ?=

ifneq ($(shell command -v ninja),)
export CMAKE_GENERATOR = Ninja
endif
# The address space of ThreadSanitizer does not bear the kernel's randomisation.
UNRANDOM = setarch $(shell uname -m) -R

.PHONY: all help deps run test clang check format asan ubsan tsan neon fuzz bench install clean
.DEFAULT_GOAL := all

# With the name of a preset: $(call build,release).
build     = $(call configure,$(1)) && cmake --build --preset $(1) --parallel $(JOBS)
configure = cmake --preset $(1) $(CMAKE_FLAGS) >/dev/null
ctest     = ctest --preset $(1) -j $(JOBS) $(if $(ONLY),-R $(ONLY))

all: ## build the program: build/sluice
	@tools/deps.sh --check build
	@$(call build,release)

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z ]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

deps: ## install what building and testing need (Debian packages)
	@tools/deps.sh build

run: deps all ## answer PROMPT="..." with the model in MODEL=models/fable
	@build/sluice run -m '$(MODEL)' -p '$(subst ','\'',$(PROMPT))'

test: deps all ## run all tests; ONLY=regex chooses
	@$(call ctest,release)

clang: ## build everything with clang, in build-clang
	@tools/deps.sh build check
	@$(call build,$@)

check: ## format, layers, sizes, wiring that must not compile, clang-tidy, cppcheck
	@tools/deps.sh build check
	@$(call configure,clang)
	@tools/check.sh $(JOBS)

format: ## rewrite all sources in the house style
	@tools/deps.sh check
	@tools/check.sh --format

asan ubsan: ## run all tests under a sanitizer (asan includes ubsan, with gcc)
	@tools/deps.sh build $(if $(filter ubsan,$@),fuzz)
	@$(call build,$@)
	@$(call ctest,$@)

tsan: ## run the tests that use threads under ThreadSanitizer
	@tools/deps.sh build
	@$(call build,$@)
	@$(UNRANDOM) $(call ctest,$@)

neon: ## cross-compile for 64-bit ARM what needs no library and run its tests under qemu
	@tools/deps.sh build cross
	@$(call build,aarch64)
	@$(call ctest,aarch64)

fuzz: ## run every fuzzer for FUZZ_SECONDS=60; ONLY=regex chooses
	@tools/deps.sh build fuzz
	@$(call build,fuzz)
	@tools/fuzz.sh $(FUZZ_SECONDS) $(ONLY)

bench: deps all ## run every benchmark; ONLY=regex chooses
	@cmake --build build --target benches --parallel $(JOBS)
	@for bench in $$(ls build/benches/* 2>/dev/null | grep -E '$(ONLY)'); do \
	    echo "== $${bench#build/benches/}"; "$$bench" || exit 1; done

install: all ## install program, library, headers and package files in PREFIX=/usr/local
	@cmake --install build --prefix '$(PREFIX)'

clean: ## remove everything that was built
	@rm -rf build build-*
