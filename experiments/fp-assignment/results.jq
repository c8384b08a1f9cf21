# SPDX-License-Identifier: Apache-2.0
# A finished run -> its line of results.csv; with the argument "head": the header. Ratio and bytes of the plan, and what promotion makes of them:
# ratio_mean is the average over steps.

def columns: ["model", "width", "rate", "planner", "ratio", "order", "promote_at", "seed", "epochs", "options", "diverged", "test_accuracy",
  "training_loss", "ratio_low", "ratio_mean", "counted_bytes", "counted_high_bytes", "counted_low_bytes", "arena_bytes", "arena_high_bytes",
  "arena_low_bytes", "arena_last_bytes", "promotions", "skipped_steps", "steps"];

# Elements of a tensor's value, by name.
def elements: [$groups[0].groups[].tensors[] | {key: .name, value: .elements}] | from_entries;

if $ARGS.positional[0] == "head" then columns | join(",") else
  $planned[0].classes.single as $plan | ($plan.assignment // {}) as $assigned | ($line | map(select(.type == "epoch"))) as $epochs
  | ($line | map(select(.type == "promotion"))) as $promotions | ($epochs | last // {}) as $last
  | ($line | map(select(.type == "failure")) | last | .step // $last.steps // 1) as $steps | elements as $elements
  | ($promotions | map($elements[.tensor] * (1 - (.step - 1) / $steps)) | add // 0) as $raised
  | ($code | rtrimstr("\n") == "4") as $diverged
  | ($cell[0] | [.model, .width, $planned[0].job.rate.base, .planner, .ratio, .order, .promote, .seed, .epochs, .options])
    + [$diverged, (if $diverged then "" else $last.test_accuracy end), (if $diverged then "" else $last.training_loss end),
       ($assigned.ratio_low // ""), (if $assigned.ratio_low then $assigned.ratio_low - $raised / $groups[0].elements else "" end),
       ($assigned.bytes.plan // ""), ($assigned.bytes.high // ""), ($assigned.bytes.low // ""), $plan.predicted.memory.arena,
       ($assigned.arena.high // ""), ($assigned.arena.low // ""),
       ($promotions | last | .["arena_bytes.0"] // $plan.predicted.memory.arena), ($promotions | length), ($last.skipped_steps // ""), ($last.steps // "")]
  | map(tostring) | join(",") end
