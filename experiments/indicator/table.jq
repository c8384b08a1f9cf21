# SPDX-License-Identifier: Apache-2.0
# results.csv (raw text) -> table.md: a table for each set of pairs that is ranked, a row an indicator and convention, a column a model and the
# iterations before its ground truth (20 where nothing is said); means over seeds, the best of a column in bold. The last table has means over
# kinds of models, at 20 iterations.
include "csv";

def column_of: (.model | gsub("\\+"; ",")) + (if .warm_up == "20" then "" else ", after \(.warm_up)" end);
def name_of: .indicator + (if .convention == "" then "" else " " + .convention end);
def kind_of: if (.model | test("^(bert|vit)")) then "transformers" else "convolutional" end;
csv_rows as $rows | ($rows | first_seen(column_of)) as $columns | ($rows | first_seen(name_of)) as $names
| ([["pooled", "All pairs of operator and recipe"], ["int8/bf16", "Operators in int8/bf16"], ["bf16", "Operators in bf16"],
    ["steps", "What each operator gains by one recipe more"]]) as $overs
| "Spearman's rank correlation with the ground truth, means over seeds; the best of a column in bold. Written by run.sh.",
  ($overs[] as [$over, $title]
   | ($rows | map(select(.over == $over))) as $mine
   | def figure($name; $column): $mine | map(select(name_of == $name and column_of == $column)) | numbers("spearman") | mean;
     ($columns | map(. as $column | {key: $column, value: ([$names[] | figure(.; $column) | select(. != null)] | max)}) | from_entries) as $best
   | "\n## \($title)\n", (["indicator and convention"] + $columns | row), ([range($columns | length + 1) | "---"] | row),
     ($names[] as $name | [$name] + [$columns[] as $column | figure($name; $column)
         | if . == null then "" elif . == $best[$column] then "**\(fixed(2))**" else fixed(2) end] | row)),
  (($rows | map(select(.warm_up == "20"))) as $early | ($early | first_seen(kind_of)) as $kinds
   | def over_models($name; $kind; $over): [$early[] | select(name_of == $name and kind_of == $kind and .over == $over)]
         | group_by(.model) | map(numbers("spearman") | mean) | mean;
     "\n## Means over models\n",
     (["indicator and convention"] + [$kinds[] as $kind | $overs[] | "\($kind), \(.[0])"] | row), ([range(1 + ($kinds | length) * 4) | "---"] | row),
     ($names[] as $name | [$name] + [$kinds[] as $kind | $overs[] as [$over, $title] | over_models($name; $kind; $over) | fixed(2)] | row))
