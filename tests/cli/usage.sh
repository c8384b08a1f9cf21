#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# labels: short
# covers: devices bench
# Bad input: one line that names what, value and rule; the right exit code; nothing half written.
. "$(dirname "$0")/check.inc"

refuse 2 'unknown verb tarin: there are devices' tarin
refuse 2 'unknown option --bach' train --bach 3
refuse 2 '--batch needs a value' train --batch
refuse 2 '--batch x: not an integer' train --batch x
refuse 2 '--batch 0: must be at least 1' train --batch 0
refuse 2 '--rate nan: not a finite number' train --rate nan
refuse 2 'unexpected argument extra' train extra
refuse 2 'resnet8' train --model resnet9
refuse 2 'fashion-mnist' train --dataset nothing
refuse 2 'there are constant, step, cosine' train --schedule wavy
refuse 2 'off, dynamic or a positive factor' train --loss-scaling -1
refuse 2 'inspect needs a model name' inspect
refuse 2 'vgg16' inspect vgg17
refuse 2 '--input 3x32: channels, height and width' inspect resnet8 --input 3x32
refuse 2 'alexnet' inspect alexnet --input 3x8x8
refuse 2 'plan needs --cluster and --profile' plan
refuse 2 'simulate needs' simulate
refuse 2 'avx2_vnni' devices --isa sse9

refuse 1 'missing.json' train --cluster "$work/missing.json"
printf '{"schema": "qsync/cluster/1",\n "classes": {]}' > "$work/syntax.json"
refuse 1 'syntax.json:2:' train --cluster "$work/syntax.json"
printf '{"schema": "qsync/cluster/1", "classes": {"a": {"role": "training", "backend": "cpu", "count": 2, "threads": 1, "isa": "all", "speed": 1, "memory": {"capacity": 1000000000, "limit": "100%%"}, "formats": ["fp32"], "colour": 1}}}' > "$work/field.json"
refuse 1 'colour' train --cluster "$work/field.json"
sed 's/, "colour": 1//' "$work/field.json" > "$work/two.json"
refuse 2 'wants 2 ranks, this run has 1' train --cluster "$work/two.json"
printf 'not a weights file' > "$work/weights.qsync"
refuse 1 'weights.qsync' eval "$work/weights.qsync"

# A plan for another model, and one with an unknown recipe.
printf '{"schema": "qsync/plan/1", "job": {"model": "lenet5", "dataset": "shapes"}, "classes": {"single": {"operators": {"nosuch": "fp32"}}}}' > "$work/plan.json"
refuse 1 'nosuch' train --plan "$work/plan.json" --dataset shapes --out "$work/run"
[ -e "$work/run/weights.qsync" ] && { echo "a refused plan left a run behind"; failures=$((failures + 1)); }
printf '{"schema": "qsync/plan/1", "job": {"model": "lenet5", "dataset": "shapes"}, "classes": {"single": {"operators": {"fc1": "int3"}}}}' > "$work/plan.json"
refuse 1 'int3' train --plan "$work/plan.json" --dataset shapes

for verb in devices inspect profile indicator plan simulate train eval report format bench; do
    "$QSYNC" $verb --help > "$work/out" 2> "$work/err" || { echo "$verb --help failed"; failures=$((failures + 1)); }
    grep -q '^usage: qsync' "$work/out" || { echo "$verb --help has no usage line"; failures=$((failures + 1)); }
done
finish
