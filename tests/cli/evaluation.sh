#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# labels: medium
# In which arithmetic weights are evaluated: training and eval tell fp32's figures and those of the plan's forward formats, which agree; of which
# class they are, and whose plan it is; and running statistics that are estimated anew.
. "$(dirname "$0")/check.inc"

planned() { # RECIPE
    "$QSYNC" inspect resnet8 --json | jq --arg recipe "$1" '{schema: "qsync/plan/2", classes: {single: {operators: ([.nodes[] |
        select(.class == "adjustable") | {key: .name, value: $recipe}] | from_entries)}}}' > "$work/plan.json"
}
job="--model resnet8 --dataset shapes --batch 32"
trained() { # FOLDER OPTIONS...
    folder=$work/$1
    shift
    # shellcheck disable=SC2086
    "$QSYNC" train $job --train-limit 256 --test-limit 128 --epochs 2 --out "$folder" "$@" > "$work/out" 2> "$work/err" || { cat "$work/err"; fail "train"; }
}
evaluated() { # NAME OPTIONS...
    name=$1
    shift
    "$QSYNC" eval "$work/four/weights.safetensors" --test-limit 128 --batch 32 --json "$@" > "$work/$name" 2> "$work/err" || { cat "$work/err"; fail "eval $*"; }
}
holds() { # NAME FILTER
    jq -es "$2" "$work/$1" > /dev/null || { cat "$work/$1"; fail "$1: $2 does not hold"; }
}

planned int2:tensor
trained four --plan "$work/plan.json"
grep -q "in the plan's arithmetic: test accuracy" "$work/out" || fail "train says nothing of the plan's arithmetic"
cp "$work/four/result.json" "$work/result"
holds result '.[0] | .planned_test_loss > 0 and (.planned_test_loss - .test_loss | fabs) > 1e-3'
jq -e 'select(.type == "planned")' "$work/four/metrics.jsonl" > "$work/line" || fail "metrics have no line of the plan's arithmetic"
holds line 'length == 1 and .[0].steps == 16 and .[0].test_loss > 0'

# Beside its run the weights' file knows both; what is asked for is what one gets.
evaluated both
cat "$work/four/result.json" >> "$work/both"
holds both '.[0] as $eval | .[1] as $train | $eval.arithmetic == "fp32" and $eval.accuracy == $train.test_accuracy
    and ($eval.loss - $train.test_loss | fabs) < 1e-6 and $eval.planned_accuracy == $train.planned_test_accuracy
    and ($eval.planned_loss - $train.planned_test_loss | fabs) < 1e-6'
evaluated plan --arithmetic plan
evaluated file --plan "$work/plan.json"
cmp "$work/plan" "$work/file" || fail "--arithmetic plan is another plan than the run's"
holds plan '.[0] | .arithmetic == "plan" and (has("planned_loss") | not)'
evaluated fp32 --arithmetic fp32 --plan "$work/plan.json"
holds fp32 '.[0] | .arithmetic == "fp32" and (has("planned_loss") | not)'
"$QSYNC" eval "$work/four/weights.safetensors" --test-limit 128 --batch 32 > "$work/out" || fail "eval in words"
[ "$(grep -c accuracy "$work/out")" -eq 2 ] || { cat "$work/out"; fail "eval in words has not both"; }

# New statistics: other figures in each arithmetic, the same ones every time.
evaluated new --recalibrate 8
evaluated again --recalibrate 8
cmp "$work/new" "$work/again" || fail "--recalibrate is not repeatable"
cat "$work/both" >> "$work/new"
holds new '.[0].recalibrated == 8 and .[0].loss != .[1].loss and .[0].planned_loss != .[1].planned_loss'

# Without other formats there is one arithmetic.
trained plain
cp "$work/plain/result.json" "$work/result"
holds result '.[0] | has("planned_test_loss") | not'
! grep -q '"planned"' "$work/plain/metrics.jsonl" || fail "a run in fp32 has a line of a plan's arithmetic"

# The plan of a run that classes of several formats computed: which one is meant must be said, and is said to be missing; a name must be one
# of the plan's. Weights of another model beside a plan are not of its run, nor are those beside a plan without a job.
cp -r "$work/four" "$work/two"
jq '.classes.other = .classes.single' "$work/four/plan.json" > "$work/two/plan.json"
two="eval $work/two/weights.safetensors --test-limit 128 --batch 32"
# shellcheck disable=SC2086
"$QSYNC" $two --json > "$work/one" 2> "$work/err" || { cat "$work/err"; fail "eval of two classes"; }
holds one '.[0] | .arithmetic == "fp32" and (has("planned_loss") | not)'
grep -q 'evaluated in fp32 only: 2 classes .* --class says which' "$work/err" || { cat "$work/err"; fail "nothing is said of two classes"; }
# shellcheck disable=SC2086
"$QSYNC" $two --json --class other > "$work/named" 2> "$work/err" || { cat "$work/err"; fail "eval --class"; }
jq -s '.[0]' "$work/both" > "$work/first"
cat "$work/first" >> "$work/named"
holds named '.[0].planned_loss == .[1].planned_loss and .[0].loss == .[1].loss'
# shellcheck disable=SC2086
refuse 2 'has no such class' $two --class typo
refuse 2 'has no such class' eval "$work/four/weights.safetensors" --class typo
refuse 2 'has no such class' eval "$work/four/weights.safetensors" --class typo --arithmetic fp32
# shellcheck disable=SC2086
refuse 2 '--class says which' $two --arithmetic plan

mkdir "$work/desk"
cp "$work/four/weights.safetensors" "$work/desk"
desk="eval $work/desk/weights.safetensors --dataset shapes --test-limit 128 --batch 32"
for change in '.job.model = "lenet5" | .classes.single.operators |= with_entries(.key = "x" + .key)' 'del(.job)'; do
    jq "$change" "$work/four/plan.json" > "$work/desk/plan.json"
    # shellcheck disable=SC2086
    "$QSYNC" $desk --json > "$work/one" 2> "$work/err" || { cat "$work/err"; fail "a plan of something else stops eval: $change"; }
    holds one '.[0] | .arithmetic == "fp32" and (has("planned_loss") | not)'
    # shellcheck disable=SC2086
    refuse 2 'there is no plan.json of a run beside' $desk --class single
done
cp "$work/four/plan.json" "$work/desk/plan.json"
# shellcheck disable=SC2086
"$QSYNC" $desk --json > "$work/one" 2> "$work/err" || { cat "$work/err"; fail "eval beside the run's plan"; }
cat "$work/first" >> "$work/one"
holds one '.[0].planned_loss == .[1].planned_loss'

# Training tells other measures of both arithmetics.
i=0
while [ $i -lt 60 ]; do
    printf 'abcdefghijklmnopqrstuvwxyz.'
    i=$((i + 1))
done > "$work/text.txt"
decoder=gpt2:layers=1,hidden=32,heads=2,inner=64,vocab=256,positions=32,dropout=0
"$QSYNC" inspect "$decoder" --json | jq '{schema: "qsync/plan/2", classes: {single: {operators: ([.nodes[] | select(.class == "adjustable") |
    {key: .name, value: "int2:tensor"}] | from_entries)}}}' > "$work/words.json"
"$QSYNC" train --model "$decoder" --dataset "text:$work/text.txt,vocab=bytes,length=16" --batch 8 --epochs 1 --plan "$work/words.json" \
    --out "$work/words" > "$work/out" 2> "$work/err" || { cat "$work/err"; fail "train on text"; }
grep -q "in the plan's arithmetic: .*, perplexity" "$work/out" || { cat "$work/out"; fail "train tells no perplexity in the plan's arithmetic"; }
cp "$work/words/result.json" "$work/one"
holds one '.[0] | .planned_test_perplexity > 0 and .planned_test_perplexity != .test_perplexity'

# Ranks of two classes: each in the formats of its own, as in training.
planned int2:tensor
jq '.classes = {big: {operators: {}}, weak: .classes.single}' "$work/plan.json" > "$work/two.json"
two_ranks="--cluster $(dirname "$0")/cluster.json --test-limit 128 --batch 32"
# shellcheck disable=SC2086
launch train --model resnet8 --dataset shapes $two_ranks --plan "$work/two.json" --train-limit 256 --epochs 1 --out "$work/pair" \
    > "$work/out" 2> "$work/err" || { cat "$work/err"; fail "train on two ranks"; }
# shellcheck disable=SC2086
launch eval "$work/pair/weights.safetensors" $two_ranks --json > "$work/ranks" 2> "$work/err" || { cat "$work/err"; fail "eval on two ranks"; }
cat "$work/pair/result.json" >> "$work/ranks"
holds ranks '.[0] as $eval | .[1] as $train | $eval.accuracy == $train.test_accuracy and ($eval.loss - $train.test_loss | fabs) < 1e-6
    and $eval.planned_accuracy == $train.planned_test_accuracy and ($eval.planned_loss - $train.planned_test_loss | fabs) < 1e-6
    and ($eval.planned_loss - $eval.loss | fabs) > 1e-4'
# shellcheck disable=SC2086
launch eval "$work/pair/weights.safetensors" $two_ranks --recalibrate 4 > "$work/out" 2> "$work/err" && fail "two ranks found new statistics"
grep -q 'found by one rank' "$work/err" || { cat "$work/err"; fail "nothing is said of statistics on two ranks"; }

refuse 2 'fp32, or plan' eval "$work/four/weights.safetensors" --arithmetic half
cp "$work/plain/weights.safetensors" "$work/alone.safetensors"
rm -f "$work/plan.json"
# shellcheck disable=SC2086
refuse 2 'there is no plan.json of a run beside' eval "$work/alone.safetensors" $job --arithmetic plan
refuse 2 'at least 0' eval "$work/four/weights.safetensors" --recalibrate -1
refuse 2 'the training part has' eval "$work/four/weights.safetensors" --recalibrate 100000
finish
