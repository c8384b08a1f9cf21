#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# labels: medium
# Plans without the hardware: estimated profiles of the shipped clusters, explanations, differences, classes that do not help.
. "$(dirname "$0")/check.inc"
# holds FILTER: true of the last JSON.
holds() { jq -e "$1" "$work/json" > /dev/null || { fail "not so: $1"; head -c 2000 "$work/json"; }; }
ask() { "$QSYNC" "$@" > "$work/json" 2> "$work/err" || { fail "qsync $*: $(cat "$work/err")"; }; }
examples=$QS_SOURCE/examples
model="--model resnet20 --dataset cifar10 --batch 64"

# Estimates: every class marked, no device opened, the same each time.
# shellcheck disable=SC2086
for c in a b; do
    ask profile --estimate --cluster "$examples/cluster-$c.json" $model --out "$work/$c.json" --json
    holds '.classes == 2 and .kernels > 100'
    jq -e '[.classes[].estimated] == [true, true]' "$work/$c.json" > /dev/null || fail "an estimate is not marked"
done
# shellcheck disable=SC2086
ask profile --estimate --cluster "$examples/cluster-a.json" $model --out "$work/again.json"
grep -q 'ESTIMATED from published figures, not measured' "$work/json" || fail "an estimate is printed like a measurement"
cmp -s "$work/a.json" "$work/again.json" || fail "two estimates differ"
refuse 2 '--estimate needs --cluster' profile --estimate --out "$work/x.json"
refuse 2 'class big names no "device"' profile --estimate --cluster "$examples/cluster.json" --out "$work/x.json"
refuse 2 '--statistics-from needs --estimate' profile --statistics-from "$work/a.json" --out "$work/x.json"
refuse 1 'has no statistics either' profile --estimate --cluster "$examples/cluster-a.json" --model resnet20 --dataset cifar10 --batch 64 \
    --statistics-from "$work/a.json" --out "$work/x.json"
[ -e "$work/x.json" ] && fail "a refused estimate was written"

# Statistics: told when they lack, taken from a measured profile at another batch, refused from another model.
"$QSYNC" profile --model lenet5 --dataset shapes --batch 8 --repetitions 2 --statistics-iterations 2 --conversion-seconds 0.1 \
    --out "$work/measured.json" > "$work/out" 2> "$work/err" || fail "profile: $(cat "$work/err")"
ask profile --estimate --cluster "$examples/cluster-b.json" --model lenet5 --dataset shapes --batch 64 --out "$work/bare.json"
bare="--cluster $examples/cluster-b.json --profile $work/bare.json --dataset shapes"
# shellcheck disable=SC2086
{
    refuse 1 '--statistics-from FILE' plan $bare
    refuse 1 'no tensor statistics, which indicator hess needs' plan $bare --indicator hess
    refuse 1 'not of resnet20' plan --cluster "$examples/cluster-a.json" --profile "$work/a.json" --dataset cifar10 \
        --statistics-from "$work/measured.json"
    ask plan $bare --statistics-from "$work/measured.json" --out "$work/lent.json"
}
grep -q 'times of t4 are ESTIMATED from published figures of NVIDIA T4' "$work/json" || fail "a plan hides that its times are estimated"
ask profile --estimate --cluster "$examples/cluster-b.json" --model lenet5 --dataset shapes --batch 64 \
    --statistics-from "$work/measured.json" --out "$work/full.json"
full="--cluster $examples/cluster-b.json --profile $work/full.json --dataset shapes"
# shellcheck disable=SC2086
ask plan $full --out "$work/full-plan.json"
ask plan --diff "$work/lent.json" "$work/full-plan.json"
ask simulate --cluster "$examples/cluster-b.json" --profile "$work/full.json" --plan "$work/lent.json"
grep -q 'note: kernel times of class t4 are estimated' "$work/json" || fail "a simulation hides that its times are estimated"

# Batches around the job's: the faster class takes more of the global batch.
ask profile --estimate --cluster "$examples/cluster-a.json" --model lenet5 --dataset shapes --batch 256 --batches auto --out "$work/batches.json"
ask plan --cluster "$examples/cluster-a.json" --profile "$work/batches.json" --dataset shapes --planner dbs --indicator random --json
holds '.classes | .v100.batch >= 256 and .v100.batch + .t4.batch == 512'
holds '.job.buckets.algorithm == "ring"'

# Explanations: for people, and for programs.
# shellcheck disable=SC2086
{
    ask plan $full --planner uniform --out "$work/uniform.json"
    cp "$work/json" "$work/text"
    ask plan $full --planner qsync --explain --out "$work/qsync.json"
    for line in 'summary: iteration' 'images/s of 32 ranks' 'sum of omega' 'who waits' 'operator  *recipe  *omega  *stopped by  *next  *time  *memory'; do
        grep -q "$line" "$work/json" || fail "the explanation lacks: $line"
    done
    grep -Eq 'without (v100|t4): [0-9.]+ images/s' "$work/text" || fail "throughput without a class is not told"
    ask plan $full --planner qsync --explain --json
}
holds '.ranks == 32 and (.classes | map(.class)) == ["v100", "t4"] and (.without | keys) == ["t4", "v100"]'
holds '.classes | all((.recipes | add) == (.operators | length) and (.operators | length) == 5)'
holds '.classes | all(([.stopped_by[]] | add // 0) == (.operators | map(select(.stopped_by != "highest")) | length))'
holds '.classes[1] | .limit_bytes == 5153960755 and .arena_bytes < .limit_bytes'
holds '.guard == null'

# What the profile knows of its errors guards T_min; ranks of one box are told from those of several.
jq '.classes.t4.quality = {plans: 16, steps: 8, confidence: 0.01, drift: 0, closure_mean: 0.02, closure_worst: 0.05}' "$work/full.json" \
    > "$work/known.json"
known="--cluster $examples/cluster-b.json --profile $work/known.json --dataset shapes"
# shellcheck disable=SC2086
{
    ask plan $known --explain --out "$work/guarded.json"
    grep -Eq 'T_min with 95[.0]* % confidence: at most .* of .*: steps may take longer by 4[.]1[0-9]* % [(]t4[)]' "$work/json" ||
        fail "the explanation does not say what T_min was asked of"
    grep -q '32 ranks on 4 hosts' "$work/json" || fail "the explanation does not say how ranks share hosts"
    jq -e '.guard | .confidence == 0.95 and .upper_us <= .longest_us' "$work/guarded.json" > /dev/null || fail "the plan lacks its guard"
    ask plan $known --explain --json
    holds '.guard.confidence == 0.95 and (.classes[] | select(.class == "t4").doubt * 1000 | round) == 41'
    ask plan $known --confidence 0.5 --explain
    grep -q 'T_min by expected times' "$work/json" || fail "a plan that believes its predictions says otherwise"
    refuse 2 'confidence 0.2: with which T_min is kept' plan $known --confidence 0.2
}
"$QSYNC" plan --help > "$work/out"
for planner in fp32 uniform qsync; do
    grep -q -- "--planner NAME .*$planner" "$work/out" || fail "--help does not list planner $planner"
done

# A class that has to give up precision: its gap is printed, and what costs most to raise is what the table of operators has dearest.
lowered="--cluster $examples/cluster-a.json --profile $work/a.json --dataset cifar10 --indicator random"
# shellcheck disable=SC2086
{
    ask plan $lowered
    grep -Eq '^ +compute .*, sum of omega [0-9.e+-]+ \(gap at most [0-9.]+ ?%\)' "$work/json" || fail "the gap of a plan is not printed"
    ask plan $lowered --planner dpro
    grep -Eq '^ +compute .*, sum of omega [0-9.e+-]+ \(bound not known\)' "$work/json" || fail "a plan hides that its bound is not known"
    ask plan $lowered --explain --json
    refuse 2 '--until-fits goes with --planner uniform' plan $lowered --until-fits
}
holds '[.classes[] | select(.class == "t4" and .binds == "throughput" and (.dearest | length) == 3)] | length == 1'
holds '.classes | all(.dearest == ([.operators[] | select(.next and (.time_us > 0 or .bytes > 0))]
    | sort_by(-.time_us, -.bytes)[:3] | map(.operator)))'

# The AMP case: a training class that holds up the others is lowered where it may be, and throughput rises.
# shellcheck disable=SC2086
{
    ask plan $lowered --json
    cp "$work/json" "$work/plain"
    ask plan $lowered --lower-training --json
}
recipes='[.classes.v100.operators[] | if type == "object" then .recipe else . end] | unique'
[ "$(jq -c "$recipes" "$work/plain")" = '["fp32"]' ] || fail "a training class is lowered unasked"
holds "$recipes"' != ["fp32"]'
holds ".samples_per_second > $(jq .samples_per_second "$work/plain")"

# Differences: exit codes as diff has them.
expect 0 plan --diff "$work/qsync.json" "$work/qsync.json" < /dev/null
cp "$work/qsync.json" "$work/other.json"
operator=$(jq -r '.classes.t4.operators | keys_unsorted[0]' "$work/qsync.json")
jq --arg o "$operator" '.classes.t4.operators[$o] = "int8/fp16" | .classes.t4.batch = 32 | .planner = "hand"' "$work/qsync.json" > "$work/other.json"
"$QSYNC" plan --diff "$work/qsync.json" "$work/other.json" --json > "$work/json" 2> "$work/err"
[ $? -eq 1 ] || fail "plans that differ do not end with 1"
holds '.same == false and (.differences | map(select(.field == "batch" and .class == "t4" and .from == 64 and .to == 32)) | length) == 1'
holds '.differences | map(select(.field == "planner" and .to == "hand")) | length == 1'
jq -e --arg o "$operator" '.differences | map(select(.operator == $o and .field == "recipe" and .to == "int8/fp16")) | length == 1' "$work/json" \
    > /dev/null || fail "the changed recipe is not told"
"$QSYNC" plan --diff "$work/qsync.json" "$work/other.json" > "$work/out" 2> "$work/err"
grep -q "t4 .*$operator .*recipe .*-> int8/fp16" "$work/out" || fail "the changed recipe is not printed"
jq 'del(.classes.v100) | .classes.t4.kernels = {}' "$work/qsync.json" > "$work/less.json"
"$QSYNC" plan --diff "$work/less.json" "$work/qsync.json" > "$work/out" 2> "$work/err" && fail "a class more is no difference"
grep -q 'class .*- -> v100' "$work/out" || fail "the class that one plan lacks is not told"
jq '.classes.t4.kernels = {}' "$work/qsync.json" > "$work/less.json"
"$QSYNC" plan --diff "$work/less.json" "$work/qsync.json" > "$work/out" 2> "$work/err" && fail "other kernels are no difference"
refuse 2 'nosuch.json' plan --diff "$work/qsync.json" "$work/nosuch.json"
refuse 2 'needs two plan files, not 1' plan --diff "$work/qsync.json"
refuse 2 'compared with --diff' plan "$work/qsync.json"

# A class that the others are as fast without: told, taken out when asked, and the cluster that remains is written for training.
jq '.classes.slow = (.classes.t4 | .share = "1%" | .count = 1 | .memory.limit = "100%") |
    .links += [{"between": ["slow", "v100"], "kind": "network"}, {"between": ["slow", "t4"], "kind": "network"}]' \
    "$examples/cluster-b.json" > "$work/three.json"
ask profile --estimate --cluster "$work/three.json" --model lenet5 --dataset shapes --batch 64 --statistics-from "$work/measured.json" \
    --out "$work/three-profile.json"
three="--cluster $work/three.json --profile $work/three-profile.json --dataset shapes --planner uniform"
# shellcheck disable=SC2086
{
    ask plan $three
    grep -q 'without slow: .*: leave it out (--drop-unhelpful)' "$work/json" || fail "the class that holds all up is not named"
    ask plan $three --drop-unhelpful --cluster-out "$work/rest.json" --out "$work/rest-plan.json"
    refuse 2 '--drop-unhelpful needs --cluster-out' plan $three --drop-unhelpful
    refuse 2 '--cluster-out needs --drop-unhelpful' plan $three --cluster-out "$work/x.json"
}
grep -q 'left out: slow; with it' "$work/json" || fail "what was left out is not told"
jq -e '(.classes | has("slow") | not) and (.links | all(.between | index("slow") | not))' "$work/rest.json" > /dev/null || fail "the class is still there"
jq -e '(.left_out | keys) == ["slow"] and .samples_per_second > .left_out.slow and (.classes | keys) == ["t4", "v100"]' "$work/rest-plan.json" \
    > /dev/null || fail "the plan of the rest does not say what was left out"
ask simulate --cluster "$work/rest.json" --profile "$work/three-profile.json" --plan "$work/rest-plan.json" --json
holds '.ranks == 32'

# The first and the last operator keep a recipe: in classes that have it.
# shellcheck disable=SC2086
{
    ask plan $three --keep-first-last int8/fp16 --out "$work/ends.json"
    refuse 2 'no class has that recipe' plan $three --keep-first-last int4:shift4
    refuse 2 'do not go together' plan $three --keep-first-last fp32 --pins "$work/ends.json"
}
jq -e '[.classes.t4.operators | to_entries[] | select(.value | type == "object" and .pin and .recipe == "int8/fp16") | .key] == ["conv1", "fc"]' \
    "$work/ends.json" > /dev/null || fail "the ends are not pinned"

# Narrow accumulators: every GEMM gets so many bits more or fewer than its length asks for.
cat > "$work/narrow.json" << 'END'
{"schema": "qsync/cluster/2", "classes": {"narrow": {"role": "training", "backend": "cpu", "formats": ["fp32"],
  "accumulator": "fp(8,9)/product(5)/nearest-even"}}}
END
ask profile --cluster "$work/narrow.json" --model mlp --dataset shapes --batch 8 --repetitions 2 --statistics-iterations 2 \
    --conversion-seconds 0.1 --out "$work/narrow-profile.json"
narrow="--cluster $work/narrow.json --profile $work/narrow-profile.json --dataset shapes --planner fp32"
# widths BITS_OFF: of all GEMMs.
widths() {
    # shellcheck disable=SC2086
    ask plan $narrow --accumulate "fp(8,auto)/product(5)/nearest-even" --accumulator-bits-off="$1" --json
    jq -c '[.classes.narrow.operators[].accumulator[] | capture("^fp\\(8,(?<bits>[0-9]+)\\)/product\\(5\\)/nearest-even$").bits | tonumber]' "$work/json"
}
by_length=$(widths 0)
echo "$by_length" | jq -e 'length == 9 and min == 5 and max > 6' > "$work/out" || fail "widths of an mlp's GEMMs: $by_length"
for off in -2 2; do
    [ "$(widths $off)" = "$(echo "$by_length" | jq -c "map(. + $off)")" ] || fail "$off bits off $by_length: $(widths $off)"
done
# shellcheck disable=SC2086
refuse 2 '--accumulator-bits-off needs --accumulate RULE' plan $narrow --accumulator-bits-off=-1
finish
