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
refuse 2 'no adder "odd"' accum --length 100 --simulate --adder odd
refuse 2 "products or normal" accum --length 100 --simulate --addends odd
refuse 2 "add --simulate" accum --length 100 --trials 5
refuse 2 "accum needs --length or a model" accum
refuse 2 "a non-zero share of 0" accum --length 100 --nzr 0
refuse 2 "leave out the model" accum resnet20 --length 100
refuse 2 "--batch belongs to a model" accum --length 100 --batch 4
finish
