#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# How well do indicators rank operators and recipes as the measured gradient noise does? For every model a profile, the ground truth of
# BENCH_SEEDS seeds at the weights that its statistics end with, and the noise that a profile measures there, which has other samples and other
# draws than the truth: Spearman's rank correlation over all pairs of operator and recipe (spearman.MODEL.INDICATOR.CONVENTION), within each recipe
# (within), and over what an operator gains by one recipe more (steps). bound: what the truth's own noise lets a perfect indicator reach, from the
# correlation of its halves. cost: steps of half a batch that the measurement took, and those over the steps that a profile times at least
# (docs/method.md §3.10). together: noise of several operators over the sum of theirs. plans: the truth summed over the operators that plans by
# measured lower, over that of plans by qsync, at five memory limits (null: nothing had to be lowered). later: the noise of iteration 50, and that measured
# anew, against the truth of later training (BENCH_LATER iterations, of BENCH_LATER_MODELS). No figure depends on time.
# What is in BENCH_OUT (run/bench-indicator) is not measured again.
# BENCH_MODELS (lenet5 resnet8 resnet20 mobilenet_v2 vit bert), BENCH_SEEDS (64), BENCH_BATCHES (64, to which the seeds are dealt; bert: 16),
# BENCH_LATER (200 2000), BENCH_LATER_MODELS (resnet8), BENCH_REPETITIONS (8): those of a profile, which decide how many runs it takes.
set -eu
cd "$(dirname "$0")/.."
bench_name=indicator
. bench/common.sh
: "${BENCH_MODELS:=lenet5 resnet8 resnet20 mobilenet_v2 vit bert}" "${BENCH_SEEDS:=64}" "${BENCH_BATCHES:=64}" "${BENCH_LATER:=200 2000}" \
    "${BENCH_LATER_MODELS:=resnet8}" "${BENCH_REPETITIONS:=8}" "${BENCH_OUT:=run/bench-indicator}"
[ -n "${QSYNC_DATA:-}" ] || export QSYNC_DATA=../shared/data
mkdir -p "$BENCH_OUT"
part=0.3

# logged COMMAND...: what it says is for a failure only.
logged() {
    "$@" > "$BENCH_OUT/log" 2>&1 || { cat "$BENCH_OUT/log" >&2; exit 1; }
}

# at NAME ITERATIONS BATCHES JOB...: truth and measured noise at the weights of so many iterations.
at() {
    name=$1 iterations=$2 batches=$3 profile=$BENCH_OUT/$1.profile.json out=$BENCH_OUT/$1-$2
    shift 3
    if [ ! -s "$out.truth.json" ]; then
        echo "bench: ground truth of $name after $iterations iterations" >&2
        "$QSYNC" indicator --no-pinning --ground-truth --profile "$profile" "$@" --seeds "$BENCH_SEEDS" --batches "$batches" \
            --warm-up "$iterations" --json > "$out.new"
        mv "$out.new" "$out.truth.json"
    fi
    [ ! -s "$out.measured.json" ] || return 0
    echo "bench: noise of $name after $iterations iterations" >&2
    steps=$(jq "2 * .classes.single.quality.plans * $BENCH_REPETITIONS + .statistics.iterations" "$profile")
    cp "$profile" "$out.new"
    logged "$QSYNC" profile --no-pinning "$@" --noise-only --statistics-iterations "$iterations" \
        --noise-runs "$(jq -n "$part * $steps | floor")" --out "$out.new"
    # The truth is of half the job's batch, and one process is all of it.
    jq '.batch = .statistics.noise.batch' "$out.new" > "$out.half"
    "$QSYNC" indicator --profile "$out.half" --indicator measured --global-batch "$(jq .batch "$out.half")" --json > "$out.omega"
    jq --argjson steps "$steps" --slurpfile omega "$out.omega" '{steps: $steps, runs: .statistics.noise.runs,
        rows: (.statistics.noise.rows | length)} + $omega[0]' "$out.new" > "$out.measured.json"
    [ "$iterations" != 50 ] || plans "$name" "$out.new" "$@"
    rm "$out.new" "$out.half" "$out.omega"
}

# plans NAME PROFILE JOB...: what each indicator's plan keeps where memory binds and time does not: at five limits between what all low
# and all high precision take.
plans() (
    name=$1 profile=$2 out=$BENCH_OUT/$1.plan
    shift 2
    cluster 8589934592 > "$out.cluster"
    for planner in fp32 uniform; do
        logged "$QSYNC" plan --cluster "$out.cluster" --profile "$profile" "$@" --planner $planner --out "$out.$planner"
    done
    for tenths in 1 3 5 7 9; do
        cluster "$(jq -n --slurpfile low "$out.uniform" --slurpfile high "$out.fp32" "[\$low[0], \$high[0] | .classes.single.predicted.memory.arena]
            | .[0] + $tenths / 10 * (.[1] - .[0]) | floor")" > "$out.cluster"
        for indicator in qsync measured; do
            logged "$QSYNC" plan --cluster "$out.cluster" --profile "$profile" "$@" --indicator $indicator --tolerance 0.9 --out "$out.one"
            jq -c --arg indicator $indicator --argjson memory $tenths '{indicator: $indicator, memory: ($memory / 10), operators: (.classes.single.operators
                | map_values(if type == "string" then . else .recipe end))}' "$out.one"
        done
    done > "$BENCH_OUT/$name.plans"
    rm "$out".*
)
cluster() { # BYTES
    jq -n "{schema: \"qsync/cluster/2\", classes: {single: {role: \"inference\", backend: \"cpu\", cpu: {threads: 1, isa: \"all\"}, count: 1, speed: 1,
        memory: {capacity: 8589934592, limit: $1}, formats: [\"fp32\", \"bf16\", \"int8\"]}}}"
}

# model NAME BATCHES JOB...: a profile whose kernels are timed hardly more than once is enough, since no time counts here.
model() {
    name=$1 batches=$2
    shift 2
    if [ ! -s "$BENCH_OUT/$name.profile.json" ]; then
        echo "bench: profile of $name" >&2
        logged "$QSYNC" profile --no-pinning "$@" --repetitions 2 --conversion-seconds 0.1 --noise-runs 0 --out "$BENCH_OUT/$name.new"
        mv "$BENCH_OUT/$name.new" "$BENCH_OUT/$name.profile.json"
    fi
    at "$name" 50 "$batches" "$@"
    case " $BENCH_LATER_MODELS " in *" $name "*) ;; *) return 0 ;; esac
    for iterations in $BENCH_LATER; do
        at "$name" "$iterations" "$batches" "$@"
    done
}

for one in $BENCH_MODELS; do
    case $one in
    lenet5) model lenet5 "$BENCH_BATCHES" --model lenet5 --dataset fashion-mnist --batch 32 ;;
    resnet8 | resnet20) model "$one" "$BENCH_BATCHES" --model "$one" --dataset cifar10 --batch 32 ;;
    mobilenet_v2) model mobilenet_v2 "$BENCH_BATCHES" --model mobilenet_v2:width=0.25 --dataset cifar10 --batch 32 ;;
    vit) model vit "$BENCH_BATCHES" --model vit:layers=4,hidden=96,heads=3,inner=384,patch=8 --dataset cifar10 --batch 16 --optimizer adam ;;
    bert) model bert 16 --model bert:layers=3,hidden=128,heads=2,inner=512 --dataset sst2:length=32 --batch 16 --optimizer adam ;;
    *) echo "bench: no model $one" >&2; exit 2 ;;
    esac
done

for truth in "$BENCH_OUT"/*.truth.json; do
    name=$(basename "$truth" .truth.json)
    [ ! -s "$BENCH_OUT/$name.measured.json" ] ||
        jq --arg name "${name%-*}" --slurpfile measured "$BENCH_OUT/$name.measured.json" --slurpfile plans "$BENCH_OUT/${name%-*}.plans" \
            '. + {name: $name, measured: $measured[0], plans: $plans}' "$truth"
done | jq -s -f bench/indicator_figures.jq > "$BENCH_OUT/figures"
bench_write "$BENCH_OUT/figures"
jq '.figures | {mean, worst, bound, cost}' bench/results/indicator.json
