# SPDX-License-Identifier: Apache-2.0
# A thin front of CMake and the scripts: needs nothing but make, git and sh on a fresh Debian 12.

JOBS ?= $(shell nproc 2>/dev/null || echo 2)
PREFIX ?= /usr/local
CTEST_ARGS ?= --label-exclude long

# Open MPI refuses to start as root unless told twice; cross-memory attach is often forbidden in containers and then only warns.
ifeq ($(shell id -u),0)
export OMPI_ALLOW_RUN_AS_ROOT = 1
export OMPI_ALLOW_RUN_AS_ROOT_CONFIRM = 1
endif
export OMPI_MCA_btl_vader_single_copy_mechanism ?= none

.PHONY: help setup release test demo conformance onnx-training install lint format clean
help:
	@echo 'make demo          profile, plan and train over two unlike devices (installs what is missing, a few minutes)'
	@echo 'make test          build with warnings as errors and run the tests; CTEST_ARGS="-R base" picks some'
	@echo 'make release       build the program: build/release/qsync'
	@echo 'make install       install library, doors and program under PREFIX ($(PREFIX)); DESTDIR is obeyed'
	@echo 'make bench-NAME    measure: bench/NAME.sh writes bench/results/NAME.json; there is:$(patsubst bench/%.sh, bench-%,$(wildcard bench/*.sh))'
	@echo 'make conformance   run the official cases of ONNX: bench/results/conformance.json'
	@echo 'make onnx-training train every ONNX model at hand over two unlike ranks: bench/results/onnx-training.json'
	@echo 'make experiment-NAME  run experiments/NAME/run.sh: results.csv and a picture; there is:$(patsubst experiments/%/run.sh, experiment-%,$(wildcard experiments/*/run.sh))'
	@echo 'make setup         install the missing Debian packages of tools/packages.txt'
	@echo 'make lint          check formatting and sizes; make format formats'
	@echo 'make clean         remove build/'
	@echo 'Sanitizers: cmake --preset asan (ubsan, tsan), cmake --build --preset asan, ctest --preset asan'

setup:
	@sh tools/setup.sh tools/packages.txt

release:
	@cmake --preset release
	@cmake --build --preset release -j $(JOBS)

test: setup
	@cmake --preset dev
	@cmake --build --preset dev -j $(JOBS)
	@ctest --preset dev -j $(JOBS) $(CTEST_ARGS)

demo: setup
	@$(MAKE) --no-print-directory release
	@QSYNC="$(CURDIR)/build/release/qsync" sh examples/demo.sh

bench-%: setup
	@test -f bench/$*.sh || { echo 'there is no bench/$*.sh; there is:$(patsubst bench/%.sh, bench-%,$(wildcard bench/*.sh))' >&2; exit 2; }
	@$(MAKE) --no-print-directory release
	@mkdir -p bench/results
	@QSYNC="$(CURDIR)/build/release/qsync" sh bench/$*.sh

conformance: bench-conformance
onnx-training: bench-onnx-training

# On the machine that has the GPU and nvcc; from another one, tools/gpu-check.sh brings programs to it.
bench-cuda-%: setup
	@cmake --preset gpu
	@cmake --build --preset gpu -j $(JOBS) --target qsync qsync-bench
	@QSYNC="$(CURDIR)/build/gpu/qsync" sh bench/cuda-$*.sh

experiment-%: setup
	@test -f experiments/$*/run.sh || { echo 'there is no experiments/$*; there is:$(patsubst experiments/%/run.sh, experiment-%,$(wildcard experiments/*/run.sh))' >&2; exit 2; }
	@$(MAKE) --no-print-directory release
	@QSYNC="$(CURDIR)/build/release/qsync" sh experiments/$*/run.sh

install: release
	@cmake --install build/release --prefix "$(PREFIX)"

lint:
	@sh tools/lint.sh

format:
	@git ls-files '*.c' '*.h' 'src/*.inc' | xargs clang-format -i

clean:
	rm -rf build
