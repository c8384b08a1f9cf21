# SPDX-License-Identifier: Apache-2.0
# Runs of bench/adapt.sh -> its figures. $part: steps at each of $paces; $third: of the real run; $every: steps between looks, for the record.
def median: map(numbers) | if . == [] then null else sort | (.[(length - 1) / 2 | floor] + .[length / 2 | floor]) / 2 end;
def mean: add / length;
def named($start): map(select(.name | startswith($start)));
# Microseconds of a step, the mean of all.
def step_us: (.windows | map((.[1] - .[0]) * .[2]) | add) / .windows[-1][1];
# Of a step at a pace by the oracle of a round.
def oracle_us($pace; $round): map(select(.name == "oracle-\($pace)-\($round)"))[0] | step_us;
def seconds($steps): $steps * step_us * 1e-6 + .adapting_seconds;
# Samples a second over the windows that lie in steps (from, to].
def rate($from; $to): .global_batch as $samples | .windows | map(select(.[0] >= $from and .[1] <= $to) | .[2]) | median as $us | if $us then 1e6 * $samples / $us else null end;

. as $runs | ($runs[0].global_batch) as $samples | ($paces | length * $part) as $steps
| [range(1; ($runs | named("fixed-") | length) + 1)] as $rounds
| [$rounds[] as $round | {
    oracle: ([$paces[] as $pace | $part * 1e-6 * ($runs | oracle_us($pace; $round))] | add),
    fixed: ($runs | map(select(.name == "fixed-\($round)"))[0] | seconds($steps)),
    adaptive: ($runs | map(select(.name == "adaptive-\($round)"))[0] | seconds($steps))}] as $took
| ($runs | named("adaptive-")) as $adaptive | ($runs | named("fixed-")) as $fixed
| {model: $model, planner: $planner, paces: $paces, steps_a_part: $part, look_every: $every,
   adaptive_of_oracle: ($took | map(.oracle / .adaptive) | median), fixed_of_oracle: ($took | map(.oracle / .fixed) | median),
   switches: $adaptive[0].switches, adapting_seconds: ($adaptive | map(.adapting_seconds) | median),
   accuracy: {fixed: ($fixed | map(.accuracy) | mean), adaptive: ($adaptive | map(.accuracy) | mean)},
   samples_per_second: [range($paces | length) as $p | {pace: $paces[$p],
       fixed: ($fixed | map(rate($p * $part; ($p + 1) * $part)) | median), adaptive: ($adaptive | map(rate($p * $part; ($p + 1) * $part)) | median),
       oracle: ($rounds | map(. as $round | 1e6 * $samples / ($runs | oracle_us($paces[$p]; $round))) | median)}],
   decisions: [$adaptive[0].decisions[] | {step, decision, reason, pace}],
   windows: {fixed: ($fixed[0].windows | map([(.[0] + .[1]) / 2, 1e6 * $samples / .[2]])), adaptive: ($adaptive[0].windows | map([(.[0] + .[1]) / 2, 1e6 * $samples / .[2]]))}}
+ (if $third > 0 then {real: ([$runs[] | select(.name | startswith("real-")) | {key: (.name | ltrimstr("real-")), value: {
       before: rate(0; $third), loaded: rate($third; 2 * $third), behind: rate(2 * $third; 3 * $third), switches,
       decisions: [.decisions[] | {step, decision, reason, class, kind, pace, cause}]}}] | from_entries)} else {} end)
