#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# labels: medium
# ranks: 2
# The demo runs from end to end and prints its table: on few generated images, with no data folder named.
set -u
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset QSYNC_DATA
DEMO_OUT="$work" DEMO_DATASET=shapes DEMO_EPOCHS=1 DEMO_OPTIONS="--train-limit 1280 --test-limit 256" sh "$QS_SOURCE/examples/demo.sh" > "$work/out" 2> "$work/err" ||
    { cat "$work/out" "$work/err"; exit 1; }
for plan in fp32 uniform qsync; do
    grep -Eq "^$plan +[0-9.]+ % +[0-9.]+ ms +[0-9.]+ ms \([+-][0-9.]+ %\) +[0-9]+ images/s$" "$work/out" || { cat "$work/out"; echo "no row of plan $plan"; exit 1; }
done
[ -s "$work/trace.json" ] || { echo "no timeline"; exit 1; }
