# SPDX-License-Identifier: Apache-2.0
# A run of `demote` -> its line of demote.csv; without one (cell null): the header. Bytes as in experiments/fp-assignment: counted, every tensor of a gradient
# computation once; the arena behind the last step.
if $cell == null then "planner,ratio,seed,steps,diverged,test_accuracy,training_loss,ratio_low,counted_bytes,counted_high_bytes,arena_bytes,arena_high_bytes,promotions"
else
  ($line | map(select(.type == "epoch")) | last // {}) as $last | ($line | map(select(.type == "promotion"))) as $promotions
  | ($code | rtrimstr("\n") == "4") as $diverged | $plan[0].classes.single as $class | ($class.assignment // {}) as $assigned
  | $cell[0] | [.planner, (.ratio | if . == "-" then "" else . end), .seed, ($last.steps // ""), $diverged]
    + (if $diverged then ["", ""] else [$last.test_accuracy, $last.training_loss] end)
    + [($assigned.ratio_low // ""), ($assigned.bytes.plan // ""), ($assigned.bytes.high // ""),
       ($promotions | last | .["arena_bytes.0"] // $class.predicted.memory.arena), ($assigned.arena.high // ""), ($promotions | length)]
  | map(tostring) | join(",") end
