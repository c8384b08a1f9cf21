#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# labels: medium
# ranks: 2
# qsync-bench wires: a figure for each algorithm and wire, beside it what a profile says; one rank is refused.
program=$QSYNC_BENCH
. "$(dirname "$0")/../cli/check.inc"
folder=$(dirname "$0")/../cli

launch wires --rounds 2 --message-bytes 1048580 --json > "$work/out" 2> "$work/err" || { cat "$work/err"; fail "wires"; }
jq -e '.ranks == 2 and .bytes == 1048580 and ([.algorithms[][] | .us, .of_fp32, .median_us] | length == 18 and all(. > 0)) and
    .algorithms.shared.fp32.of_fp32 == 1 and ([.algorithms[][] | .predicted_us] | all(. == null))' "$work/out" > /dev/null ||
    { cat "$work/out"; fail "no figures of wires"; }

# By hand: `shared` in int8 is known, all else is not.
cat > "$work/profile.jq" << 'END'
.collectives = [{ranks: 2, link: "shared-memory", algorithm: "shared", wire: "int8", alpha_us: 10, us_per_byte: 0.001, r2: 1, cpu_share: 1, temporary_per_byte: 0}]
END
program=$QSYNC
"$QSYNC" profile --estimate --cluster "$folder/../../examples/cluster-b.json" --model lenet5 --dataset shapes --out "$work/estimate.json" > /dev/null || fail "estimate"
jq -f "$work/profile.jq" "$work/estimate.json" > "$work/profile.json"
program=$QSYNC_BENCH
launch wires --rounds 3 --message-bytes 1000000 --all-reduce shared --profile "$work/profile.json" --json > "$work/out" 2> "$work/err" || { cat "$work/err"; fail "predicted"; }
jq -e '(.algorithms | keys == ["shared"]) and (.algorithms.shared | .fp32.predicted_us == null and .int8.predicted_us == 1010 and
    (.int8 | .predicted_of_measured * .median_us / .predicted_us - 1 | fabs < 1e-9))' "$work/out" > /dev/null || { cat "$work/out"; fail "what the profile says"; }
refuse 2 'one rank moves nothing' wires
refuse 2 'multiple of 4' wires --message-bytes 1048578
refuse 2 'carried by shared and library' wires --all-reduce ring
finish
