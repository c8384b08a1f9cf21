# SPDX-License-Identifier: Apache-2.0
# The figures of bench/prediction.sh from its rows, in per cent. Cells of one plan measured several times count once, by their median; how far
# the single measurements lie from it is the noise.
def hundredths: . * 100 | round / 100;
def abs: if . < 0 then -. else . end;
def median: sort | if length % 2 == 1 then .[length / 2 | floor] else (.[length / 2 - 1] + .[length / 2]) / 2 end;
def error(f): 100 * (f / .measured_us - 1);
def summary(f): map(f | abs) | if length == 0 then null else {mean: (add / length | hundredths), worst: (max | hundredths), cells: length} end;
def is_unseen: .plan | test("^(mix|partial)");
def is_mixed: .plan | startswith("mix");

group_by([.group, .model, .plan])
| map({group: .[0].group, model: .[0].model, ranks: .[0].ranks, plan: .[0].plan, predicted_us: .[0].predicted_us,
       no_casts_us: .[0].no_casts_us, measured_us: (map(.measured_us) | median), measurements: length,
       noise: ((map(.measured_us) | median) as $m | map(100 * (.measured_us / $m - 1)) | (max - min) / 2),
       rss_error: ([.[].audit.ranks[].memory.rss | select(.predicted != null) | 100 * (.predicted / .measured - 1) | abs] | max),
       arena_exact: ([.[].audit.ranks[].memory.arena | .predicted == .reserved] | all)}
      | . + {error: error(.predicted_us), no_casts_error: error(.no_casts_us)})
| . as $cells
| map(select(.ranks == 1)) as $single
| map(select(.ranks == 2)) as $two
| map(select(.ranks == 4)) as $four
| {
    single_rank: ($single | summary(.error)),
    single_rank_unseen: ($single | map(select(is_unseen)) | summary(.error)),
    two_ranks: ($two | summary(.error)),
    two_ranks_unseen: ($two | map(select(is_unseen)) | summary(.error)),
    four_ranks: ($four | summary(.error)),
    no_casts: ($single | summary(.no_casts_error)),
    no_casts_mixed: ($single | map(select(is_mixed)) | summary(.no_casts_error)),
    with_casts_mixed: ($single | map(select(is_mixed)) | summary(.error)),
    rss_error: {worst: ([$cells[].rss_error | select(. != null)] | max | if . == null then null else hundredths end)},
    arena_exact: ($cells | map(.arena_exact) | all),
    noise: ($cells | map(select(.measurements > 1)) | group_by(.ranks)
        | map({key: "\(.[0].ranks)_ranks", value: (map(.noise) | {mean: (add / length | hundredths), worst: (max | hundredths)})}) | from_entries),
    by_group: ($cells | group_by([.group, .model]) | map({key: "\(.[0].group)-\(.[0].model)", value: summary(.error)}) | from_entries),
    table: ($cells | map("\(.group) \(.model) \(.plan): predicted \(.predicted_us / 1000 | hundredths) ms, measured \(.measured_us / 1000
        | hundredths) ms, error \(.error | hundredths) %, without casts \(.no_casts_error | hundredths) %"))
  }
