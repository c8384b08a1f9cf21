#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# labels: medium
# ranks: 2
# qsync-bench wires: a figure for each algorithm and wire; one rank is refused.
program=$QSYNC_BENCH
. "$(dirname "$0")/../cli/check.inc"

launch wires --rounds 2 --message-bytes 1048580 --json > "$work/out" 2> "$work/err" || { cat "$work/err"; fail "wires"; }
jq -e '.ranks == 2 and .bytes == 1048580 and ([.algorithms[][] | .us, .of_fp32] | length == 12 and all(. > 0)) and .algorithms.shared.fp32.of_fp32 == 1' "$work/out" > /dev/null ||
    { cat "$work/out"; fail "no figures of wires"; }
refuse 2 'one rank moves nothing' wires
refuse 2 'multiple of 4' wires --message-bytes 1048578
finish
