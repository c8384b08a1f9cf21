#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# labels: medium
# ranks: 2
# timeout: 1200
# What runs is what ran: final weights and figures of short trainings, plans made from profiles that lie here, and what every built-in model
# is lowered to under every recipe and instruction-set ceiling, held against same_bits/expected.tsv. A change that is meant to change no bit
# changes no row; one that is meant to says so with the rows that it writes anew.
#
# A row: processor, name, hash. Rows of processor "any" hold wherever the program runs: the reference device, planners, estimates. The others
# hold for processors of that name (`qsync devices`): vector kernels and the kernel library choose by it. On a processor without rows of its
# own only the "any" rows are compared, and the verdict says so.
#   SAME_BITS_RECORD=FILE    writes this build's rows to FILE instead of comparing: once before a change, on any machine
#   SAME_BITS_EXPECTED=FILE  compares with such a file instead
# Names may change where bits do not: same_bits/names.sed makes those of today's cases, kernels and buffers the ones that the rows were
# written with.
#
# Environment: QS_BUILD (with qsync and tests/house_schedules), QS_SOURCE.
set -u
QSYNC=$QS_BUILD/qsync
. "$QS_SOURCE/tests/cli/check.inc"
here=$QS_SOURCE/tests/house/same_bits
expected=${SAME_BITS_EXPECTED:-$here/expected.tsv}
rows=$work/rows.tsv
: > "$rows"

processor=$("$QSYNC" devices --json | jq -r '.devices[0].cpu')
backends=$("$QSYNC" devices --json | jq -r '.devices[].backend' | tr '\n' ' ')
formats=$("$QSYNC" devices --json | jq -r '.devices[] | select(.backend == "cpu").formats[]' | tr '\n' ' ')
has() { case " $1 " in *" $2 "*) return 0 ;; esac; return 1; }
has "$backends" cpu || { echo "this build has no cpu device"; exit 77; }

# row PROCESSOR NAME: the hash of standard input.
row() { printf '%s\t%s\t%s\n' "$1" "$2" "$(sha256sum | cut -c 1-16)" >> "$rows"; }

# ---- Schedules -----------------------------------------------------------------------------------------------------------------------

# schedules PROCESSOR BACKEND ISA: a row a model.
schedules() {
    "$QS_BUILD/tests/house_schedules" "$2" "$3" > "$work/all" 2> "$work/err" || { fail "schedules $2 $3: $(cat "$work/err")"; return; }
    sed -f "$here/names.sed" "$work/all" > "$work/old"
    awk -v folder="$work/models" 'BEGIN { system("mkdir -p " folder) } /^# / { file = folder "/" $2 } { print > file }' "$work/old"
    for file in "$work"/models/*; do
        row "$1" "schedules $2 $3 ${file##*/}" < "$file"
    done
    rm -rf "$work/models"
}
schedules any ref all
for isa in all avx512_core_bf16 avx512_core_vnni avx512_core avx2_vnni avx2; do
    schedules "$processor" cpu $isa
done

# The numbers of a JSON file, in the order of its sorted keys.
figures() { jq . "$1" | sed -f "$here/names.sed" | jq -c -S . | jq -c '[.. | numbers]'; }

# ---- Plans ---------------------------------------------------------------------------------------------------------------------------

# Signatures, the hash of the schedule and what is not the planner's are left out; keys are sorted behind the names' change.
plan_row() { # NAME FILE
    jq '{classes, recipes, samples_per_second, without} | del(.classes[].schedule) | del(..|nulls)' "$2" |
        sed -f "$here/names.sed" | jq -S . | row any "plan $1"
}
plan() { # NAME ARGUMENTS...: under the convention that was the standard when they were written down
    name=$1
    shift
    "$QSYNC" plan "$@" --convention influence-counted --epochs 1 --out "$work/plan.json" > "$work/out" 2> "$work/err" ||
        { fail "plan $name: $(cat "$work/err")"; return; }
    plan_row "$name" "$work/plan.json"
}
for file in profile tensors-profile; do
    gzip -dc "$here/$file.json.gz" > "$work/$file.json"
done
jq '.classes.weak.memory.limit = "7300KiB"' "$here/cluster.json" > "$work/tight.json"
for planner in fp32 uniform qsync exact qsync-heap random hess dpro dbs joint; do
    plan "$planner" --cluster "$here/cluster.json" --profile "$work/profile.json" --planner $planner
done
for planner in uniform qsync qsync-heap random hess dpro; do
    plan "$planner, little memory" --cluster "$work/tight.json" --profile "$work/profile.json" --planner $planner
done
plan "uniform, until it fits" --cluster "$work/tight.json" --profile "$work/profile.json" --planner uniform --until-fits
plan "qsync, tolerance" --cluster "$here/cluster.json" --profile "$work/profile.json" --tolerance 0.1
cp "$work/plan.json" "$work/tolerant.json"
"$QSYNC" simulate --cluster "$here/cluster.json" --profile "$work/profile.json" --plan "$work/tolerant.json" --trace "$work/trace.json" --json \
    > "$work/simulated.json" 2> "$work/err" || fail "simulate: $(cat "$work/err")"
figures "$work/simulated.json" | row any "simulate"
figures "$work/trace.json" | row any "simulated trace"
"$QSYNC" simulate --cluster "$here/cluster.json" --profile "$work/profile.json" --plan "$work/tolerant.json" --count big=16,weak=16 \
    --slow weak:1.2 --json > "$work/simulated.json" 2> "$work/err" || fail "simulate more ranks: $(cat "$work/err")"
figures "$work/simulated.json" | row any "simulate more ranks"
for indicator in qsync hess; do
    "$QSYNC" indicator --profile "$work/profile.json" --indicator $indicator --convention influence-counted --json > "$work/indicated.json" \
        2> "$work/err" || fail "indicator $indicator: $(cat "$work/err")"
    figures "$work/indicated.json" | row any "indicator $indicator"
done
for planner in uniform-fp op op-io demote; do
    plan "$planner" --cluster "$here/tensors-cluster.json" --profile "$work/tensors-profile.json" --planner $planner
done
plan "demote, ratio 0.4" --cluster "$here/tensors-cluster.json" --profile "$work/tensors-profile.json" --planner demote --ratio 0.4
for cluster in a b; do
    "$QSYNC" profile --estimate --cluster "$QS_SOURCE/examples/cluster-$cluster.json" --model resnet50 --dataset 3x224x224:1000 --batch 64 \
        --out "$work/estimate.json" > "$work/out" 2> "$work/err" || fail "estimate $cluster: $(cat "$work/err")"
    plan "estimated cluster $cluster" --cluster "$QS_SOURCE/examples/cluster-$cluster.json" --profile "$work/estimate.json" \
        --dataset 3x224x224:1000 --indicator random
done

# ---- Trainings -----------------------------------------------------------------------------------------------------------------------

# trained PROCESSOR NAME: rows of the run in $work/run, without its line of the plan's arithmetic, which is younger than the rows.
trained() {
    jq -r .weights_hash "$work/run/result.json" | row "$1" "weights $2"
    jq -c 'select(.type != "planned")' "$work/run/metrics.jsonl" > "$work/steps.jsonl"
    figures "$work/steps.jsonl" | row "$1" "metrics $2"
}
# The steps of all runs: 8 of 32 samples or so, evaluation, and an optimiser that has left its start.
steps="--dataset shapes --train-limit 200 --test-limit 40 --epochs 2 --max-steps 8 --warmup-epochs 0.1 --no-pinning"
# run PROCESSOR NAME ARGUMENTS...: one rank.
run() {
    processor_=$1 name=$2
    shift 2
    rm -rf "$work/run"
    # shellcheck disable=SC2086
    "$QSYNC" train $steps "$@" --out "$work/run" > "$work/out" 2> "$work/err" || { fail "train $name: $(cat "$work/err")"; return; }
    trained "$processor_" "$name"
}
# run_two NAME ARGUMENTS...: both ranks of cluster.json.
run_two() {
    name=$1
    shift
    rm -rf "$work/run"
    # shellcheck disable=SC2086
    launch train $steps --cluster "$here/cluster.json" --model resnet8 --batch 16 "$@" --out "$work/run" > "$work/out" 2> "$work/err" ||
        { fail "train $name: $(cat "$work/err")"; return; }
    trained "$processor" "$name"
}
# one CLASS: a cluster of one rank with these further fields.
one() {
    echo "{\"schema\": \"qsync/cluster/2\", \"classes\": {\"single\": {\"role\": \"training\", \"count\": 1, \"speed\": 1, $1}}}"
}
# uniform MODEL RECIPE: a plan that gives every operator this recipe.
uniform() {
    "$QSYNC" inspect "$1" --json | jq --arg recipe "$2" '{schema: "qsync/plan/2", classes: {single: {operators:
        ([.nodes[] | select(.class == "adjustable") | {(.name): $recipe}] | add)}}}'
}
# recipe PROCESSOR BACKEND FORMATS MODEL RECIPE ARGUMENTS...
recipe() {
    processor_=$1 backend=$2 model=$4 recipe=$5
    one "\"backend\": \"$backend\", \"$backend\": {\"isa\": \"${isa:-all}\"}, \"formats\": [$3]" > "$work/one.json"
    uniform "$model" "$recipe" > "$work/uniform.json"
    shift 5
    run "$processor_" "$backend ${isa:+$isa }$model $recipe $*" --cluster "$work/one.json" --plan "$work/uniform.json" --model "$model" "$@"
}
isa=
some='"fp32", "bf16", "int8"'
run "$processor" "lenet5, sgd" --model lenet5 --batch 32
run "$processor" "resnet8, adam, dynamic loss scaling" --model resnet8 --batch 32 --optimizer adam --loss-scaling dynamic --gradient-variance 4
run "$processor" "mobilenet_v2, adam" --model mobilenet_v2:width=0.25 --batch 32 --optimizer adam
run "$processor" "squeezenet, dropout" --model squeezenet:width=0.25 --batch 32
run "$processor" "vgg11, dropout, two threads" --model vgg11:width=0.25 --batch 32 --threads 2
recipe "$processor" cpu '"fp32"' resnet8:norm=ln fp32 --batch 32
if has "$formats" bf16; then
    recipe "$processor" cpu "$some" resnet8 bf16 --batch 32
    recipe "$processor" cpu "$some" resnet8 int8/bf16 --batch 32
    recipe "$processor" cpu "$some" shufflenet_v2:width=0.5 int8:tensor --batch 32
    recipe "$processor" cpu "$some, \"int4\"" resnet8 int4:shift4 --batch 32
    recipe "$processor" cpu "$some, \"int4\"" resnet8 int4:hadamard --batch 32
    recipe "$processor" cpu "$some" resnet8:norm=l1bnq int8/bf16 --batch 32 --norm-gap 4
    recipe "$processor" cpu "$some" resnet8:norm=l1lnq int8/bf16 --batch 32
    recipe "$processor" cpu "$some" mobilenet_v2:width=0.25 int8/bf16 --batch 32
fi
for isa in avx2 avx2_vnni avx512_core_vnni; do
    recipe "$processor" cpu '"fp32"' resnet8 fp32 --batch 16
    [ $isa = avx2 ] || recipe "$processor" cpu '"fp32", "int8"' resnet8 int8/fp32 --batch 16
done
isa=
recipe any ref "$some" lenet5 bf16 --batch 16 --max-steps 3
recipe any ref "$some" lenet5 int8:tensor --batch 16 --max-steps 3
recipe any ref '"fp32", "fp(4,3,4)"' lenet5 'fp(4,3,4)' --batch 16 --max-steps 3 --optimizer adam
run any "ref resnet8" --backend ref --model resnet8:width=0.5,norm=l1bn --batch 8 --max-steps 2 --train-limit 40

# Narrow accumulators.
one '"backend": "cpu", "formats": ["fp32", "e5m2"], "storage": ["fp32"]' > "$work/one.json"
for adder in nearest-even stochastic align-truncate; do
    gemm="\"accumulator\": \"fp(8,9)/chunk64/$adder\""
    echo "{\"schema\": \"qsync/plan/2\", \"recipes\": {\"fp8\": {\"forward\": {\"src\": \"e5m2\", \"weights\": \"e5m2\", $gemm, \"dst\": \"fp32\"},
        \"input_gradient\": {\"diff_dst\": \"e5m2\", \"weights\": \"e5m2\", $gemm}, \"weight_gradient\": {\"src\": \"e5m2<saved\",
        \"diff_dst\": \"e5m2\", $gemm}}}, \"classes\": {\"single\": {\"operators\": {\"conv1\": \"fp8\", \"conv2\": \"fp8\", \"fc1\": \"fp8\"}}}}" \
        > "$work/narrow.json"
    run "$processor" "narrow accumulators, $adder" --cluster "$work/one.json" --plan "$work/narrow.json" --model lenet5 --batch 16 \
        --loss-scaling 1024
done

# Tensors with formats, and promotion of those that overflow: a rate at which they do.
one '"backend": "cpu", "formats": ["fp32"], "storage": ["fp32", "fp(6,9,0)", "fp(4,3,4)", "fp(5,2,0)"]' > "$work/one.json"
"$QSYNC" plan --cluster "$here/tensors-cluster.json" --profile "$work/tensors-profile.json" --planner uniform-fp --epochs 1 --out "$work/plan.json" \
    > "$work/out" 2> "$work/err" || fail "plan uniform-fp: $(cat "$work/err")"
jq '{schema, classes: {single: {operators: {}, tensors: .classes.single.tensors}}}' "$work/plan.json" > "$work/tensors.json"
run "$processor" "tensors with formats" --cluster "$work/one.json" --plan "$work/tensors.json" --model lenet5 --batch 32 --loss-scaling dynamic
run "$processor" "promotion" --cluster "$work/one.json" --plan "$work/tensors.json" --model lenet5 --batch 32 --loss-scaling dynamic \
    --rate 0.4 --promote-at 0.0001 --promote-underflow 0.05
grep -q '"type":"promotion"' "$work/run/metrics.jsonl" || fail "nothing was promoted: the run does not show what it is there for"

# A run that is stopped and goes on.
run "$processor" "until its end" --model resnet8 --batch 32 --optimizer adam --max-steps 14 --checkpoint-every 1
run "$processor" "stopped" --model resnet8 --batch 32 --optimizer adam --max-steps 7 --checkpoint-every 1
cp "$work/run/state.qsync" "$work/state.qsync"
run "$processor" "resumed" --model resnet8 --batch 32 --optimizer adam --max-steps 14 --resume "$work/state.qsync"
"$QSYNC" landscape "$work/run/weights.safetensors" --dataset shapes --batch 16 --points 3 --batches 1 --train-limit 64 --json > "$work/slice.json" \
    2> "$work/err" || fail "landscape: $(cat "$work/err")"
figures "$work/slice.json" | row "$processor" "landscape"
"$QSYNC" eval "$work/run/weights.safetensors" --dataset shapes --test-limit 40 --json > "$work/evaluated.json" 2> "$work/err" ||
    fail "eval: $(cat "$work/err")"
figures "$work/evaluated.json" | row "$processor" "eval"

# Two ranks: algorithms and wires, unequal batches, unlike devices, another plan on the way.
for how in "shared fp32" "ring fp32" "recursive-doubling fp32" "library fp32" "shared bf16" "shared int8" "library int8"; do
    run_two "two ranks, ${how% *}, ${how#* }" --all-reduce "${how% *}" --wire "${how#* }" --bucket-bytes 65536
done
if has "$formats" bf16; then
    run_two "two unlike ranks" --plan "$here/unlike.json" --optimizer adam
    jq '.classes.weak.operators = {}' "$here/unlike.json" > "$work/first.json"
    run_two "another plan on the way" --plan "$work/first.json" --watch-plan "$here/unlike.json" --watch-after 2 --max-steps 14 --train-limit 640
    grep -q '"type":"replan"' "$work/run/metrics.jsonl" || fail "no plan was taken on the way: the run does not show what it is there for"
fi

# ---- Verdict -------------------------------------------------------------------------------------------------------------------------

sort -o "$rows" "$rows"
if [ -n "${SAME_BITS_RECORD:-}" ]; then
    cp "$rows" "$SAME_BITS_RECORD"
    finish
    exit
fi
grep -v '^#' "$expected" | awk -F'\t' -v processor="$processor" '$1 == "any" || $1 == processor' | sort > "$work/expected.tsv"
if ! grep -q "^$processor	" "$work/expected.tsv"; then
    echo "$processor has no rows in $expected: what holds on any processor is compared, and nothing else"
    grep '^any	' "$rows" > "$work/any.tsv"
    rows=$work/any.tsv
fi
diff -u "$work/expected.tsv" "$rows" || fail "other bits (-: expected, +: now)"
echo "$(wc -l < "$rows") rows compared"
finish
