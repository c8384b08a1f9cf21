# SPDX-License-Identifier: Apache-2.0
# results.csv (raw text) -> table.md: each variant, mean over seeds ± standard deviation; differences from fp32 over the seeds that both have;
# accuracy in fp32 and in the plan's own arithmetic; the best first.
include "csv";

csv_rows as $rows
| ($rows | map(select(.variant == "fp32" and .test_accuracy != "")) | map({key: .seed, value: .}) | from_entries) as $full
| ($rows | map(select(.variant == "fp32"))[0] // $rows[0]) as $usual
| def beside($name): map(select(.[$name] != "" and $full[.seed]) | (.[$name] | tonumber) - ($full[.seed][$name] | tonumber));
  (["variant", "products", "otherwise", "seeds", "accuracy in fp32, %", "less fp32 training's", "in the plan's arithmetic, %", "with new statistics, % (fp32, plan)", "training loss", "more than fp32's", "ms a step"] | row),
  ([range(11) | "---"] | row),
  ($rows | group_by(.variant) | map({runs: map(select(.test_accuracy != "")), all: .}) | sort_by(-(.runs | numbers("test_accuracy") | mean // 0))[]
   | .all[0] as $one
   | [$one.variant, $one.recipe,
      ([(if $one.ends != $one.recipe then "ends \($one.ends)" else empty end), (if $one.shortcuts != $one.recipe then "shortcuts \($one.shortcuts)" else empty end),
        (if $one.norm != "l2bn" then $one.norm else empty end), (if $one.rate != $usual.rate then "rate \($one.rate)" else empty end),
        (if $one.decay != $usual.decay then "decay \($one.decay)" else empty end),
        (.all | map(select(.failure != ""))[0] // empty | .failure)] | join(", ")),
      (.runs | length | tostring), (.runs | numbers("test_accuracy") | spread(100; 2)),
      (if $one.variant == "fp32" then "" else .runs | beside("test_accuracy") | spread(100; 2) end), (.runs | numbers("planned_accuracy") | spread(100; 2)),
      ([(.runs | numbers("recalibrated_accuracy")), (.runs | numbers("recalibrated_planned_accuracy"))] | map(select(length > 0) | mean * 100 | fixed(2)) | join(", ")),
      (.runs | numbers("training_loss") | spread(1; 3)), (if $one.variant == "fp32" then "" else .runs | beside("training_loss") | spread(1; 3) end),
      (.runs | numbers("iteration_us") | if length == 0 then "" else median / 1000 | fixed(1) end)] | row)
