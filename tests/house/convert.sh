#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# labels: short
# Files of schema 1: the program refuses them with the way out, tools/convert-records.py makes files of them that it takes, and what the
# script does not know stays as it was.
#
# Environment: QS_BUILD (with qsync), QS_SOURCE.
set -u
QSYNC=$QS_BUILD/qsync
export QSYNC
. "$QS_SOURCE/tests/cli/check.inc"
command -v python3 > /dev/null || { echo "there is no python3"; exit 77; }
convert() { python3 "$QS_SOURCE/tools/convert-records.py" "$@" > "$work/out" 2> "$work/err"; }
holds() { jq -e "$2" "$1" > /dev/null || fail "$(basename "$1"): not $2: $(cat "$1")"; }

cat > "$work/cluster.json" << 'END'
{"schema": "qsync/cluster/1", "classes": {"single": {"role": "training", "backend": "ref", "count": 1, "threads": 1, "isa": "all", "speed": 1,
 "formats": ["fp32", "bf16"]}}}
END
cat > "$work/plan.json" << 'END'
{"schema": "qsync/plan/1", "planner": "qsync", "signature": {"graph": "xxh64:01", "cluster": "xxh64:02", "profile": "xxh64:03",
 "job": "xxh64:04"}, "images_per_second": 12.5, "without": {"single": 0}, "recipes": {}, "classes": {"single": {"operators": {"conv1": "bf16"},
 "kernels": {"sgd/forward src=fp32[61706] weights=fp32[61706] momentum=fp32[61706] value=0.9 value2=0.0005":
   {"kernel": "reference", "scratch_bytes": 0, "allocates": false},
  "batch_norm/inference src=fp32[4,8] scale=fp32[8] shift=fp32[8] running_mean=fp32[8] running_variance=fp32[8] dst=fp32[4,8] value=1e-05 value2=0.1":
   {"kernel": "reference", "scratch_bytes": 0, "allocates": false},
  "conv2d/weight_gradient src=fp32[16,3,32,32] diff_dst=fp32[16,16,32,32] diff_weights=fp32[16,3,3,3] kernel=3x3 padding=1x1":
   {"kernel": "own:taps:avx512", "scratch_bytes": 64, "allocates": false}}, "schedule": "xxh64:05"}}}
END
cat > "$work/profile.json" << 'END'
{"schema": "qsync/profile/1", "graph": "xxh64:01", "model": {"name": "lenet5", "channels": 1, "height": 28, "width": 28, "classes": 10},
 "batch": 4, "classes": {"single": {"device": {"cpu": "a processor", "isa": "avx2", "threads": 2, "speed": 1, "library": "onednn 2.6.3",
 "build": "12.2.0"}, "date": "2026", "estimated": false, "base_bytes": 1, "step_overhead_us": 1, "iteration_overhead_us": 1,
 "data_us_per_sample": 1, "cache_bytes": 1048576, "kernels": [{"case": "relu/forward src=fp32[4,8] dst=fp32[4,8] value=6", "kernel": "own:relu",
 "us": {"median": 1, "low": 1, "high": 1, "samples": 1}, "scratch_bytes": 0, "allocates": false}], "conversions": []}}, "collectives": [],
 "statistics": {"batch": 4, "iterations": 0, "ranks": 1, "operators": {}}}
END

train="train --cluster $work/cluster.json --plan $work/plan.json --model lenet5 --dataset shapes --batch 8 --train-limit 16 --test-limit 8 --out $work/run"
# shellcheck disable=SC2086
"$QSYNC" $train > "$work/out" 2> "$work/err" && fail "files of schema 1 were taken"
grep -q 'json: schema: "qsync/[a-z]*/1" is of an older qsync.*tools/convert-records.py' "$work/err" || fail "no way out: $(cat "$work/err")"

convert "$work/cluster.json" "$work/plan.json" "$work/profile.json" || fail "not converted: $(cat "$work/err")"
holds "$work/cluster.json" '.schema == "qsync/cluster/2" and .classes.single.ref == {"threads": 1, "isa": "all"} and (.classes.single | has("isa") | not)'
holds "$work/plan.json" '.samples_per_second == 12.5 and .unit == "images" and (has("signature") or has("images_per_second") | not)'
holds "$work/plan.json" '.classes.single | (has("schedule") | not) and (.kernels | keys | map(split(" ")[-2:]) |
    . == [["epsilon=1e-05", "momentum=0.1"], ["kernel=3x3", "padding=1x1"], ["momentum=0.9", "weight_decay=0.0005"]])'
holds "$work/plan.json" '[.classes.single.kernels[].kernel] | sort == ["own:weight_gradient:avx512", "reference", "reference"]'
signature=$("$QSYNC" inspect lenet5 --input 1x28x28 --classes 10 --json | jq .signature)
holds "$work/profile.json" ".graph == $signature and .model == {\"name\": \"lenet5\"} and .samples.inputs[0].extents == [28, 28, 1]"
holds "$work/profile.json" '.classes.single | .device.backend == "cpu" and .device.name == "a processor" and
    .cpu == {"threads": 2, "isa": "avx2", "cache_bytes": 1048576} and .kernels[0].case == "relu/forward src=fp32[4,8] dst=fp32[4,8] ceiling=6"'
"$QSYNC" indicator --profile "$work/profile.json" --json > "$work/out" 2> "$work/err"
grep -q 'profile.json: ' "$work/err" && fail "the converted profile is refused: $(cat "$work/err")"

# The script's plan, cluster and run are the program's: it trains by them.
# shellcheck disable=SC2086
"$QSYNC" $train > "$work/out" 2> "$work/err" || fail "training by a converted plan: $(cat "$work/err")"
holds "$work/run/timing.json" '.samples_per_second > 0 and .unit == "images"'
holds "$work/run/config.json" '.schema == "qsync/run/2" and .settings.backend == "ref"'

cp "$work/plan.json" "$work/again.json"
convert "$work/again.json" "$work/run" || fail "a second time: $(cat "$work/err")"
cmp -s "$work/plan.json" "$work/again.json" || fail "a file of schema 2 was changed"

# refused FILE TEXT: the file stays as it is, what is wrong is told.
refused() {
    cp "$work/$1" "$work/before"
    convert "$work/$1" && fail "$1 was converted"
    grep -q "$2" "$work/err" || fail "$1: not told that $2: $(cat "$work/err")"
    cmp -s "$work/before" "$work/$1" || fail "$1 was changed"
}
echo '{"schema": "qsync/plan/1", "classes": {"a": {"kernels": {"sgd/forward src=fp32[1] value3=1": {"kernel": "k"}}}}}' > "$work/setting.json"
refused setting.json 'operator sgd has no setting 3'
echo '{"schema": "qsync/plane/1"}' > "$work/kind.json"
refused kind.json '"qsync/plane/1" is none of'
echo '{"schema": "qsync/plan/3", "classes": {}}' > "$work/newer.json"
refused newer.json 'newer than this script'
echo '{"schema": "qsync/plan/1"}' > "$work/short.json"
refused short.json "field 'classes' is missing"
echo '{' > "$work/syntax.json"
refused syntax.json 'line 2'
finish
