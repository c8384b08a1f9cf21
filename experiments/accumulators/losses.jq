# SPDX-License-Identifier: Apache-2.0
# $results and $curves (raw text of results.csv and curves.csv) -> losses.md: a table for each model and length of training. The loss of a run
# is the mean over the last quarter of its steps; what it is above the baseline's, of the same seed.
include "csv";

def settings: [.model, .dataset, .batch, .steps, .rate, .chunk];
def cell: [.adder, .widths, .bits_off];
def title: if .widths == "baseline" then "FP(8,23)" elif .widths == "adder" then "derived for the adder" elif .widths == "formula"
    then "formula, PP = " + (.bits_off | sub("-"; "−")) else .widths + " bits everywhere" end;
# The baseline first, then adder by adder, as they gain on exact sums.
def rank: [(.widths != "baseline"), (.adder as $adder | ["nearest-even", "stochastic", "toward-zero", "align-truncate"] | index($adder)),
    (.widths as $widths | ["formula", "adder"] | index($widths) // 2), -(.bits_off | tonumber)];
def last_quarter: map(select((.step | tonumber) > 0.75 * (.steps | tonumber))) | numbers("loss") | mean;
def figures: map(select(. != null)) | if any(.[]; fabs >= 100) then mean | brief else spread(1; 2) end;

($curves | csv_rows | group_by([settings, cell, .seed]) | map({key: ([.[0] | settings, cell, .seed] | tojson), value: last_quarter}) | from_entries) as $loss
| ($results | csv_rows) as $runs
| def loss: $loss[[settings, cell, .seed] | tojson];
  def baseline: . as $run | $runs | map(select(.widths == "baseline" and settings == ($run | settings) and .seed == $run.seed)) | .[0] | if . then loss else null end;
  "Training loss: mean over the last quarter of the steps; of several seeds mean ± standard deviation. Above the baseline: of the same seeds. Written by run.sh.",
  ($runs | first_seen(settings)[] as $of | map(select(settings == $of)) as $mine
   | "\n## \($of[0]), \($of[1]), \($of[3]) steps of \($of[2]), chunks of \($of[5])\n",
     (["adder", "widths", "seeds", "training loss", "above the baseline", "test loss", "test accuracy, %"] | row), ([range(7) | "---"] | row),
     ($mine | sort_by(rank) | first_seen(cell)[] as $key | map(select(cell == $key))
      | [.[0].adder, (.[0] | title), (length | tostring) + (map(select(.training_loss == "")) | if length == 0 then "" else ", \(length) diverged" end),
         (map(select(.training_loss != "")) | map(loss) | figures), (map(select(.training_loss != "") | baseline as $base | select($base) | loss - $base) | figures),
         (numbers("test_loss") | figures), (numbers("test_accuracy") | spread(100; 1))] | row))
