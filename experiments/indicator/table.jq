# SPDX-License-Identifier: Apache-2.0
# results.csv (raw text) -> table.md: a table for each set of pairs that is ranked, a row an indicator and convention, a column a model and the
# iterations before its ground truth (20 where nothing is said); means over seeds, the best of a column in bold.
include "csv";

def column_of: (.model | gsub("\\+"; ",")) + (if .warm_up == "20" then "" else ", after \(.warm_up)" end);
def name_of: .indicator + (if .convention == "" then "" else " " + .convention end);
csv_rows as $rows | ($rows | first_seen(column_of)) as $columns | ($rows | first_seen(name_of)) as $names
| "Spearman's rank correlation with the ground truth, means over seeds; the best of a column in bold. Written by run.sh.",
  ((["pooled", "All pairs of operator and recipe"], ["int8/bf16", "Operators in int8/bf16"], ["bf16", "Operators in bf16"],
    ["steps", "What each operator gains by one recipe more"]) as [$over, $title]
   | ($rows | map(select(.over == $over))) as $mine
   | def figure($name; $column): $mine | map(select(name_of == $name and column_of == $column)) | numbers("spearman") | mean;
     ($columns | map(. as $column | {key: $column, value: ([$names[] | figure(.; $column) | select(. != null)] | max)}) | from_entries) as $best
   | "\n## \($title)\n", (["indicator and convention"] + $columns | row), ([range($columns | length + 1) | "---"] | row),
     ($names[] as $name | [$name] + [$columns[] as $column | figure($name; $column)
         | if . == null then "" elif . == $best[$column] then "**\(fixed(2))**" else fixed(2) end] | row))
