#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# labels: medium
# An interrupted profile goes on where it was, other options do not take it over, one class is put into a profile that is there, and the
# profile says under which conditions it was measured.
. "$(dirname "$0")/check.inc"
job="--model lenet5 --dataset shapes --batch 8 --repetitions 2 --statistics-iterations 2 --conversion-seconds 3"
profile() { "$QSYNC" profile $job "$@" > "$work/out" 2> "$work/err"; }
one=$work/one.json

# Every kind of conversion that three formats allow: 2 casts, 2 sums, 4 maxima, 8 quantizations, dequantization to both floats at least; those
# that models read weights by stand beside those for values.
profile --out "$one" || { cat "$work/err"; fail "profile"; }
[ -e "$one.partial" ] && fail "a finished profile leaves $one.partial"
jq -e '.classes.single | (.conditions | .libc != "" and .load_average >= 0 and .waited <= 1) and
    ((.device.name | length) > 0) and all(.conversions[].pieces[]; .us >= 0 and .us_per_element >= 0 and has("mean_residual"))' "$one" > "$work/out" ||
    fail "conditions or fits are not as they must be"
if jq -e '[.classes.single.kernels[].case | select(test("int8")) | select(test("bf16"))] | length > 0' "$one" > "$work/out"; then
    jq -e '[.classes.single.conversions[] | [.kind, .from, .to, .granularity, .rounding, .weights]] | length >= 18 and (unique | length) == length' "$one" > "$work/out" ||
        fail "kinds of conversions are missing or stand twice"
    jq -e 'any(.classes.single.conversions[]; .in_steps > 0)' "$one" > "$work/out" || fail "no fit is held against steps"
fi

# Recipes of plans by hand: their kernels, conversions and products stand beside the class's own.
if jq -e '[.classes.single.kernels[].case | select(test("int8")) | select(test("bf16"))] | length > 0' "$one" > "$work/out"; then
    jq -e '[.classes.single.kernels[].case | select(test("int4"))] | length == 0' "$one" > "$work/out" || fail "nobody asked for 4 bits"
    profile --recipes int4:hadamard --out "$work/hand.json" || { cat "$work/err"; fail "profile --recipes"; }
    jq -e '[.classes.single.kernels[].case | select(test("hadamard=")) | split("/")[0]] | unique | contains(["absmax", "quantize"])' \
        "$work/hand.json" > "$work/out" || fail "no kernel of the recipe that was asked for"
    jq -e 'any(.classes.single.kernels[].case; test("^linear/weight_gradient.*int4"))' "$work/hand.json" > "$work/out" || fail "no product of it"
fi
profile --recipes int4:hadamar --out "$work/none.json"
[ $? -eq 2 ] || fail "a recipe that there is not was taken"

# A stated time: what was given, what it took and what that bought stand in the profile; --repetitions alone states none.
jq -e '.classes.single.quality | (has("budget_s") | not) and .seconds > 0 and .kernels > 0' "$one" > "$work/out" || fail "a time that nobody stated"
profile --minutes 0.02 --out "$work/short.json" || { cat "$work/err"; fail "profile --minutes"; }
grep -q 'what kernels take of a step is known to .* in .* of 1.2' "$work/out" || { cat "$work/out"; fail "the summary does not say what the time bought"; }
jq -e '.classes.single | .quality.budget_s == 1.2 and ([.kernels[] | select(.us.confidence > 0)] | length) > 10' "$work/short.json" > "$work/out" ||
    fail "the profile does not say what its time was and what it bought"
"$QSYNC" profile $job --minutes -1 --out "$work/none.json" > "$work/out" 2> "$work/err"
[ $? -eq 2 ] || fail "less than no time was taken"

# Interrupted after the first stage: exit code 75, the way out is told, the same command goes on.
"$QSYNC" profile $job --out "$work/two.json" > "$work/out" 2> "$work/err" &
process=$!
waited=0
while [ ! -e "$work/two.json.partial" ] && kill -0 $process 2> "$work/kill" && [ $waited -lt 600 ]; do
    sleep 0.05
    waited=$((waited + 1))
done
kill -TERM $process
wait $process
[ $? -eq 75 ] || { cat "$work/err"; fail "an interrupted profile did not end with exit code 75"; }
grep -q 'goes on from .*two.json.partial' "$work/err" || { cat "$work/err"; fail "the interruption does not say how to go on"; }
[ -e "$work/two.json" ] && fail "an interrupted profile wrote its result"
cp "$work/two.json.partial" "$work/kept"
profile --seed 3 --out "$work/two.json" || { cat "$work/err"; fail "profile of another job"; }
grep -q 'left aside: it was measured with other options' "$work/err" || { cat "$work/err"; fail "another job took over the partial profile"; }
cp "$work/kept" "$work/two.json.partial"
profile --fresh --out "$work/two.json" || { cat "$work/err"; fail "--fresh"; }
grep -q 'resumed\|left aside' "$work/err" && fail "--fresh took over the partial profile"
head -c 3000 "$work/kept" > "$work/two.json.partial"
profile --out "$work/two.json" || { cat "$work/err"; fail "profile over a damaged partial one"; }
grep -q 'left aside' "$work/err" || { cat "$work/err"; fail "a damaged partial profile was taken over"; }
cp "$work/kept" "$work/two.json.partial"
profile --out "$work/two.json" || { cat "$work/err"; fail "resumed profile"; }
grep -q 'resumed from .*two.json.partial' "$work/err" || { cat "$work/err"; fail "it was not resumed"; }
[ -e "$work/two.json.partial" ] && fail "a resumed profile leaves its partial file"
jq -e --slurpfile one "$one" '(.classes.single.kernels | map(.case)) == ($one[0].classes.single.kernels | map(.case)) and
    (.classes.single.conversions | length) == ($one[0].classes.single.conversions | length) and .statistics.iterations == 2' "$work/two.json" > "$work/out" ||
    fail "a resumed profile lacks something"

# Plans timed beside the profile's own: a row for each, with what the finished profile predicts, as simulate does.
cat > "$work/low.json" << 'END'
{"schema": "qsync/plan/2", "job": {"model": "lenet5", "dataset": "shapes", "batch": 8}, "classes": {"single": {"operators": {"conv2": "bf16"}}}}
END
printf '{"schema": "qsync/cluster/2", "classes": {"single": {"role": "training", "backend": "ref", "count": 1, "formats": ["fp32", "bf16"]}}}' > "$work/ref.json"
profile --cluster "$work/ref.json" --check "$work/low.json,$work/low.json" --out "$work/checked.json" || { cat "$work/err"; fail "--check"; }
grep -q 'predictions are off by .* on average' "$work/out" || { cat "$work/out"; fail "the error of checks is not told"; }
"$QSYNC" simulate --json --cluster "$work/ref.json" --profile "$work/checked.json" --plan "$work/low.json" > "$work/simulated" 2> "$work/err" ||
    { cat "$work/err"; fail "simulate of a check"; }
jq -e --arg plan "$work/low.json" --slurpfile simulated "$work/simulated" '(.checks | length) == 2 and all(.checks[]; .plan == $plan and .steps >= 6 and
    .measured_us > 0 and .confidence <= 1 and .no_casts_us > 0 and .no_casts_us < .predicted_us and
    ((.predicted_us / $simulated[0].iteration_us - 1) | . < 1e-9 and . > -1e-9))' "$work/checked.json" > "$work/out" || fail "checks are not as they must be"
refuse 2 '--check and --class do not go together' profile $job --cluster "$work/ref.json" --class single --check p.json

# One class after the other, without a launcher.
classes=$work/classes.json
cluster=$(dirname "$0")/cluster.json
first=$(jq -r '.classes | keys_unsorted[0]' "$cluster")
second=$(jq -r '.classes | keys_unsorted[1]' "$cluster")
profile --cluster "$cluster" --class "$first" --out "$classes" || { cat "$work/err"; fail "--class $first"; }
cp "$classes" "$work/before.json"
profile --cluster "$cluster" --class "$second" --out "$classes" || { cat "$work/err"; fail "--class $second"; }
jq -e --arg a "$first" --arg b "$second" --slurpfile before "$work/before.json" \
    '(.classes | keys_unsorted) == [$a, $b] and .classes[$a] == $before[0].classes[$a] and .statistics == $before[0].statistics' "$classes" > "$work/out" ||
    fail "the second class did not come beside the first one"
cp "$classes" "$work/before.json"
profile --cluster "$cluster" --class "$first" --out "$classes" || { cat "$work/err"; fail "--class $first again"; }
jq -e --arg a "$first" --arg b "$second" --slurpfile before "$work/before.json" \
    '(.classes | keys_unsorted) == [$a, $b] and .classes[$b] == $before[0].classes[$b] and .classes[$a] != $before[0].classes[$a]' "$classes" > "$work/out" ||
    fail "the first class was not replaced"
refuse 1 'a class is added to a profile of the same model and batch' profile $job --cluster "$cluster" --class "$first" --out "$classes" --batch 4
refuse 2 'nobody' profile $job --cluster "$cluster" --class nobody --out "$classes"
refuse 2 '--class needs --cluster FILE' profile $job --class nobody --out "$classes"
finish
