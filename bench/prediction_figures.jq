# SPDX-License-Identifier: Apache-2.0
# The figures of bench/prediction.sh from its rows, in per cent. A cell is one plan of one group and model. What counts as measured is the median
# of all its steps (median_us); the median of those that nothing disturbed (measured_us) stands beside it. A cell's figures are medians over
# rounds, of errors: a round's prediction and measurement belong to the same minutes.
# $indicator: results.csv of experiments/indicator, whose correlations (over all operators and recipes, mean over seeds) are repeated here.
def hundredths: . * 100 | round / 100;
def abs: if . < 0 then -. else . end;
def median: sort | if length % 2 == 1 then .[length / 2 | floor] else (.[length / 2 - 1] + .[length / 2]) / 2 end;
def summary(f): map(f | abs) | if length == 0 then null else {mean: (add / length | hundredths), worst: (max | hundredths), cells: length} end;
def is_unseen: .plan | test("^(mix|partial)");
def is_mixed: .plan | startswith("mix");
def known: if length == 0 then null else . end; # nothing was trained later: nothing is said of it
def error(f): .rounds | map(100 * (f / .median_us - 1)) | median;
def undisturbed_error: .rounds | map(100 * (.predicted_us / .measured_us - 1)) | median;
def later_error: 100 * (.predicted_us / .later.measured_us - 1);

def spearman: $indicator | split("\n") | map(split(",") | select(length >= 9 and .[7] == "pooled"))
    | group_by(.[0]) | map({key: .[0][0], value: (group_by(.[5]) | map({key: .[0][5], value: (group_by(.[6])
        | map({key: (if .[0][6] == "" then "any" else .[0][6] end), value: (map(.[8] | tonumber) | add / length | hundredths)}) | from_entries)})
        | from_entries)}) | from_entries;

group_by([.group, .model, .plan])
| map({group: .[0].group, model: .[0].model, ranks: .[0].ranks, plan: .[0].plan, rounds: .,
       predicted_us: (map(.predicted_us) | median), measured_us: (map(.median_us) | median)}
      | . + {error: error(.predicted_us), no_casts_error: error(.no_casts_us)})
| . as $cells
| map(select(.ranks == 1)) as $single
| map(select(.ranks == 2)) as $two
| map(select(.ranks == 4)) as $four
| map(.rounds[] | select(.later != null)) as $later
| {
    single_rank: ($single | summary(.error)),
    single_rank_unseen: ($single | map(select(is_unseen)) | summary(.error)),
    two_ranks: ($two | summary(.error)),
    two_ranks_unseen: ($two | map(select(is_unseen)) | summary(.error)),
    four_ranks: ($four | summary(.error)),
    one_round_alone: {
        single_rank: ([$single[].rounds[]] | summary(100 * (.predicted_us / .median_us - 1))),
        two_ranks: ([$two[].rounds[]] | summary(100 * (.predicted_us / .median_us - 1)))},
    undisturbed: {single_rank: ($single | summary(undisturbed_error)), two_ranks: ($two | summary(undisturbed_error)),
        four_ranks: ($four | summary(undisturbed_error))},
    later: {
        single_rank: ($later | map(select(.ranks == 1)) | summary(later_error)),
        two_ranks: ($later | map(select(.ranks == 2)) | summary(later_error)),
        pace: ($later | map(select(.ranks < 4)) | summary(100 * (.later.measured_us / .median_us - 1))),
        table: ($later | map("\(.group) \(.model) \(.plan): predicted \(.predicted_us / 1000 | hundredths) ms, took \(.later.measured_us / 1000 | hundredths) ms\(
            if .later.recorded then " in recordings, \(.later.kernel_by_kernel_us / 1000 | hundredths) kernel by kernel" else "" end), error \(later_error | hundredths) %"))},
    no_casts: ($single | summary(.no_casts_error)),
    mixed: {with_casts: ($single | map(select(is_mixed)) | summary(.error)), no_casts: ($single | map(select(is_mixed)) | summary(.no_casts_error))},
    contexts: ($single | map(select(.rounds[0].contexts != null))
        | {steps: summary(.error), steps_without_cold_bytes: summary(error(.contexts.mean)), by_themselves_cold: summary(error(.contexts.cold)),
           by_themselves_hot: summary(error(.contexts.hot))}),
    rss_error: ([$later[].later.rss[] | select(. != null) | abs] | known | if . then {worst: (max | hundredths)} else null end),
    arena_exact: ([$later[].later.arena[] | .predicted == .reserved] | known | if . then all else null end),
    noise: {
        median_known_to: ([$cells[].rounds[]] | summary(100 * .confidence)),
        least_steps: ([$cells[].rounds[].steps] | min),
        disturbed: ([$cells[].rounds[]] | summary(100 * (1 - .undisturbed / .steps))),
        rounds: ([$cells[].rounds[].round] | unique | length)},
    by_group: ($cells | group_by([.group, .model]) | map({key: "\(.[0].group) \(.[0].model)", value: summary(.error)}) | from_entries),
    spearman: spearman,
    table: ($cells | map("\(.group) \(.model) \(.plan): predicted \(.predicted_us / 1000 | hundredths) ms, measured \(.measured_us / 1000
        | hundredths) ms, error \(.error | hundredths) %, without casts \(.no_casts_error | hundredths) %"))
  }
