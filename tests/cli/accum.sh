#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# labels: short
# qsync accum: widths of one sum and of a model's GEMMs, the picture, refusals.
. "$(dirname "$0")/check.inc"

check() { # what command...
    what=$1
    shift
    "$@" > "$work/said" || { echo "$what: not so"; failures=$((failures + 1)); }
}

expect 0 accum --m-p 5 --length 4608 --json << 'END'
{
  "product_bits": 5,
  "length": 4608,
  "chunk": 64,
  "nonzero": 1.0,
  "normal": 9,
  "chunked": 5,
  "adders": {
    "align-truncate": {
      "normal": 13,
      "chunked": 6
    },
    "nearest-even": {
      "normal": 9,
      "chunked": 5
    },
    "toward-zero": {
      "normal": 17,
      "chunked": 9
    },
    "stochastic": {
      "normal": 9,
      "chunked": 5
    }
  }
}
END
normal() { "$QSYNC" accum --json "$@" | jq .normal; }
check "a quarter of the products is as good as a quarter of the length" [ "$(normal --length 131072 --nzr 0.25)" = "$(normal --length 32768)" ]

"$QSYNC" accum resnet20 --batch 128 --json > "$work/model.json"
check "operators, and no input gradient of the stem" jq -e '.operators | length == 22 and (.[0] | has("input_gradient") | not)' "$work/model.json"
check "the stem's weight gradient" jq -e '.operators[0].weight_gradient == {"length": 131072, "nonzero": 1, "normal": 12, "chunked": 8}' "$work/model.json"
"$QSYNC" accum resnet20 > "$work/table"
check "the table" grep "stage1.block0.conv1 .* 144  1.00 ( 5,  5)" "$work/table"

"$QSYNC" accum --length 131072 --svg "$work/curve.svg" > "$work/table"
check "the knee in the picture" grep "one after the other: 12 bits" "$work/curve.svg"
check "a whole picture" grep "</svg>" "$work/curve.svg"

"$QSYNC" accum resnet20 --svg "$work/model.svg" > "$work/table"
check "the stem's weight gradient in the picture" grep "weight_gradient, 131072 products: 12 bits" "$work/model.svg"
check "the same in chunks" grep "weight_gradient, 131072 products: 8 bits" "$work/model.svg"
"$QSYNC" accum lenet5 --adder toward-zero --svg "$work/model.svg" > "$work/table"
check "a whole picture by an adder" grep "</svg>" "$work/model.svg"

measure() { "$QSYNC" accum --m-p 5 --length 256 --simulate --trials 2000 "$@"; }
measure --json --svg "$work/measured.svg" > "$work/measured.json"
check "all adders" jq -e '.adders | length == 4' "$work/measured.json"
check "toward-zero needs more than nearest-even" jq -e '.adders | .["toward-zero"].normal.bits > .["nearest-even"].normal.bits + 2' "$work/measured.json"
check "intervals hold the width" jq -e '.adders[].normal | .lowest <= .bits and .bits <= .highest' "$work/measured.json"
check "a whole picture of measurements" grep "</svg>" "$work/measured.svg"
measure --json --threads 2 > "$work/again.json"
check "the same for a seed" cmp "$work/measured.json" "$work/again.json"
measure --adder nearest-even > "$work/table"
check "the formula beside it" grep "^formula  *6 " "$work/table"
check "half of the products as zeros" sh -c "'$QSYNC' accum --length 512 --nzr 0.5 --simulate --trials 500 --json | jq -e '.nonzero == 0.5'"
check "widths of an adder" sh -c "'$QSYNC' accum resnet20 --adder toward-zero --json | jq -e '.operators[1].forward | .[\"toward-zero\"].normal > .normal'"

# A plan gets accumulators, and is trained with them.
cat > "$work/plan.json" << 'END'
{"schema": "qsync/plan/2",
 "recipes": {"fp8": {"forward": {"src": "e5m2", "weights": "e5m2", "accumulator": "fp(8,22)/nearest-even", "dst": "fp32"},
                     "input_gradient": {"diff_dst": "e5m2", "weights": "e5m2", "accumulator": "fp(8,22)/nearest-even"},
                     "weight_gradient": {"src": "e5m2<saved", "diff_dst": "e5m2", "accumulator": "fp(8,22)/nearest-even"}}},
 "classes": {"single": {"operators": {"conv1": "fp8", "conv2": "fp8", "fc1": "fp8"}}}}
END
cat > "$work/cluster.json" << 'END'
{"schema": "qsync/cluster/2", "classes": {"single": {"role": "training", "backend": "cpu", "formats": ["fp32", "e5m2"], "storage": ["fp32"]}}}
END
accumulate() { "$QSYNC" accum lenet5 --batch 16 --plan "$work/plan.json" --accumulate "fp(8,auto)/chunk64/align-truncate" "$@"; }
accumulate --out "$work/narrow.json" > "$work/table"
check "the accumulators that it got" grep "conv2 .* fp(8,5)/chunk64/align-truncate" "$work/table"
accumulate --accumulator-bits-off=-2 --json > "$work/fewer.json"
check "two bits fewer" jq -e '.classes.single.operators.conv2.accumulator.forward == "fp(8,3)/chunk64/align-truncate"' "$work/fewer.json"
hash() { # plan
    "$QSYNC" train --model lenet5 --dataset shapes --batch 16 --max-steps 2 --train-limit 64 --test-limit 16 --loss-scaling 1024 \
        --cluster "$work/cluster.json" --plan "$1" --json 2> "$work/err" | jq -r .weights_hash
}
check "training with them" [ -n "$(hash "$work/narrow.json")" ]
check "the same again" [ "$(hash "$work/narrow.json")" = "$(hash "$work/narrow.json")" ]
fewer=$(hash "$work/fewer.json")
check "training with fewer bits" [ -n "$fewer" ]
check "narrower is different" [ "$(hash "$work/narrow.json")" != "$fewer" ]
refuse 2 "widths without a plan" accum lenet5 --plan "$work/plan.json" --accumulate "fp(8,9)/nearest-even" --svg x.svg
refuse 2 "--plan needs --accumulate RULE" accum lenet5 --plan "$work/plan.json"
refuse 2 "a rule like" accum lenet5 --plan "$work/plan.json" --accumulate "fp(8,auto)/odd"
refuse 2 "one width for all" accum lenet5 --plan "$work/plan.json" --accumulate "fp(8,9)/nearest-even" --accumulator-bits-off 1
refuse 2 "formula or adder" accum lenet5 --plan "$work/plan.json" --accumulate "fp(8,auto)/nearest-even" --accumulator-widths odd
refuse 2 "--accumulator-bits-off needs --accumulate RULE" accum lenet5 --accumulator-bits-off 1
refuse 2 'no adder "odd"' accum --length 100 --simulate --adder odd
refuse 2 "products or normal" accum --length 100 --simulate --addends odd
refuse 2 "--trials needs --simulate" accum --length 100 --trials 5
refuse 2 "accum needs --length or a model" accum
refuse 2 "a non-zero share of 0" accum --length 100 --nzr 0
refuse 2 'unknown option "length=100"' accum resnet20 --length 100
refuse 2 "leave out the model" accum resnet20 --simulate
check "the weight gradient of a transformer sums over samples and positions" sh -c "'$QSYNC' accum bert:base --batch 32 --length 64 --json |
    jq -e '.operators[0] | .forward.length == 768 and .weight_gradient.length == 2048'"
refuse 2 "--batch belongs to a model" accum --length 100 --batch 4
finish
