# SPDX-License-Identifier: Apache-2.0
# A finished run -> lines of curves.csv: loss and accuracy by epoch, up to the epoch in which it ended.

def columns: ["model", "width", "rate", "planner", "ratio", "order", "promote_at", "seed", "epoch", "training_loss", "test_accuracy", "promotions"];

if $ARGS.positional[0] == "head" then columns | join(",") else
  ($line | map(select(.type == "promotion")) | map(.step)) as $promoted
  | $line[] | select(.type == "epoch")
  | ($cell[0] | [.model, .width, $planned[0].job.rate.base, .planner, .ratio, .order, .promote, .seed])
    + [.epoch, .training_loss, .test_accuracy, (.steps as $steps | $promoted | map(select(. <= $steps)) | length)] | map(tostring) | join(",") end
