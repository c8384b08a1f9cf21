#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Gigabytes per second of rounding 64 MiB of fp32 values in place, per format and rounding (rounding.FORMAT.MODE), of rounding and packing in
# one pass (packing.FORMAT) and of unpacking (unpacking.FORMAT): gb_per_s, and the fraction of what a copy moves in the same run. One thread,
# two threads (two.*), and one under lower instruction-set ceilings (avx2.*, portable.*).
# BENCH_ROUNDS (12).
set -eu
cd "$(dirname "$0")/.."
bench_name=formats
. bench/common.sh
: "${QSYNC:=build/release/qsync}" "${BENCH_ROUNDS:=12}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

measure() { # NAME THREADS ISA
    OMP_NUM_THREADS=$2 "$QSYNC" bench --formats --threads "$2" --isa "$3" --steps "$BENCH_ROUNDS" --json > "$work/$1"
    echo "bench: $1 done" >&2
}

measure one 1 all
measure two 2 all
measure avx2 1 avx2
measure portable 1 portable
# Figures of other kinds join here, each a file with one object.
jq -s '.[0] + {two: .[1], avx2: .[2], portable: .[3]}' "$work/one" "$work/two" "$work/avx2" "$work/portable" > "$work/figures.json"
bench_write "$work/figures.json"
jq '.figures | {copy_gb_per_s, rounding: (.rounding | map_values(map_values(.fraction)))}' bench/results/formats.json
