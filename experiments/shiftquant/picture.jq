# SPDX-License-Identifier: Apache-2.0
# results.csv (raw text) -> picture of accuracy over epochs, a line a variant; nine colors, then dashed.
include "csv";

csv_rows as $rows | ($rows | first_seen(.variant)) as $variants
| {title: "CIFAR-10: test accuracy in fp32 and in integers", width: 800, height: 460,
   panels: [{x: {label: "epoch"}, y: {label: "test accuracy, per cent"}, legend: "right",
             series: [range($variants | length) as $v | {title: $variants[$v], draw: "both", dash: ($v >= 9), hollow: ($v >= 9), data:
                ($rows | map(select(.variant == $variants[$v])) | group_by(.epoch | tonumber)
                 | map([(.[0].epoch | tonumber), 100 * (numbers("test_accuracy") | mean)]))}]}]}
