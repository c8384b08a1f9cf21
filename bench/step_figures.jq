# SPDX-License-Identifier: Apache-2.0
# The figures of bench/step.sh from its rows {group, model, format, value}, one a line. Arguments: $cases, as in the script; $breakdowns
# and $quantization as qsync bench prints them; $peaks {key: threads, value: peaks by format}.

# What is wanted of one thread, and the peer's images per second beside it, on one machine (Zen 5, 4.2 GHz): elsewhere the ratio counts.
def wanted: {
    resnet20: {fp32: [880, 648], bf16: [1450, 954], int8: [1900, 954]},
    resnet18: {fp32: [245, 152], bf16: [390, 211], int8: [620, 211]},
    resnet50: {fp32: [100, 65], bf16: [155, 90], int8: [230, 90]},
    vgg11_bn: {fp32: [235, 221], bf16: [425, 377], int8: [870, 377]}};
# Images per second of two threads over those of one.
def wanted_scaling: 1.8;

def median: sort | (.[(length - 1) / 2 | floor] + .[length / 2 | floor]) / 2;
def medians: group_by([.group, .model, .format])
    | reduce .[] as $rows ({}; .[$rows[0].group][$rows[0].model][$rows[0].format] =
        ([$rows[].value | values] | if length > 0 then median else null end));
def suffixes: [keys[] | select(startswith("samples_per_s")) | ltrimstr("samples_per_s")];

# int8 is the faster of the recipes in it, whose name is kept.
def int8_choose($suffix): reduce (.["samples_per_s" + $suffix] | keys[]) as $model (.;
    ([.["samples_per_s" + $suffix][$model] | to_entries[] | select(.key | startswith("int8"))] | max_by(.value)) as $best
    | .["int8_recipes" + $suffix][$model] = (.["samples_per_s" + $suffix][$model] | with_entries(select(.key | startswith("int8"))))
    | .["int8_recipe" + $suffix][$model] = $best.key
    | reduce ("samples_per_s", "fraction_of_roof", "tuned") as $group (.;
        .[$group + $suffix][$model] |= (.int8 = .[$best.key] | with_entries(select(.key | test("[/:]") | not)))));
# PyTorch trains nothing in int8: there the faster of its formats is the peer.
def ratios($suffix): reduce (.["peer" + $suffix] // {} | keys[]) as $model (.;
    .["peer" + $suffix][$model] as $peer
    | .["ratio_to_peer" + $suffix][$model] = (.["samples_per_s" + $suffix][$model]
        | with_entries(.key as $format | .value /= ($peer[$format] // ([$peer[]] | max)))));

# A cell that is wanted and measured, and whether it is reached: by its ratio to the peer, where there is one.
def cells: . as $all | [wanted | to_entries[] | .key as $model | .value | to_entries[]
    | select($all.samples_per_s[$model][.key])
    | {model: $model, format: .key, samples_per_s: $all.samples_per_s[$model][.key], wanted_samples_per_s: .value[0],
       ratio_to_peer: $all.ratio_to_peer[$model][.key], wanted_ratio: (.value[0] / .value[1])}
    | .missed = (if .ratio_to_peer then .ratio_to_peer < .wanted_ratio else .samples_per_s < .wanted_samples_per_s end)];

# Every model and format that both one thread and two ran.
def scaling: . as $all | [.samples_per_s_2 // {} | to_entries[] | .key as $model | .value | to_entries[]
    | select($all.samples_per_s[$model][.key])
    | {model: $model, format: .key, ratio: (.value / $all.samples_per_s[$model][.key]), wanted_ratio: wanted_scaling}
    | .missed = (.ratio < .wanted_ratio)];

[inputs] | medians
| reduce suffixes[] as $suffix (.; int8_choose($suffix) | ratios($suffix))
| .cases = ($cases | split(" "))
| .cells = cells
| .scaling = scaling
| .missed = [.cells[] | select(.missed) | "\(.model) \(.format)"] + [.scaling[] | select(.missed) | "\(.model) \(.format) scaling"]
| .peak_gop_per_s = ($peaks | from_entries)
| .breakdown = ($breakdowns | map(.models) | add)
| .quantization = $quantization[0]
