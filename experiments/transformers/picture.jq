# SPDX-License-Identifier: Apache-2.0
# formats.csv (raw text) -> picture: what each format costs against fp32 in the same normalisation and with the same seed, in points of accuracy and in
# per cent of perplexity; mean and range over seeds.
include "csv";
include "transformers/order";

{ln: "#1b9e77", l1ln: "#d95f02"} as $colors
| csv_rows | map(select(.diverged == "false")) | in_order as $runs | ($runs | first_seen(.format) | map(select(. != "fp32"))) as $formats
| ($runs | first_seen(.norm)) as $norms | ($runs | first_seen(.set)) as $sets
| def against($set; $key; f): . as $one | $runs[] | select(.set == $set and .format == "fp32" and .norm == $one.norm and .seed == $one.seed)
      | {now: ($one[$key] | tonumber), fp32: (.[$key] | tonumber)} | f;
  def panel($set; $title; $unit; $key; f): {title: $title, legend: "right", x: {ticks: [range($formats | length) as $i | [$i * (($norms | length) + 1), $formats[$i]]]},
      y: {label: $unit}, marks: [{y: 0}],
      series: [range($norms | length) as $n | {title: $norms[$n], color: ($colors[$norms[$n]] // "#666666"), draw: "points",
          data: [range($formats | length) as $i | [$runs[] | select(.set == $set and .format == $formats[$i] and .norm == $norms[$n]) | against($set; $key; f)] as $all
              | select($all != []) | [$i * (($norms | length) + 1) + $n * 0.5, ($all | mean), ($all | min), ($all | max)]]}]};
  {width: 900, height: (260 * ([$sets | length, 1] | max)), panels: [$sets[] as $set
      | if $set | of_images then panel($set; "Vision transformer, \($set | ltrimstr("cifar10-")) epochs of CIFAR-10: accuracy less that of fp32"; "points"; "test_accuracy"; 100 * (.now - .fp32))
        else panel($set; "Decoder, \($set): perplexity above that of fp32"; "per cent"; "test_perplexity"; 100 * (.now / .fp32 - 1)) end]}
