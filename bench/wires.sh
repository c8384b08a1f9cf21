#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Microseconds of all-reduces of gradients among ranks of this host, by size, algorithm and wire: through the window that ranks share, and by
# the MPI library; of_fp32 is the time over that of the same algorithm on fp32, library_over_shared that of the library over the window's.
# All of a size run by turns, from values and residuals that have left the caches, and of each the least time counts.
# BENCH_SIZES (1 11 100, MiB), BENCH_RANKS (2), BENCH_ROUNDS (100).
set -eu
cd "$(dirname "$0")/.."
bench_name=wires
. bench/common.sh
. tools/launch.sh
: "${BENCH_SIZES:=1 11 100}" "${BENCH_RANKS:=2}" "${BENCH_ROUNDS:=100}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for size in $BENCH_SIZES; do
    QSYNC=$QSYNC_BENCH launch "$BENCH_RANKS" wires --message-bytes $((size * 1048576)) --rounds "$BENCH_ROUNDS" --json | jq --arg size "$size" '. + {$size}'
    echo "bench: $size MiB done" >&2
done > "$work/sizes"

jq -s '{ranks: .[0].ranks, mib: (map({key: .size, value: (.algorithms as $a
    | $a + {library_over_shared: ($a.shared | with_entries(.value = $a.library[.key].us / .value.us))})}) | from_entries)}' "$work/sizes" \
    > "$work/figures.json"
bench_write "$work/figures.json"
jq '.figures.mib | map_values(.library_over_shared)' bench/results/wires.json
