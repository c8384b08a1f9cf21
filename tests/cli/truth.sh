#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# labels: short
# Ground truth: measured, compared with every indicator, kept; what belongs to it is refused elsewhere.
. "$(dirname "$0")/check.inc"

refuse 2 'indicator needs --profile' indicator --ground-truth
refuse 2 '--seeds needs --ground-truth' indicator --profile p.json --seeds 3
refuse 2 '--seeds 1: must be at least 2' indicator --ground-truth --profile p.json --seeds 1
refuse 2 'influence-contracted' indicator --profile p.json --convention other

model=vit:layers=1,hidden=8,heads=1,inner=8,patch=16
"$QSYNC" profile --model $model --dataset shapes --batch 8 --repetitions 2 --statistics-iterations 2 --hessian \
    --out "$work/p.json" > /dev/null 2>&1 || fail "profile --hessian"
grep -q '"hessian_top"' "$work/p.json" || fail "the profile has no Hessian eigenvalue"
refuse 2 'needs --dataset' indicator --ground-truth --profile "$work/p.json"
refuse 1 "the profile is of $model as another data set shapes it" \
    indicator --ground-truth --profile "$work/p.json" --model lenet5 --dataset shapes
refuse 2 'name one below it' indicator --ground-truth --profile "$work/p.json" --dataset shapes --recipes fp32

"$QSYNC" indicator --ground-truth --profile "$work/p.json" --dataset shapes --seeds 2 --warm-up 1 --recipes fp32,bf16 --stochastic-floats \
    --out "$work/truth.csv" --json > "$work/truth.json" 2> "$work/error" || { cat "$work/error"; fail "indicator --ground-truth"; }
[ "$(wc -l < "$work/truth.csv")" = 9 ] || fail "truth.csv has not one line for each of eight operators"
# A name that holds commas is one field.
[ "$(tail -n +2 "$work/truth.csv" | grep -c "^\"$model\",shapes,4,")" = 8 ] || fail "lines of truth.csv begin with $(sed -n 2p "$work/truth.csv")"
head -1 "$work/truth.csv" | grep -q 'error2.*qsync.paper,.*measured,random' || fail "columns of truth.csv"
sed 's/^"[^"]*"/model/' "$work/truth.csv" | awk -F, 'NR > 1 && !($8 == 2 && $9 > 0 && $11 > 0) { exit 1 }' || fail "bf16 with stochastic rounding adds no variance"
for key in "\"model\": \"$model\"" '"convention": "flat-contracted"' '"indicator": "random"' '"pooled"' '"steps"'; do
    grep -q "$key" "$work/truth.json" || fail "no $key in the JSON"
done

# The noise in the profile is measured anew, later in training or at weights of a file, and nothing else changes.
grep -q '"noise"' "$work/p.json" || fail "the profile has no measured noise"
same="--model $model --dataset shapes --batch 8"
refuse 2 '--weights needs --noise-only' profile $same --weights w.safetensors
"$QSYNC" profile $same --noise-only --statistics-iterations 4 --noise-runs 12 --out "$work/p.json" > "$work/out" 2> "$work/error" ||
    { cat "$work/error"; fail "profile --noise-only"; }
grep -q 'after 4 iterations' "$work/out" || fail "noise is not told: $(cat "$work/out")"
jq -e '.statistics.noise | .iteration == 4 and .runs <= 12 and (.rows | length) > 0' "$work/p.json" > /dev/null || fail "noise was not renewed"
jq -e '.statistics.iterations == 2' "$work/p.json" > /dev/null || fail "statistics changed"
refuse 1 'of the same model' profile --model lenet5 --dataset shapes --batch 8 --noise-only --out "$work/p.json"
"$QSYNC" indicator --profile "$work/p.json" --indicator measured > "$work/out" 2>&1 || { cat "$work/out"; fail "indicator measured"; }
"$QSYNC" profile $same --repetitions 2 --statistics-iterations 1 --noise-runs 0 --conversion-seconds 0.1 --out "$work/none.json" > /dev/null 2>&1 ||
    fail "profile without noise"
refuse 1 'no measured noise' indicator --profile "$work/none.json" --indicator measured
finish
