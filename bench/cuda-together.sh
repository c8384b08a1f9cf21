#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Ranks of one job on one machine with a GPU, by MPI, as figures of examples/demo.sh: `shared`, two unlike classes of one GPU at once
# (examples/cluster-gpu.json), and `mixed`, a CPU beside the GPU (examples/cluster-mixed.json). A pair that fails, or takes more than TOGETHER_SECONDS (100), leaves the figures of what it came to.
# TOGETHER_OUT (run/cuda-together) keeps runs; TOGETHER_PAIRS (shared mixed).
set -eu
cd "$(dirname "$0")/.."
bench_name=cuda-together
. bench/common.sh
: "${TOGETHER_OUT:=run/cuda-together}" "${TOGETHER_PAIRS:=shared mixed}" "${TOGETHER_SECONDS:=100}"
export QSYNC
mkdir -p "$TOGETHER_OUT"

job() { # NAME CLUSTER MODEL BATCH EPOCHS IMAGES REPETITIONS
    name=$1
    folder=$TOGETHER_OUT/$name
    rm -rf "$folder" "$folder.figures"
    DEMO_OUT=$folder DEMO_CLUSTER=$2 DEMO_MODEL=$3 DEMO_BATCH=$4 DEMO_EPOCHS=$5 DEMO_DATASET=$images \
        DEMO_PROFILE="--repetitions $7 --conversion-seconds 2 --statistics-iterations 4" DEMO_OPTIONS="--train-limit $6 --test-limit 1280" \
        timeout -k 5 "$TOGETHER_SECONDS" sh examples/demo.sh || failed=1
    set --
    for planner in fp32 uniform qsync; do
        [ ! -f "$folder/$planner/result.json" ] || set -- "$@" "$folder/$planner"
    done
    [ $# -gt 0 ] || return 0
    "$QSYNC" report --json "$@" > "$folder/report.json"
    jq --arg folder "$folder/" 'def short: if type == "object" then with_entries(.key |= ltrimstr($folder) | .value |= short) else . end; short' \
        "$folder/report.json" > "$folder.figures"
}

failed=0
images=shapes
[ ! -d "${QSYNC_DATA:-}/cifar10" ] || images=cifar10
for one in $TOGETHER_PAIRS; do
    case $one in
    shared)
        jq '.links[].kind = "shared-memory"' examples/cluster-gpu.json > "$TOGETHER_OUT/cluster-shared.json"
        job shared "$TOGETHER_OUT/cluster-shared.json" resnet20 32 2 960 2
        ;;
    mixed) job mixed examples/cluster-mixed.json resnet8 64 2 2560 4 ;;
    *) echo "bench: $one: must be shared or mixed" >&2 && exit 2 ;;
    esac
done
for name in shared mixed; do
    [ ! -f "$TOGETHER_OUT/$name.figures" ] || jq --arg name "$name" '{($name): .}' "$TOGETHER_OUT/$name.figures"
done | jq -s 'add' > "$TOGETHER_OUT/figures.json"
bench_write "$TOGETHER_OUT/figures.json"
jq -r '.figures // {} | to_entries[] | .key as $pair | .value | .memory as $memory | .iteration_us as $median | .audit | to_entries[] | .key as $plan | .value.iteration_us
    | "\($pair) \($plan): an iteration \($median[$plan] / 10 | round / 100) ms, \(.measured / 10 | round / 100) where kernels were timed, predicted \(.predicted / 10 | round / 100); memory \($memory[$plan] | to_entries
        | map("\(.key) \(.value.reserved) bytes, predicted \(.value.predicted)") | join(", "))"' bench/results/cuda-together.json
exit $failed
