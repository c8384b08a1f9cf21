# SPDX-License-Identifier: Apache-2.0
# results.csv (raw text) -> table.md: each variant behind its last epoch, mean over seeds ± standard deviation; the difference to fp32 over the
# seeds that both have.
include "csv";

def per_cent($digits): if . == null then "-" else . * 100 | fixed($digits) end;
def last_of($name): map(select(.variant == $name)) | group_by(.seed) | map(max_by(.epoch | tonumber));

csv_rows as $rows
| ($rows | last_of("fp32") | map({key: .seed, value: (.test_accuracy | tonumber)}) | from_entries) as $full
| (["variant", "products", "norm", "seeds", "test accuracy, %", "less fp32's, same seeds", "training loss"] | row), ([range(7) | "---"] | row),
  ($rows | first_seen(.variant)[] as $name | last_of($name) as $runs
   | ($runs | map(select(.test_accuracy != "" and $full[.seed]) | (.test_accuracy | tonumber) - $full[.seed])) as $beside
   | [$name, $runs[0].recipe, $runs[0].norm, ($runs | length | tostring), ($runs | numbers("test_accuracy") | spread(100; 1)),
      (if $name == "fp32" or ($beside | length) == 0 then "" else $beside | spread(100; 1) end), ($runs | numbers("training_loss") | mean | fixed(3))] | row)
