# SPDX-License-Identifier: Apache-2.0
# The figures of bench/transformer.sh from its rows {group, model, format, value}, one a line. Arguments: $cases and $torch, as in the
# script; $breakdowns {model: as qsync bench prints it}.

def wanted: {fp32: 1.3, bf16: 1.5, int8: 2.0};

def median: sort | (.[(length - 1) / 2 | floor] + .[length / 2 | floor]) / 2;
def medians: group_by([.group, .model, .format])
    | reduce .[] as $rows ({}; .[$rows[0].group][$rows[0].model][$rows[0].format] = ([$rows[].value | values] | median));
def suffixes: [keys[] | select(startswith("tokens_per_s")) | ltrimstr("tokens_per_s")];
# PyTorch trains nothing in int8: there the faster of its formats is the peer.
def ratios($suffix): reduce (.["peer" + $suffix] // {} | keys[]) as $model (.;
    .["peer" + $suffix][$model] as $peer
    | .["ratio_to_peer" + $suffix][$model] = (.["tokens_per_s" + $suffix][$model]
        | with_entries(.key as $format | .value /= ($peer[$format] // ([$peer[]] | max)))));
def missed($suffix): [.["ratio_to_peer" + $suffix] // {} | to_entries[] | .key as $model | .value | to_entries[]
    | select(.value < wanted[.key]) | "\($model) \(.key)\($suffix): \(.value * 100 | round / 100), wanted \(wanted[.key])"];

[inputs] | medians
| reduce suffixes[] as $suffix (.; ratios($suffix))
| .missed = (. as $all | [suffixes[] as $suffix | $all | missed($suffix)[]])
| .cases = ($cases | split(" "))
| .torch = $torch
| .breakdown = ($breakdowns | add)
