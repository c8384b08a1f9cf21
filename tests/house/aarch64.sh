#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# labels: long
# serial: yes
# timeout: 7200
# The house on AArch64 without kernel library and MPI: formats, reference kernels, our own kernels with their dot products, lowering and
# planning, cross-compiled and run under qemu-user. CONTRIBUTING.md says what to install.
set -eu
skip() { echo "skipped: $1"; exit 77; }
[ -z "$QS_SANITIZE" ] || exit 77
for tool in aarch64-linux-gnu-gcc qemu-aarch64; do command -v $tool > /dev/null || skip "there is no $tool"; done
for library in jansson libxxhash zlib cmocka; do
    PKG_CONFIG_LIBDIR=/usr/lib/aarch64-linux-gnu/pkgconfig pkg-config --exists $library || skip "there is no $library for arm64"
done
build=$QS_BUILD/aarch64
"$QS_CMAKE" -S "$QS_SOURCE" --preset aarch64 -B "$build" > "$build.log" 2>&1 || { cat "$build.log"; exit 1; }
"$QS_CMAKE" --build "$build" > "$build.log" 2>&1 || { tail -n 60 "$build.log"; exit 1; }
cd "$build"
ctest -R '^(base|number|tensor|op|device|graph|schedule|record|costmodel|planner)\.' --label-exclude long > "$build.log" 2>&1 ||
    { tail -n 60 "$build.log"; exit 1; }
tail -n 12 "$build.log"
qemu-aarch64 "$build/qsync" devices --json | grep -q '"library": "own kernels"' || { echo "devices does not say whose kernels run"; exit 1; }
qemu-aarch64 "$build/qsync" devices | grep -q 'formats fp32 int8' || { echo "the dot products are not offered as int8"; exit 1; }
