#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# labels: medium
# ranks: 2
# A run that keeps pace by a trace: precision, or shares of the batch, follow the weak class down and up again, the same in every run, and
# nothing else changes.
. "$(dirname "$0")/check.inc"
folder=$(dirname "$0")

# holds FILE WHAT FILTER: jq says true.
holds() { jq -e "$3" "$1" > "$work/out" || { head -c 1500 "$1"; fail "$2"; }; }

job="--model lenet5 --dataset shapes --batch 16"
jq '.classes.weak |= (.speed = 1 | .memory.limit = "100%")' "$folder/cluster.json" > "$work/cluster.json"
launch profile --cluster "$work/cluster.json" $job --batches 8,24,32 --repetitions 2 --statistics-iterations 2 --conversion-seconds 1 --out "$work/measured.json" > "$work/out" 2> "$work/err" ||
    { cat "$work/err"; fail "profile"; }
# Times that leave no doubt, known for certain: a product takes 0.6 ms a sample in fp32, 0.45 in bf16 and 0.3 in int8, all else next to
# nothing; the big class is a little slower than the weak one.
jq '.classes |= with_entries(.key as $class | .value |= (del(.quality, .conditions, .jitter)
        | .conversions[].pieces[] |= (.us = 1 | .us_per_element = 0) | .iteration_overhead_us = 1 | .data_us_per_sample = 0
        | .kernels |= map((.case | if test("^(conv2d|linear)") then (capture("(src|diff_dst)=[^\\[ ]*\\[(?<batch>[0-9]+)").batch | tonumber)
                * (if test("int8") then 300 elif test("bf16") then 450 else 600 end) else 1 end
            | if $class == "big" then 1.05 * . else . end) as $us | .us = {median: $us, low: $us, high: $us, samples: 4})))' \
    "$work/measured.json" > "$work/profile.json"
for planner in qsync joint; do
    "$QSYNC" plan --cluster "$work/cluster.json" --profile "$work/profile.json" --planner $planner $job --out "$work/$planner.json" > "$work/out" 2> "$work/err" ||
        { cat "$work/err"; fail "plan $planner"; }
done

# Steps 1 to 40 as profiled, 41 to 90 at half, then as profiled; a look every 10.
cat > "$work/trace" << 'END'
# the weak class
41 weak 0.5
91 weak 1
END
# train NAME PLANNER STEPS OPTIONS...
train() {
    name=$1 plan=$work/$2.json steps=$3
    shift 3
    launch train --cluster "$work/cluster.json" --plan "$plan" $job --train-limit 6400 --max-steps "$steps" --test-limit 64 --out "$work/$name" "$@" \
        > "$work/out" 2> "$work/err" || { cat "$work/err"; fail "train $name"; }
}
adapting="--adapt $work/profile.json --adapt-every 10 --pace-trace $work/trace"
train first qsync 240 $adapting
grep -q '^keeping pace took' "$work/out" || { cat "$work/out"; fail "the result does not tell what keeping pace took"; }
train second qsync 240 $adapting
cmp "$work/first/metrics.jsonl" "$work/second/metrics.jsonl" || fail "two runs of one trace differ"
jq -s 'map(select(.type == "adapt"))' "$work/first/metrics.jsonl" > "$work/decisions"
# The change is seen at the look behind step 50, lasts at the next, and the way up likewise: it takes four looks to believe that.
holds "$work/decisions" "other decisions than they should be" '
    map([.step, .decision]) == [[51, "wait"], [61, "switch"], [101, "wait"], [111, "wait"], [121, "wait"], [131, "switch"]]
    and .[1].reason == "saves time" and .[1].class == "weak" and .[1].pace == 0.5 and .[1].iteration_us_replanned < 0.98 * .[1].iteration_us
    and .[1].omega_replanned > .[1].omega and (.[1] | has("cause") | not)
    and .[5].reason == "recovers precision" and .[5].pace == 1 and .[5].omega_replanned < 0.98 * .[5].omega'
holds "$work/first/result.json" "result.json does not tell the switches" '.replans == 2 and .adapting_seconds > 0'
holds "$work/first/config.json" "config.json does not tell the looks" '.settings.adapt_every == 10 and .settings.plan_from_step == 131'
holds "$work/first/timing.json" "timing.json has no windows" '.["window_us.10"] > 0 and .["window_us.240"] > 0 and .adapting_seconds > 0'
jq -s '(.[0].classes | map_values(.operators)) == (.[1].classes | map_values(.operators))' "$work/first/plan.json" "$work/qsync.json" | grep -q true ||
    fail "behind the trace the plan is not the one of before"

# Where shares may be unequal the weak class's follows: it is smaller at half the pace.
train shares joint 90 $adapting
jq -s '.[0].classes.weak.batch < .[1].classes.weak.batch and (.[0].classes | map(.batch) | add) == 32' "$work/shares/plan.json" "$work/joint.json" | grep -q true ||
    fail "the weak class keeps its share"

# At a twentieth of the pace even its least share would hold the other up: it is idle, takes part in the sums, and comes back with its
# pace. Epochs end with a smaller step.
cat > "$work/trace-idle" << 'END'
21 weak 0.05
71 weak 1
END
for name in idle idle-again; do
    train $name joint 200 --adapt "$work/profile.json" --adapt-every 10 --pace-trace "$work/trace-idle" --train-limit 1960
done
cmp "$work/idle/metrics.jsonl" "$work/idle-again/metrics.jsonl" || fail "two runs with an idle class differ"
jq -s '.' "$work/idle/metrics.jsonl" > "$work/lines"
holds "$work/lines" "the weak class is not idle and back" '
    map(select(.type == "replan") | [.step, .["batch.big"], .["batch.weak"]]) as $dealt
    | ($dealt | length) == 2 and $dealt[0] == [41, 32, 0] and $dealt[1][0] > 71 and $dealt[1][2] > 0 and ($dealt[1][1] + $dealt[1][2]) == 32'
holds "$work/lines" "an epoch has other samples" '
    map(select(.type == "step")) | group_by(.epoch)[:-1] | length > 2 and all(.[]; (map(.samples) | add) == 1960)'
holds "$work/idle/plan.json" "the weak class stays idle" '.classes.weak | has("idle") | not'

# A trace alone slows down and changes nothing.
train slow qsync 240 --pace-trace "$work/trace"
train plain qsync 240
cmp "$work/slow/metrics.jsonl" "$work/plain/metrics.jsonl" || fail "rests changed the run"
holds "$work/slow/timing.json" "timing.json has no windows" '.["window_us.50"] > 0 and (has("adapting_seconds") | not)'

# Really measured, whatever the machine does meanwhile: the run ends, and every decision has its reason, cause and paces.
train live qsync 240 --adapt "$work/profile.json" --adapt-every 10
jq -s 'map(select(.type == "adapt"))' "$work/live/metrics.jsonl" > "$work/decisions"
holds "$work/decisions" "a decision lacks what it must say" 'length > 0 and
    all(.[]; (.reason | length > 0) and (.cause | IN("own", "foreign load")) and .["compute.weak"] > 0 and .["memory.big"] > 0 and .all_reduce > 0
        and .["waited.weak"] >= 0)'

# An idle rank measures its own pace.
train half joint 60 --adapt "$work/profile.json" --adapt-every 10 --pace-trace "$work/trace-idle" --train-limit 1960
cp "$work/half/plan.json" "$work/half.json"
holds "$work/half.json" "the weak class is not idle" '.classes.weak.idle == true and .classes.big.batch == 32'
train live-idle half 120 --adapt "$work/profile.json" --adapt-every 10
jq -s 'map(select(.type == "adapt"))' "$work/live-idle/metrics.jsonl" > "$work/decisions"
holds "$work/decisions" "nothing was seen of the pace of an idle rank" 'length > 0 and .[0]["compute.weak"] > 0 and .[0]["compute.weak"] != 1'

# What cannot be.
echo '10 weak 2' > "$work/bad"
launch train --cluster "$work/cluster.json" --plan "$work/qsync.json" $job --pace-trace "$work/bad" > "$work/out" 2> "$work/err" && fail "a bad trace was taken"
grep -q 'bad:1: compute 2: a pace from 0.01 to 1' "$work/err" || { cat "$work/err"; fail "a bad trace is not told with its line"; }
refuse 2 "--adapt needs --plan FILE" train --model lenet5 --dataset shapes --adapt "$work/profile.json"
jq '.classes.weak.kernels[0].us.median = 3' "$work/profile.json" > "$work/other.json"
refuse 1 "the plan was made from another profile" train --plan "$work/qsync.json" --adapt "$work/other.json"
finish
