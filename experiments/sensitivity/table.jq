# SPDX-License-Identifier: Apache-2.0
# results.csv (raw text) -> a table in Markdown for each model; shares and indicators in the order of the file.
include "csv";

def line: .[0] as $one
    | [$one.indicator, "\($one.share) %", (map(.operators) | unique | join(" or ")), (numbers("test_accuracy") | spread(100; 2)),
       (numbers("sum_omega") | "\(mean | brief) (\(min | brief) to \(max | brief))"), (numbers("arena_bytes") | mean / 1048576 | fixed(1))] | row;
def table: .[0] as $one | . as $rows
    | "\n## \($one.model), \($one.dataset), batch 2 x \($one.batch), \($one.epochs) epochs\n",
      (["indicator", "memory of fp32's", "operators", "test accuracy, %", "ΣΩ by the qsync indicator", "arena, MiB"] | row), ([range(6) | "---"] | row),
      ($rows | first_seen([.share, .indicator])[] as $cell | $rows | map(select([.share, .indicator] == $cell)) | line);

csv_rows as $rows
| "Means over \($rows | map(.seed) | unique | length) seeds ± standard deviation, ΣΩ with its range. Written by run.sh from results.csv.",
  ($rows | first_seen([.model, .dataset, .batch])[] as $cell | $rows | map(select([.model, .dataset, .batch] == $cell)) | table)
