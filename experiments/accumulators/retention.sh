#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What narrow accumulators retain of a sum's variance, measured on random sums, beside the formula and what is derived for each adder: over
# kinds of addends, bits of products and lengths, every width from RETENTION_LEAST to where nothing is lost. Writes retention.csv (a row a
# width), retention.md (the worst errors of both) and retention.svg (RETENTION_PICTURE: MANTISSA:LENGTH). Some five minutes of a core.
#
# RETENTION_PRODUCTS: mantissa bits; RETENTION_LENGTHS; RETENTION_ADDENDS; RETENTION_TRIED: addends in all trials of a setting, of
# which there are at least 1500 and at most 20000.
set -eu
experiment=$(cd "$(dirname "$0")" && pwd)
. "$experiment/../common.sh"
: "${RETENTION_PRODUCTS:=2 3 5 7 11}" "${RETENTION_LENGTHS:=64 512 1024 4096 16384}" "${RETENTION_ADDENDS:=products normal}" \
    "${RETENTION_LEAST:=4}" "${RETENTION_TRIED:=12000000}" "${RETENTION_PICTURE:=5:1024}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for addends in $RETENTION_ADDENDS; do
    for bits in $RETENTION_PRODUCTS; do
        for length in $RETENTION_LENGTHS; do
            trials=$((RETENTION_TRIED / length))
            [ $trials -le 20000 ] || trials=20000
            [ $trials -ge 1500 ] || trials=1500
            echo "accumulators: $addends of $bits bits, $length of them, $trials times" >&2
            "$QSYNC" accum --m-p "$bits" --length "$length" --addends "$addends" --trials "$trials" --least "$RETENTION_LEAST" --simulate --json \
                >> "$work/measured"
        done
    done
done
# Below the products' bits the formula says nothing.
jq -nr '"addends,product_bits,length,trials,adder,bits,vrr,interval,derived_vrr,formula_vrr",
    (inputs | . as $m | .adders | to_entries[] | .key as $adder | .value.normal.widths[]
     | [$m.addends, $m.product_bits, $m.length, $m.trials, $adder, .width, .vrr, .interval, 1 - .derived_exponent / $m.length,
        if .formula_exponent then 1 - .formula_exponent / $m.length else "" end]
     | map(tostring) | join(","))' "$work/measured" > "$work/rows"
publish retention.csv < "$work/rows"
jq -Rsr -L experiments -f experiments/accumulators/retention.jq "$EXPERIMENT_RESULTS/retention.csv" | publish retention.md
"$QSYNC" accum --m-p "${RETENTION_PICTURE%:*}" --length "${RETENTION_PICTURE#*:}" --simulate --trials 10000 --svg "$EXPERIMENT_RESULTS/retention.svg" > /dev/null
cat "$EXPERIMENT_RESULTS/retention.md"
