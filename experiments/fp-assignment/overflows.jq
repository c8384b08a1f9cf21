# SPDX-License-Identifier: Apache-2.0
# A finished run -> lines of overflows.csv: of the five forward tensors that overflowed most in some step, the share in every epoch.

def columns: ["model", "width", "rate", "planner", "ratio", "order", "promote_at", "seed", "epoch", "tensor", "format", "overflow_ratio", "worst_overflow_ratio"];

if $ARGS.positional[0] == "head" then columns | join(",") else
  ($line | map(select(.type == "rounding" and .part == "value" and .worst_overflow_ratio > 0))) as $seen
  | ($seen | group_by(.tensor) | sort_by(-(map(.worst_overflow_ratio) | max)) | .[:5] | map(.[0].tensor)) as $worst
  | $seen[] | select(.tensor as $tensor | $worst | index($tensor))
  | ($cell[0] | [.model, .width, $planned[0].job.rate.base, .planner, .ratio, .order, .promote, .seed])
    + [.epoch, .tensor, (.format | gsub(","; ";")), .overflow_ratio, .worst_overflow_ratio] | map(tostring) | join(",") end
