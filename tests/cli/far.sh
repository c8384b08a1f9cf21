#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# labels: medium
# ranks: 2
# A job on a class of this machine and one that is far: profiled, planned, trained and looked at afterwards; what its memory cannot hold and
# bad fields are told in a sentence.
. "$(dirname "$0")/check.inc"

# holds FILE WHAT FILTER: jq says true.
holds() { jq -e "$3" "$1" > "$work/out" || { head -c 1500 "$1"; fail "$2"; }; }

cat > "$work/cluster.json" << 'END'
{"schema": "qsync/cluster/2", "classes": {
    "near": {"role": "training", "backend": "cpu", "count": 1, "speed": 1, "formats": ["fp32"]},
    "away": {"role": "inference", "backend": "far", "far": {"runs": "cpu", "bytes_per_second": 4e9, "latency_us": 30}, "count": 1, "speed": 1,
        "memory": {"capacity": "2GiB", "limit": "30%"}, "formats": ["fp32", "bf16", "int8"], "storage": ["fp32", "bf16", "int8"]}},
 "links": []}
END
job="--model lenet5 --dataset shapes --batch 16"
two="--cluster $work/cluster.json"

# shellcheck disable=SC2086
launch profile $two $job --repetitions 2 --statistics-iterations 2 --out "$work/profile.json" > "$work/out" 2> "$work/err" || { cat "$work/err"; fail "profile"; finish; }
holds "$work/profile.json" "the profile does not say what copies cost" '.classes |
    (.near | has("copies") | not) and (.away.copies | .in_us > 30 and .out_us > 30 and .in_us_per_byte >= 2e-4 and .out_us_per_byte >= 2e-4)'
# shellcheck disable=SC2086
"$QSYNC" plan $two --profile "$work/profile.json" $job --epochs 1 --out "$work/plan.json" > "$work/out" 2> "$work/err" || { cat "$work/err"; fail "plan"; finish; }
# shellcheck disable=SC2086
launch train $two --plan "$work/plan.json" $job --max-steps 30 --test-limit 64 --out "$work/run" > "$work/out" 2> "$work/err" || { cat "$work/err"; fail "train"; finish; }
holds "$work/run/audit.json" "the audit has not both ranks" '[.ranks[].class] == ["near", "away"] and ([.ranks[].phases[] | .measured >= 0] | all)'
holds "$work/run/audit.json" "arenas are not as predicted" '[.ranks[].memory.arena | .predicted == .reserved] | all'

# The same weights as without the distance: a class's place changes no bit.
sed -e 's/"backend": "far", "far": {[^}]*}/"backend": "cpu"/' "$work/cluster.json" > "$work/here.json"
for where in cluster here; do
    # shellcheck disable=SC2086
    launch train --cluster "$work/$where.json" $job --max-steps 20 --test-limit 64 --out "$work/$where" > "$work/out" 2> "$work/err" || { cat "$work/err"; fail "train $where"; }
done
cmp -s "$work/cluster/metrics.jsonl" "$work/here/metrics.jsonl" || fail "a far class gives other losses"

# ---- What goes wrong
one='{"schema": "qsync/cluster/2", "classes": {"a": {"role": "training", "backend": "far", "formats": ["fp32"], "memory": {"capacity": "64KiB"}}}, "links": []}'
echo "$one" > "$work/small.json"
# shellcheck disable=SC2086
"$QSYNC" profile --cluster "$work/small.json" $job --out "$work/none.json" > "$work/out" 2> "$work/err" && fail "a profile in 64 KiB"
grep -q 'the device far cannot reserve [0-9]* bytes: 65536 of its 65536 bytes are free; take a smaller batch' "$work/err" || { cat "$work/err"; fail "what is asked and there"; }
[ ! -e "$work/none.json" ] || fail "half a profile"
echo "$one" | sed 's/"formats"/"far": {"latency_us": -1}, "formats"/' > "$work/bad.json"
# shellcheck disable=SC2086
refuse 1 'classes.a.far.latency_us' train --cluster "$work/bad.json" $job
finish
