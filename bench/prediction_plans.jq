# SPDX-License-Identifier: Apache-2.0
# The plans of bench/prediction.sh for one model and cluster, as an object name -> hand-written plan with every operator pinned. Input: what
# `qsync inspect --json MODEL` prints. Arguments: $cluster (its file), $mixes (how many random ones). The list is the same every time.

# Random numbers of the minimal standard generator: exact in double arithmetic.
def draws($seed; $count): [limit($count; ($seed * 16807 % 2147483647) | recurse(. * 16807 % 2147483647))];

# From the highest precision to the lowest; fixed point runs its backward passes in the class's half format, where it has one.
def recipes: .formats as $f
    | ["fp32"] + (if $f | index("bf16") then ["bf16"] else [] end)
      + (if $f | index("int8") then [if $f | index("bf16") then "int8/bf16" else "int8/fp32" end] else [] end);

# A block is what operators share before the last dot of their names; where none has two, each operator is one.
def blocks: group_by(.[: rindex(".") // 0]) | map(select(length > 1)) | if length >= 3 then . else null end;

[.nodes[] | select(.class == "adjustable") | .name] as $names
| ($names | blocks // map([.])) as $blocks
| ([$blocks[0], $blocks[($blocks | length) / 2 | floor], $blocks[-1]] | add) as $three
| ($names | length) as $count
| $cluster.classes as $classes
| ($classes | keys_unsorted) as $keys
| def plan(f): {schema: "qsync/plan/2", classes: ($keys | to_entries | map(.key as $c | .value as $class
        | ($classes[$class] | recipes) as $r
        | {key: $class, value: {operators: ($names | to_entries
            | map({key: .value, value: {recipe: ({class: $c, recipes: $r, operator: .key, name: .value} | f), pin: true}}) | from_entries)}})
        | from_entries)};
  {
    fp32: plan("fp32"),
    half: plan(if .recipes | index("bf16") then "bf16" else .recipes[-1] end),
    int8: plan(.recipes[-1]),
    partial: plan(.name as $n | if $three | index($n) then (if .recipes | length > 1 then .recipes[1] else .recipes[0] end) else "fp32" end)
  }
  + ([range($mixes) as $m | draws(1000 * $m + 7; $count * ($keys | length) + 8)[8:] as $d
      | {key: "mix\($m)", value: plan(.recipes[$d[.class * $count + .operator] % (.recipes | length)])}] | from_entries)
