# SPDX-License-Identifier: Apache-2.0
# The figures of bench/indicator.sh, from what the ground truth tells of every model and iteration with `name` and `measured` (steps, runs, rows,
# omega, together) and `plans` beside it.
def rounded: . * 1000 | round / 1000;
def mean: if length == 0 then null else (add / length | rounded) end;
def objects(f): map({key: .name, value: f}) | from_entries;
# Half of the seeds ranks as the other half does: what a perfect indicator could reach against all of them.
def bound: if . > 0 then (2 * . / (1 + .) | sqrt) else 0 end | rounded;
# Places of values in their order; there are no equal ones.
def ranks: . as $of | [range(length)] | sort_by($of[.]) | [to_entries[] | {key: (.value | tostring), value: .key}] | from_entries as $at
    | [range($of | length) | $at[tostring]];
def spearman($with): (. | ranks) as $a | ($with | ranks) as $b | length as $n
    | 1 - 6 * ([range($n) | ($a[.] - $b[.]) * ($a[.] - $b[.])] | add) / ($n * ($n * $n - 1));
# The correlation of an omega {operator: {recipe: value}} with the truth: over all rows, within recipes, over gains.
def gains: [range(length) as $i | .[$i].value - (if $i > 0 and .[$i - 1].operator == .[$i].operator then .[$i - 1].value else 0 end)];
def against($omega): .truth as $rows
    | [$rows[] | {operator, recipe, truth: .error2, value: $omega[.operator][.recipe]}] as $both
    | {pooled: ($both | map(.value) | spearman($both | map(.truth))),
       steps: ($both | gains | spearman($both | map(.value = .truth) | gains)),
       recipes: ($both | group_by(.recipe) | map(. as $of | {key: .[0].recipe, value: (map(.value) | spearman($of | map(.truth)))}) | from_entries)};
# All indicators: those of the truth's own comparison, and the measured one.
def opinions: [.spearman[] | select(.indicator != "measured") | . + {convention: (.convention // "none")}]
    + [{indicator: "measured", convention: "gain-counted"} + against(.measured.omega)];
def figures: {all: .pooled, steps} + .recipes | map_values(rounded);
def best: [opinions[] | select(.convention == "gain-counted")] | map({key: .indicator, value: figures}) | from_entries;
def limits: {all: .halves.pooled} + .halves.recipes | map_values(bound);
# What the operators of a plan add, by the truth; of measured's plans over qsync's.
def noises: (.truth | map({key: "\(.operator) \(.recipe)", value: .error2}) | from_entries) as $noise
    | def sum: [.operators | to_entries[] | $noise["\(.key) \(.value)"] // 0] | add;
      .plans | group_by(.memory) | map((map(select(.indicator == "measured"))[0] | sum) as $measured | (map(select(.indicator == "qsync"))[0] | sum) as $qsync
        | if $qsync > 0 then ($measured / $qsync | rounded) else null end);
. as $all | map(select(.warm_up == 50)) as $now
| [$now[] | . as $one | opinions[] | select(.indicator != "qsync" or .convention == "gain-counted") | . + {name: $one.name}] as $opinions
| {
    spearman: ($now | objects(opinions | group_by(.indicator)
        | map({key: .[0].indicator, value: (map({key: .convention, value: (.pooled | rounded)}) | from_entries)}) | from_entries)),
    within: ($now | objects(best)),
    bound: ($now | objects(limits)),
    mean: ($opinions | group_by(.indicator) | map({key: .[0].indicator,
        value: {all: (map(.pooled) | mean), within: (map(.recipes | to_entries[] | .value) | mean), steps: (map(.steps) | mean)}}) | from_entries),
    worst: ($opinions | group_by(.indicator) | map({key: .[0].indicator,
        value: {all: (map(.pooled) | min | rounded), within: (map(.recipes | to_entries[] | .value) | min | rounded)}}) | from_entries),
    cost: ($now | objects({runs: .measured.runs, rows: .measured.rows, steps: .measured.steps, part: (.measured.runs / .measured.steps | rounded)})),
    together: ($now | objects(.measured.together | group_by(.recipe) | map({key: .[0].recipe, value: (map(.of_sum | rounded))}) | from_entries)),
    plans: ($now | objects(noises)),
    later: ($all | map(select(.warm_up != 50)) | map(. as $one | ($now[] | select(.name == $one.name)) as $before
        | {key: "\(.name), \(.warm_up)", value: {qsync: ($one | best.qsync), measured_at_50: ($one | against($before.measured.omega) | figures),
            measured_anew: ($one | best.measured), bound: limits}}) | from_entries)
}
