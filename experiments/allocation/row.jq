# SPDX-License-Identifier: Apache-2.0
# One line of results.csv: a finished run, or (result null) a planner that has no plan within the memory.
def class($name): .[0].classes[$name];
def rank($name): $audit[0].ranks[] | select(.class == $name);
def counts: class("weak").operators | [.[] | if type == "object" then .recipe else . end] | group_by(.) | map("\(length) \(.[0])") | join("; ");

{model: $model, dataset: $dataset, batch: $batch, epochs: $epochs, rate: $rate, limit: $limit, limit_bytes: ($cluster | class("weak").memory.limit), planner: $planner,
 fits: ($result != null), seed: $seed}
+ if $result == null then {} else {
    test_accuracy: $result[0].test_accuracy, images_per_second: $result[0].images_per_second,
    iteration_us: $result[0].iteration_us, predicted_iteration_us: $result[0].predicted_iteration_us,
    sum_omega: ([$plan[0].classes[].predicted.sum_omega] | add),
    big_waiting_us: rank("big").phases.waiting_us.measured, weak_waiting_us: rank("weak").phases.waiting_us.measured,
    big_batch: ($plan | class("big").batch // $batch), weak_batch: ($plan | class("weak").batch // $batch),
    weak_operators: ($plan | counts), weak_arena_bytes: rank("weak").memory.arena.reserved, weak_rss_bytes: rank("weak").memory.rss.measured
  } end
| . as $row | $columns | split(",") | map($row[.] // (if $row[.] == false then false else "" end) | tostring) | join(",")
