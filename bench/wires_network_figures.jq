# SPDX-License-Identifier: Apache-2.0
# The figures of bench/wires-network.sh for one rate: $rate in Mbit/s; $mtu bytes a packet at most, 52 of them headers of IP and TCP, and 14 of
# Ethernet before it; $sizes rows of {key: MiB, value: figures of qsync-bench by wire}; $trained rows of {key: wire, value: {predicted_us,
# measured_us}}; $plan the plan that was left to choose. A rank of two receives 4, 2 or 1 + 4/1024 bytes a value.
{fp32: 4, bf16: 2, int8: (1 + 4 / 1024)} as $bytes
| (($mtu + 14) / ($mtu - 52)) as $headers
| ($sizes | map(.key as $mib | .value |= with_entries(.key as $wire
    | .value.network_of_measured = ($mib | tonumber) * 262144 * $bytes[$wire] * $headers * 8 / $rate / .value.median_us))) as $sizes
| {key: ($rate | tostring), value: {
    mib: ($sizes | from_entries),
    cpu_binds: [$sizes[] | .key as $mib | .value | to_entries[] | select(.value.network_of_measured < 0.5) | "\($mib) MiB, \(.key)"],
    iteration: ($trained | map(.value.predicted_of_measured = .value.predicted_us / .value.measured_us) | from_entries),
    taken: $plan[0].job.buckets.wire,
    fastest: ($trained | min_by(.value.measured_us) | .key)}}
