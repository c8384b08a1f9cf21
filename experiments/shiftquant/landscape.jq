# SPDX-License-Identifier: Apache-2.0
# landscape.csv as a table: how the loss rises along a direction, and how rough it is on the way. Means over seeds and directions.
include "csv";

# Of one slice, sorted by alpha: the rise at a part of its range (at the nearest point), mean of both sides; and the root mean square of what a
# point is off the middle of its two neighbours: curvature and noise at the slice's spacing. null where a loss is not finite.
def figures: [.[] | .loss | if . == "" then null else tonumber end] as $loss | ((length - 1) / 2) as $middle
    | def rise($part): ($middle * $part | round) as $off | [$loss[$middle - $off, $middle + $off]]
        | if any(. == null) then null else mean - $loss[$middle] end;
      def rough: [range(1; $loss | length - 1) as $i | $loss[$i - 1 : $i + 2] | select(all(. != null)) | .[1] - (.[0] + .[2]) / 2 | . * .] | mean
        | if . == null then null else sqrt end;
      {loss: $loss[$middle], rises: [rise(0.1), rise(0.25), rise(0.5), rise(1)], rough: rough};
def mean_known: if any(. == null) then null else mean end;

csv_rows as $rows
| ($rows | map(.alpha | tonumber) | max) as $range
| (["variant", "products", "norm", "loss at the weights"] + ([0.1, 0.25, 0.5, 1] | map("rise at ±\(. * $range)")) + ["roughness"] | row),
  ([range(9) | "---"] | row),
  ($rows | first_seen(.variant)[] as $name | map(select(.variant == $name)) as $own
   | [$own | group_by([.seed, .direction])[] | sort_by(.alpha | tonumber) | figures] as $slices
   | [$name, $own[0].recipe, $own[0].norm, ($slices | map(.loss) | mean_known | fixed(3))]
     + ([$slices | map(.rises) | transpose[] | mean_known | fixed(3)]) + [$slices | map(.rough) | mean_known | fixed(4)] | row)
