# SPDX-License-Identifier: Apache-2.0
# results.csv (raw text) -> picture of bars by operator, in each by recipe: kernels, on them conversions.
include "csv";

csv_rows | map(select(.context == "alone")) as $rows | ($rows | first_seen(.model)) as $models
| {width: 1080, height: (430 * ($models | length)), panels: [$models[] as $model | ($rows | map(select(.model == $model))) as $mine
   | ($mine | first_seen(.operator)) as $operators | ($mine | first_seen(.recipe)) as $recipes
   | def costs: (.cpt_us | tonumber) as $cpt | (.cvt_us | tonumber) as $cvt | (.bp_us | tonumber) as $bp | [$cpt, $cpt + $cvt,
       $cpt + $cvt + $bp];
     def bars($layer): [$mine[] | . as $one | ($operators | index($one.operator)) as $o | ($recipes | index($one.recipe)) as $r
        | ($mine | map(select(.operator == $one.operator and .recipe == $recipes[0])) | .[0] | costs[2]) as $whole
        | [$o * (($recipes | length) + 1) + $r, 100 * ($one | costs[$layer]) / $whole]];
     {title: "\($model), \($mine[0].dataset), batch \($mine[0].batch): operators alone in a recipe",
         y: {label: "per cent of \($recipes[0])"},
      x: {upright: true, ticks: [range($operators | length) as $o | range($recipes | length) as $r
          | [$o * (($recipes | length) + 1) + $r, (if $r == (($recipes | length) / 2
              | floor) then $operators[$o] + "   " else "" end) + $recipes[$r]]]},
      series: [{title: "bp: conversions, backward", color: "#d95f02", draw: "bars", data: bars(2)},
               {title: "cvt: conversions, forward", color: "#fdae6b", draw: "bars", data: bars(1)},
               {title: "cpt: kernels", color: "#1b9e77", draw: "bars", data: bars(0)}]}]}
