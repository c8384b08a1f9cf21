#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# labels: long
# ranks: 4
# serial: yes
# Several hosts: network namespaces with host names of their own, joined by a slow network. What the profile says of a pair of hosts is what
# the network was told to be, and what follows from it for four hosts is what four hosts measure.
here=$(cd "$(dirname "$0")" && pwd)
skip() { echo "skipped: $1"; exit 77; }
for tool in python3 jq; do command -v $tool > /dev/null || skip "there is no $tool"; done
[ -c /dev/net/tun ] || skip "there is no /dev/net/tun"
# idle: how much of all cores was idle during a second, in per cent.
idle() {
    read -r _ a b c d e f g h _ < /proc/stat
    sleep 1
    read -r _ A B C D E F G H _ < /proc/stat
    echo $((100 * (D - d) / (A + B + C + D + E + F + G + H - a - b - c - d - e - f - g - h + 1)))
}
[ "$(idle)" -ge 60 ] || skip "this machine is at other work; times would tell about that"
. "$here/check.inc"

# Together 100 kB under way in both directions: less than the windows of TCP, or these would set the pace.
delay_ms=4 mbit=100 mtu=9000
network=
. "$here/../../tools/hosts.sh"
cleanup() {
    [ -z "$network" ] || kill "$network" 2> /dev/null
    hosts_end
    rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 1' INT TERM
missing=$(hosts_missing)
[ -z "$missing" ] || skip "$missing"

# ---- The network: one tap a host, all on one switch ----------------------------------------------------------------------------------
hosts_make 4 || exit 1
# shellcheck disable=SC2046
python3 "$here/slow-network.py" $delay_ms $mbit $(for host in 1 2 3 4; do host_device $host; done) > "$work/network" 2>&1 &
network=$!
for _ in $(seq 100); do grep -q ready "$work/network" && break; sleep 0.05; done
grep -q ready "$work/network" || skip "tap devices: $(cat "$work/network")"
for host in 1 2 3 4; do host_join $host $mtu || exit 1; done

# ---- Ranks -----------------------------------------------------------------------------------------------------------------------------
# profile N: one rank on each of N hosts, into profile-N.json.
profile() {
    cat > "$work/cluster.json" << END
{"schema": "qsync/cluster/2",
 "classes": {"one": {"role": "training", "backend": "cpu", "count": $1, "formats": ["fp32"]}},
 "links": [{"between": ["one", "one"], "kind": "network"}]}
END
    on_hosts "$1" 60 "$QSYNC" profile --cluster "$work/cluster.json" --model mlp --dataset shapes --batch 8 --repetitions 2 \
        --statistics-iterations 1 --all-reduce ring --out "$work/profile-$1.json" > "$work/out" 2> "$work/err" || { cat "$work/out" "$work/err"; fail "profile on $1 hosts"; finish; }
    # The job's own algorithm is enough for a profile; the test wants the other one as well.
    on_hosts "$1" 60 "$QSYNC" profile --cluster "$work/cluster.json" --model mlp --dataset shapes --batch 8 --repetitions 2 \
        --statistics-iterations 1 --all-reduce recursive-doubling --out "$work/other.json" > "$work/out" 2> "$work/err" || { cat "$work/out" "$work/err"; fail "profile on $1 hosts"; finish; }
    jq -s '.[0].collectives + .[1].collectives | map(select(.algorithm != "library")) | unique_by(.algorithm, .ranks)' \
        "$work/profile-$1.json" "$work/other.json" > "$work/rows-$1.json"
}

# ---- What must hold --------------------------------------------------------------------------------------------------------------------
# The cost model's formulas once more, apart from it: a ring of n ranks is 2 (n - 1) messages of bytes/n, recursive doubling of 2^k ranks is k
# messages of all bytes. Messages of doubling between two hosts are all-reduces as they are, so their lines are the network's own:
#   latency: the delay; processes that wait in turn for a core and packets for the switch may add a quarter (1 ms)
#   pace: 8 bits over the rate and 66 bytes of headers to 8948 of data; 15 % for lines through a few sizes
#   four hosts from two: 25 %: lines of both, and four ranks on fewer cores, which wait for one another
# Other work on this machine only ever adds time, and not twice in the same way: three attempts, of which one must agree in all.
cat > "$work/check.jq" << 'END'
def line(bytes): (first(.pieces[] | select(bytes <= .to_bytes)) // .pieces[-1]) | .us + .us_per_byte * bytes;
def row($rows; $algorithm): first($rows[] | select(.algorithm == $algorithm));
def near($what; $got; $expected; $below; $above):
    if $got >= $expected * (1 - $below) and $got <= $expected * (1 + $above) then empty
    else "\($what): \($got), expected \($expected) - \(100 * $below) % + \(100 * $above) %" end;
(row($two; "ring")) as $ring2 | (row($two; "recursive-doubling")) as $doubling2
| (row($four | map(select(.ranks == 4)); "ring")) as $ring4
| (row($four | map(select(.ranks == 4)); "recursive-doubling")) as $doubling4
| near("latency of a message"; $doubling2.pieces[0].us; 1000 * $delay; 0.02; 0.25),
  near("latency of a ring of two"; $ring2.pieces[0].us; 2000 * $delay; 0.02; 0.25),
  near("pace of a long message"; $doubling2.pieces[-1].us_per_byte; 8 / $mbit * (1 + 66 / 8948); 0.15; 0.15),
  (4096, 1048576 | . as $bytes
   | near("ring of four hosts, \($bytes) bytes"; $ring4 | line($bytes); ($ring2 | line($bytes / 2)) * 3; 0.25; 0.25),
     near("doubling of four hosts, \($bytes) bytes"; $doubling4 | line($bytes); ($doubling2 | line($bytes)) * 2; 0.25; 0.25))
END
agreed=no
for attempt in 1 2 3; do
    profile 2
    profile 4
    jq -n -r --argjson delay $delay_ms --argjson mbit $mbit --slurpfile a "$work/rows-2.json" --slurpfile b "$work/rows-4.json" \
        "\$a[0] as \$two | \$b[0] as \$four | $(cat "$work/check.jq")" > "$work/differences" || { fail "rows"; break; }
    [ -s "$work/differences" ] || { agreed=yes; break; }
    echo "attempt $attempt:"
    cat "$work/differences"
done
[ $agreed = yes ] || fail "what was measured does not follow from the network: $(jq -c '.[]' "$work/rows-2.json" "$work/rows-4.json")"
finish
