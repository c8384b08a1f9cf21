# SPDX-License-Identifier: Apache-2.0
# The figures of bench/cuda-step.sh from its rows. Arguments: $cases, as in the script; $peer, rows of bench/peer_cuda.py.
def order: . as $one | ["bf16", "fp16", "tf32", "fp32"] | index($one.format) // 9;
def of_peer($model): [$peer[] | select(.model == $model and .samples_per_s)];

# PyTorch trains nothing in 8 bits: there the fastest of its formats is the peer.
def peer_of: . as $ours | of_peer(.model) | (if $ours.format | test("^(int|e4m3|e5m2)") then . else map(select(.format == $ours.format)) end)
    | max_by(.samples_per_s);

{
    cases: ($cases | split(" ")),
    torch: ($peer[0] // {} | {torch, cudnn, device}),
    steps: (sort_by(.model, order) | map(. as $ours | peer_of as $best
        | del(.kernels) + {kernels_share: (if .step_us then .kernels_us / .step_us else null end),
               ratio: (if .samples_per_s and $best then .samples_per_s / $best.samples_per_s else null end),
               peer: ($best | if . then {format, compiled, samples_per_s, step_us} else null end)})),
    peers: [$peer[] | del(.torch, .cudnn, .device)]
}
| .missed = [.steps[] | select(.format == "bf16" and .ratio and .ratio < 1) | "\(.model): \(.ratio * 100 | round / 100)"]
