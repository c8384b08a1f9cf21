# SPDX-License-Identifier: Apache-2.0
# results.csv (raw text) -> table.md: a table for each model and way of training, and what the claim comes to there: the bytes that demotion saves
# at the accuracy of `op`, against those that `op` saves.
include "csv";

def training: [.width, .rate, .epochs, .options];
def cell: [.planner, .ratio, .order, .promote_at];
def title: .planner + (if .ratio == "" then "" else " r=" + .ratio end) + (if .order == "" or .order == "decreasing" then "" else ", " + .order end)
    + (if .promote_at != "0" and .planner != "demote" then ", promoted" else "" end);
def mib: if . == null then "-" else . / 1048576 | fixed(1) end;

# Standard deviation of one run over seeds, pooled over the cells of all models, trained alike, that have several.
def run_deviation: group_by([.model, cell]) | map(numbers("test_accuracy")) | map(select(length > 1))
    | if length == 0 then null else (map(deviation * deviation * (length - 1)) | add) / (map(length - 1) | add) | sqrt end;

def summary: {title: (.[0] | title), planner: .[0].planner, order: .[0].order, promote_at: .[0].promote_at, runs: length, diverged: (map(select(.diverged == "true")) | length),
    accuracy: (numbers("test_accuracy") | mean), spread: (numbers("test_accuracy") | if length > 1 then deviation else null end), counted: (numbers("counted_bytes") | mean),
    high: (numbers("counted_high_bytes") | mean), arena: (numbers("arena_bytes") | mean), arena_high: (numbers("arena_high_bytes") | mean), last: (numbers("arena_last_bytes") | mean),
    ratio: (numbers("ratio_low") | mean), ratio_mean: (numbers("ratio_mean") | mean), promotions: (numbers("promotions") | mean)};
def saved: if .high then .high - .counted else null end;
def arena_saved: if .arena_high then .arena_high - .last else null end;


def row_of($fp32): [.title, (.runs | tostring), (if .diverged > 0 then "\(.diverged) diverged" else "" end)
    + (if .accuracy == null then "" else (if .diverged > 0 then ", " else "" end) + (.accuracy * 100 | fixed(2)) + (if .spread then " ± " + (.spread * 100 | fixed(2)) else "" end) end),
    (if .accuracy and $fp32 then .accuracy - $fp32 | . * 100 | fixed(2) else "-" end), (.ratio | fixed(3)), (.ratio_mean | fixed(3)), (.counted | mib), (saved | mib), (.last | mib), (arena_saved | mib), (.promotions | fixed(1))];

# Demotion at the accuracy of op: no worse than it by more than twice the standard error of the difference.
def claim($cells; $deviation): ($cells | map(select(.title == "op")) | .[0]) as $op
    | if $op == null or $op.accuracy == null then empty else
      ($cells | map(select(.planner == "demote" and .order == "decreasing" and .accuracy != null and .diverged == 0)
          | select(.accuracy >= $op.accuracy - 2 * ($deviation // 0) * ((1 / .runs + 1 / $op.runs) | sqrt)))
          | max_by(saved)) as $best
      | "\nAt the accuracy of `op` (" + ($op.accuracy * 100 | fixed(2)) + " %) within noise"
        + (if $deviation == null then " (unknown: one seed)" else "" end) + ": "
        + (if $best == null then "no demotion." else "\($best.title) (\($best.accuracy * 100 | fixed(2)) %) saves \($best | saved | mib) MiB counted against \($op | saved | mib) MiB by `op`: **"
            + (($best | saved) / ($op | saved) | fixed(2)) + " times** as much; allocated \($best | arena_saved | mib) against \($op | arena_saved | mib) MiB: "
            + (($best | arena_saved) / ($op | arena_saved) | fixed(2)) + " times." end) end;

csv_rows as $rows
| "Test accuracy in per cent, mean over runs ± standard deviation over seeds; bytes in MiB. Counted: every tensor of a gradient computation once, in its format; saved: against all tensors in high precision. Allocated: the arena behind the last step, promotions included. Written by run.sh.",
  (($rows | first_seen([.model, training]))[] as $of | ($rows | map(select([.model, training] == $of))) as $mine
   | ($rows | map(select(training == $of[1])) | run_deviation) as $deviation
   | ($mine | first_seen(cell) | map(. as $key | $mine | map(select(cell == $key)) | summary)) as $cells
   | ($cells | map(select(.planner == "fp32")) | .[0].accuracy) as $fp32
   | "\n## \($of[0]), width \($of[1][0]), learning rate \($of[1][1]), \($of[1][2]) epochs \($of[1][3])\n",
     (if $deviation then "A run's standard deviation over seeds, pooled over the cells of all models trained so: \($deviation * 100 | fixed(2)) points.\n" else empty end),
     (["assignment", "runs", "test accuracy", "against fp32", "ratio planned", "ratio, mean", "counted", "saved", "allocated", "saved", "promotions"] | row),
     ([range(11) | "---"] | row), ($cells[] | row_of($fp32) | row), claim($cells; $deviation))
