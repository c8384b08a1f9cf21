#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# All-reduces of gradients between two hosts whose network has a stated rate, by wire and size, and what a profile that was taken on that
# network says of them; then training on every wire, and which one the planner takes. Hosts are network namespaces of this machine, a core
# for each where there are two, joined by a pair of veth devices that tc's tbf holds to the rate; where tc cannot, by the relay of
# tests/cli/slow-network.py. As root. Figures of each rate (Mbit/s): mib.SIZE.WIRE has the least and the median time of an all-reduce,
# predicted_of_measured for the median, and network_of_measured, what the rate alone needs for the bytes on the way (packets' headers
# included) over the median; cpu_binds names those where that is below a half: packing, adding up and the system's TCP are most of it.
# iteration.WIRE is a training step's predicted and measured time, `taken` the planner's wire, `fastest` the one of the shortest measured
# step. `missed`: all-reduces whose median was predicted more than 5 % off.
# BENCH_RATES (1000 2500 10000, Mbit/s), BENCH_SIZES (1 4 11, MiB), BENCH_ROUNDS (25), BENCH_MODEL, BENCH_NETWORK (tbf or relay).
set -eu
cd "$(dirname "$0")/.."
bench_name=wires-network
. bench/common.sh
. tools/launch.sh
: "${BENCH_RATES:=1000 2500 10000}" "${BENCH_SIZES:=1 4 11}" "${BENCH_ROUNDS:=25}" "${BENCH_MODEL:=resnet20}" "${BENCH_NETWORK:=tbf}"
wires="fp32 bf16 int8" mtu=9000 steps=60
work=$(mktemp -d) network=
hosts_bound=yes
. tools/hosts.sh
QSYNC=$(realpath "$QSYNC") QSYNC_BENCH=$(realpath "$QSYNC_BENCH")
cleanup() {
    [ -z "$network" ] || kill "$network" 2> /dev/null || true
    hosts_end
    rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 1' INT TERM
missing=$(hosts_missing)
[ -z "$missing" ] || { echo "bench: no hosts: $missing" >&2; exit 1; }
hosts_make 2

# ---- The network ------------------------------------------------------------------------------------------------------------------------

# As few bytes as a packet has may leave at once: what was saved up while nobody sent is no rate.
shaped() {
    for host in 1 2; do
        device=$(host_device $host)
        ip netns exec "$device" tc qdisc replace dev "$device" root tbf rate "$1mbit" burst "$(burst "$1")" limit 33554432 2> "$work/err" || return
    done
}
# burst MBIT: of a packet, and of 10 us, within which timers are late.
burst() { echo $((mtu + 100 + $1 * 10 / 8)); }
network_rate() {
    if [ "$BENCH_NETWORK" = tbf ]; then
        if [ ! -e "$work/joined" ]; then
            ip link add "$(host_device 1)" type veth peer name "$(host_device 2)"
            host_join 1 $mtu
            host_join 2 $mtu
            touch "$work/joined"
        fi
        shaped "$1" && return
        echo "bench: tc: $(cat "$work/err"); by the relay" >&2
        BENCH_NETWORK=relay
        ip -n "$(host_device 1)" link del "$(host_device 1)"
    fi
    [ -z "$network" ] || { kill "$network"; wait "$network" || true; }
    python3 tests/cli/slow-network.py 0 "$1" "$(host_device 1)" "$(host_device 2)" > "$work/network" 2>&1 &
    network=$!
    for _ in $(seq 100); do grep -q ready "$work/network" && break; sleep 0.05; done
    for host in 1 2; do host_join $host $mtu; done
}

# ---- Figures -----------------------------------------------------------------------------------------------------------------------------

cat > "$work/cluster.json" << END
{"schema": "qsync/cluster/2",
 "classes": {"one": {"role": "training", "backend": "cpu", "cpu": {"threads": 1}, "count": 2, "formats": ["fp32"]}},
 "links": [{"between": ["one", "one"], "kind": "network"}]}
END
job="--cluster $work/cluster.json --model $BENCH_MODEL --dataset shapes --batch 32"

# rate_measure MBIT
rate_measure() {
    profile="$work/profile-$1.json"
    network_rate "$1"
    # shellcheck disable=SC2086
    must "$work/log" on_hosts 2 120 "$QSYNC" profile $job --wires fp32,bf16,int8 --repetitions 4 --statistics-iterations 1 --conversion-seconds 0.5 \
        --accept-noise --fresh --out "$profile"
    echo "bench: $1 Mbit/s: profiled" >&2
    for size in $BENCH_SIZES; do
        on_hosts 2 120 "$QSYNC_BENCH" wires --message-bytes $((size * 1048576)) --rounds "$BENCH_ROUNDS" --all-reduce shared --profile "$profile" --json |
            jq --arg size "$size" '{key: $size, value: .algorithms.shared}'
    done > "$work/sizes-$1"
    must "$work/log" "$QSYNC" plan --cluster "$work/cluster.json" --profile "$profile" --planner fp32 --dataset shapes --out "$work/taken.json"
    for wire in $wires; do
        must "$work/log" "$QSYNC" plan --cluster "$work/cluster.json" --profile "$profile" --planner fp32 --dataset shapes --wire "$wire" --epochs 1 --out "$work/$wire.json"
        rm -rf "$work/run"
        must "$work/log" on_hosts 2 120 "$QSYNC" train --cluster "$work/cluster.json" --plan "$work/$wire.json" --train-limit $((steps * 64)) --test-limit 64 \
            --out "$work/run"
        jq --arg wire "$wire" '{key: $wire, value: {predicted_us: .iteration_us.predicted, measured_us: .iteration_us.measured}}' "$work/run/audit.json"
    done > "$work/trained-$1"
    jq -n --argjson rate "$1" --argjson mtu $mtu --slurpfile sizes "$work/sizes-$1" --slurpfile trained "$work/trained-$1" \
        --slurpfile plan "$work/taken.json" -f bench/wires_network_figures.jq > "$work/figures-$1"
    echo "bench: $1 Mbit/s done" >&2
}

for rate in $BENCH_RATES; do
    rate_measure "$rate"
done
for rate in $BENCH_RATES; do cat "$work/figures-$rate"; done |
    jq -s --arg network "$BENCH_NETWORK" --arg model "$BENCH_MODEL" --arg build "$(basename "$(dirname "$QSYNC")")" '{build: $build, ranks: 2, hosts: 2, network: $network, model: $model, batch: 32, mbit_per_s: from_entries,
        missed: [.[] | .key as $rate | .value.mib | to_entries[] | .key as $mib | .value | to_entries[]
            | select((.value.predicted_of_measured - 1 | fabs) > 0.05) | "\($rate) Mbit/s, \($mib) MiB, \(.key)"]}' > "$work/figures.json"
bench_write "$work/figures.json"
jq '.figures | .missed, (.mbit_per_s | map_values({taken, fastest, cpu_binds}))' bench/results/wires-network.json
