# SPDX-License-Identifier: Apache-2.0
# bench/results/step.json for people.
def round2: . * 100 | round / 100;
def columns($widths): [., $widths] | transpose | map((.[0] // "-" | tostring) as $text
    | $text + " " * ([.[1] - ($text | length), 1] | max)) | add | sub(" +$"; "");
def steps($suffix; $threads): .["samples_per_s" + $suffix] // {} | to_entries[] | .key as $model | .value
    | {model: $model, threads: $threads, format: ("fp32", "bf16", "int8")} + {all: .} | .ours = .all[.format];

.figures as $all
| (["model", "threads", "format", "images/s", "PyTorch", "ratio", "of the roof", "scaling"]
    | columns([12, 9, 20, 10, 10, 8, 13, 9])),
  ([["", "1"], ["_2", "2"]][] as [$suffix, $threads] | $all | steps($suffix; $threads)
    | [.model, .threads, (if .format == "int8" then $all["int8_recipe" + $suffix][.model] else .format end), (.ours | round2),
       ($all["peer" + $suffix][.model][.format] // "" | if . == "" then "-" else round2 end),
       ($all["ratio_to_peer" + $suffix][.model][.format] // "" | if . == "" then "-" else round2 end),
       ($all["fraction_of_roof" + $suffix][.model][.format] // "" | if . == "" then "-" else round2 end),
       (. as $row | [$all.scaling[] | select($threads == "2" and .model == $row.model and .format == $row.format) | .ratio | round2][0])]
    | columns([12, 9, 20, 10, 10, 8, 13, 9])),
  "",
  (if $all.missed == [] then "all that is wanted is reached"
   else "missed (images/s, ratio to PyTorch or of two threads to one, and the ratio wanted; where the time of the step goes):" end),
  ($all.cells[] | select(.missed) | .model as $model | .format as $format
    | ($all.breakdown[$model][if $format == "int8" then $all.int8_recipe[$model] else $format end]) as $step
    | "\($model) \($format): \(.samples_per_s | round2), \(.ratio_to_peer // 0 | round2) of \(.wanted_ratio | round2)",
      ($step.breakdown[] | select(.share >= 0.02)
        | ["", .pass, (if .conversion then "conversion" else "" end), "\(.us / 1000 | round2) ms", "\(.share * 100 | round2) %",
           "\(.gflop_per_s | round2) GFLOP/s", "\(.gb_per_s | round2) GB/s",
           (if .fraction_of_roof then "\(.fraction_of_roof * 100 | round) % of the roof" else "" end)]
        | columns([2, 34, 12, 12, 10, 17, 13, 20]))),
  ($all.scaling[] | select(.missed) | "\(.model) \(.format), two threads: \(.ratio | round2) of \(.wanted_ratio | round2)"),
  "",
  (["formats", "batch", "int8 step", "share", "in bf16", "extra", "three passes", "saved"] | columns([12, 7, 12, 10, 10, 10, 14, 8])),
  ($all.quantization.models | to_entries[] | .key as $model | .value | to_entries[]
    | [$model, .key, "\(.value.step_us / 1000 | round2) ms",
       (.value | .share, .half_share, .extra_over_half, .extra_in_three_passes, .saved | "\(. * 100 | round2) %")]
    | columns([12, 7, 12, 10, 10, 10, 14, 8]))
