#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# labels: short
# qsync-bench mapper: figures of a small chain; what was changed step by step is what lowering from scratch gives, or the verb fails.
program=$QSYNC_BENCH
. "$(dirname "$0")/../cli/check.inc"

figure() {
    sed -n "s/.*\"$1\": \([0-9.]*\).*/\1/p" "$work/figures"
}

"$program" mapper --operators 60 --json > "$work/figures" 2> "$work/err" || {
    cat "$work/err"
    failures=$((failures + 1))
}
for name in operators steps changes change_us change_p95_us undo_us steps_per_change full_lowering_us packing_us live_bytes arena_bytes; do
    [ -n "$(figure $name)" ] || {
        echo "no figure $name in:"
        cat "$work/figures"
        failures=$((failures + 1))
    }
done
[ "$(figure live_bytes)" -le "$(figure arena_bytes)" ] && [ "$(figure steps)" -gt "$(figure operators)" ] || {
    echo "figures do not go together:"
    cat "$work/figures"
    failures=$((failures + 1))
}
refuse 2 '--operators 3: must be at least 20' mapper --operators 3
finish
