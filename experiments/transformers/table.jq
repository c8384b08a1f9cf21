# SPDX-License-Identifier: Apache-2.0
# $formats and $demote (raw text of CSV files) -> tables in Markdown: means over seeds ± standard deviation.
include "csv";
include "transformers/order";

def mib: if . == null then "" else . / 1048576 | fixed(1) end;
def losses($key; $scale; $digits): map(select(.diverged == "false")) | numbers($key) | spread($scale; $digits);
def diverged: map(select(.diverged == "true")) | length | if . > 0 then "\(.) diverged" else "" end;

# Less fp32 in the same normalisation and with the same seed: mean ± standard error.
def paired($all; $key; $scale; $digits): map(. as $one | $all[] | select(.format == "fp32" and .norm == $one.norm and .seed == $one.seed
        and .diverged == "false" and $one.diverged == "false") | (($one[$key] | tonumber) - (.[$key] | tonumber)) * $scale)
    | if length == 0 or all(. == 0) then "" elif length == 1 then .[0] | fixed($digits) else "\(mean | fixed($digits)) ± \(deviation / (length | sqrt) | fixed($digits))" end;

def of_set($all): .[0].set as $set | (if $set | of_images then ["test_accuracy", 100, 2, "test accuracy, %"] else ["test_perplexity", 1, 3, "perplexity of a byte"] end)
        as [$key, $scale, $digits, $what]
    | "\n## \($set), \([.[].steps | select(. != "") | tonumber] | max // 0) steps\n", (["format", "recipe", "normalisation", "runs", $what, "less fp32's", "training loss", ""] | row),
      ([range(8) | "---"] | row),
      (group_by([.norm, .format]) as $cells | first_seen([.norm, .format])[] as $key_of | $cells[] | select([.[0].norm, .[0].format] == $key_of)
       | [.[0].format, .[0].recipe, .[0].norm, (length | tostring), losses($key; $scale; $digits), paired($all; $key; $scale; $digits), losses("training_loss"; 1; 3), diverged] | row);

def demotion: (first_seen([.planner, .ratio])[] as $cell | map(select([.planner, .ratio] == $cell))
    | (numbers("counted_high_bytes") | mean) as $high | (numbers("counted_bytes") | mean) as $counted
    | [(.[0].planner + (if .[0].ratio == "" then "" else " r=" + .[0].ratio end)), (length | tostring), losses("test_accuracy"; 100; 2), (numbers("ratio_low") | mean | fixed(3)),
       ($counted | mib), (if $high and $counted then $counted / $high | fixed(3) else "-" end), (numbers("arena_bytes") | mean | mib),
       ((numbers("arena_high_bytes") | mean) as $all | (numbers("arena_bytes") | mean) as $arena | if $all and $arena then $arena / $all | fixed(3) else "-" end),
       (numbers("promotions") | mean | fixed(1)), diverged] | row);

($formats | csv_rows | in_order) as $formats | ($demote | csv_rows | sort_by((.planner | place(["fp32", "uniform-fp", "op"])), (.ratio | tonumber? // 0))) as $demote
| "Means over seeds ± standard deviation; less fp32's: with the same seed and normalisation, ± standard error. Written by run.sh.",
  ($formats | first_seen(.set)[] as $set | map(select(.set == $set)) | of_set(.)),
  (if $demote == [] then empty else
    "\n## MiniLM on SST-2, formats of tensors, \([$demote[].steps | select(. != "") | tonumber] | max // 0) steps\n",
    (["assignment", "runs", "test accuracy, %", "ratio in low precision", "counted, MiB", "of all high", "arena, MiB", "of all high", "promotions", ""] | row), ([range(10) | "---"] | row),
    ($demote | demotion) end)
