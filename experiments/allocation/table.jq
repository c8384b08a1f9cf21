# SPDX-License-Identifier: Apache-2.0
# results.csv (raw text) -> tables in Markdown, one for each model and memory limit, planners in the order of the file.
include "csv";

def spread($scale; $digits): "\(mean * $scale | fixed($digits)) ± \(deviation * $scale | fixed($digits))";

# Throughput against that of `uniform` at the same seed, which ran next to it.
def against($uniform): map(. as $one | $uniform[] | select(.seed == $one.seed) | ($one.images_per_second | tonumber) / (.images_per_second | tonumber))
    | mean | if . == null then "-" else . * 100 | fixed(1) end;

def line($uniform): .[0] as $one
    | if $one.fits == "false" then [$one.planner, "does not fit", "", "", "", "", "", "", ""]
      else [$one.planner, $one.weak_operators, "\($one.big_batch) + \($one.weak_batch)",
          (numbers("test_accuracy") | spread(100; 2)), (numbers("images_per_second") | spread(1; 0)), against($uniform), (numbers("sum_omega") | mean | brief),
          "\(numbers("big_waiting_us") | mean / 1000 | fixed(1)) / \(numbers("weak_waiting_us") | mean / 1000 | fixed(1))",
          (numbers("weak_arena_bytes") | mean / 1048576 | fixed(1))] end | row;

def table: . as $rows | .[0] as $one | map(select(.planner == "uniform" and .fits == "true")) as $uniform
    | "\n## \($one.model), \($one.dataset), batch 2 x \($one.batch), \($one.epochs) epochs, memory of weak: \(
        if $one.limit_bytes | endswith("%") then "ample" else "\($one.limit_bytes | rtrimstr("B") | tonumber / 1048576 | fixed(1)) MiB" end)\n",
      (["plan", "operators of weak", "batch big + weak", "test accuracy, %", "images/s", "of uniform, %", "ΣΩ", "waiting big / weak, ms", "arena of weak, MiB"] | row),
      ([range(9) | "---"] | row),
      (first_seen(.planner)[] as $planner | $rows | map(select(.planner == $planner)) | line($uniform));

csv_rows as $rows
| "Means over \($rows | map(select(.seed != "").seed) | unique | length) seeds ± standard deviation. Written by run.sh from results.csv.",
  ($rows | first_seen([.model, .dataset, .batch, .limit])[] as $cell | $rows | map(select([.model, .dataset, .batch, .limit] == $cell)) | table)
