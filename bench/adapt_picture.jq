# SPDX-License-Identifier: Apache-2.0
# bench/results/adapt.json -> picture: throughput over steps, fixed, adapting and the oracle's.
.figures as $f | ($f.paces | length) as $parts | $f.steps_a_part as $part
| {width: 900, height: 420, panels: [{
    title: ("Samples a second while the weak rank runs at " + ($f.paces | map(tostring) | join(", ")) + " of its pace"), legend: "right",
    x: {label: "step"}, y: {label: "samples/s", low: 0},
    marks: ([range(1; $parts) | {x: (. * $part)}] + [$f.decisions[] | select(.decision == "switch") | {x: .step}]),
    series: [
        {title: "oracle", color: "#999999", draw: "line", data: [range($parts) as $p | $f.samples_per_second[$p].oracle as $y | [$p * $part, $y], [($p + 1) * $part, $y]]},
        {title: "fixed", color: "#d95f02", draw: "line", data: $f.windows.fixed},
        {title: "adaptive", color: "#7570b3", draw: "line", data: $f.windows.adaptive}]}]}
