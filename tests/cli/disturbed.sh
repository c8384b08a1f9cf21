#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# labels: medium
# serial: yes
# A profile of a core that another process uses is refused: the core is named, and how much of it was taken; what was measured lies aside.
# Whoever wants it says so.
. "$(dirname "$0")/check.inc"
unset QSYNC_ACCEPT_NOISE
cores=$(taskset -pc $$ 2> "$work/err" | sed 's/.*: //') || exit 77
spinners=''
for range in $(echo "$cores" | tr ',' ' '); do
    for core in $(seq "${range%-*}" "${range#*-}"); do
        taskset -c "$core" sh -c 'while :; do :; done' &
        spinners="$spinners $!"
    done
done
trap 'kill $spinners; rm -rf "$work"' EXIT
profile="profile --model lenet5 --dataset shapes --batch 8 --repetitions 2 --statistics-iterations 2 --conversion-seconds 0.3 --out $work/one.json"
"$QSYNC" $profile > "$work/out" 2> "$work/err"
[ $? -eq 1 ] || { cat "$work/err"; fail "a profile beside another process was taken"; }
grep -q 'class single: other processes had core [0-9]* for [1-9][0-9] % of the time .*--accept-noise takes' "$work/err" ||
    { cat "$work/err"; fail "it is not said which core was used, how much and what to do"; }
[ -e "$work/one.json" ] && fail "a refused profile was written"
[ -e "$work/one.json.partial" ] && fail "a refused profile would go on"
jq -e '.classes.single.conditions | .pinned and .waited > 0.1 and .core >= 0' "$work/one.json.refused" > "$work/out" || fail "what was measured is not kept"
"$QSYNC" $profile --accept-noise > "$work/out" 2> "$work/err" || { cat "$work/err"; fail "--accept-noise"; }
grep -q 'measured on a busy machine' "$work/err" || { cat "$work/err"; fail "nothing warns of the noise"; }
[ -e "$work/one.json" ] || fail "an accepted profile was not written"
QSYNC_ACCEPT_NOISE=yes "$QSYNC" $profile > "$work/out" 2> "$work/err" || { cat "$work/err"; fail "QSYNC_ACCEPT_NOISE"; }
finish
