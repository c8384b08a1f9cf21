# SPDX-License-Identifier: Apache-2.0
# results.csv (raw text) -> picture of accuracy over epochs: mean and range over seeds, points of an epoch beside each other.
include "csv";

csv_rows as $rows
| [["fp32", "#1b9e77"], ["uniform", "#d95f02"], ["qsync", "#7570b3"]] as $plans
| {title: "Fashion-MNIST, resnet8, two unlike ranks, batch 2 x 128: test accuracy (mean and range over seeds)", width: 760, height: 420,
   panels: [{x: {label: "epoch", ticks: [range(1; 6) | [., tostring]]}, y: {label: "test accuracy, per cent"},
             series: [range($plans | length) as $i | $plans[$i] | {title: .[0], color: .[1], draw: "both", data:
                (.[0] as $plan | $rows | map(select(.plan == $plan)) | group_by(.epoch | tonumber)
                 | map(numbers("test_accuracy") as $all
                       | [(.[0].epoch | tonumber) + 0.04 * ($i - 1), 100 * ($all | mean), 100 * ($all | min), 100 * ($all | max)]))}]}]}
