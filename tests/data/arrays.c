// SPDX-License-Identifier: Apache-2.0
// labels: short
/* Sets of a program's own arrays: every kind of input and target comes out of a batch as it went in, padded where it is shorter, and what
 * contradicts the description is refused. */
#include "kit/kit.h"

#include "qsync/data.h"

enum { count = 5, positions = 6, features = 3, classes = 70000, ignored = -7, padding = 99 };

static int32_t tokens[count][positions], tags[count][positions], length[count];
static float measured[count][positions][features];
static const void *const both[] = {tokens, measured};

static const qs_data_description tagged = {
    .name = "tagged",
    .samples = {.unit = "tokens",
                .inputs = 2,
                .input = {{.name = "token", .type = QS_INPUT_I32, .rank = 1, .extent = {positions}, .varies = true, .padding = padding},
                          {.name = "measured", .type = QS_INPUT_F32, .rank = 2, .extent = {positions, features}, .varies = true}},
                .target = {.kind = QS_TARGET_CLASS_PER_POSITION, .classes = classes, .extent = positions, .ignored = ignored}},
};

static int setup(void **state) {
    (void)state;
    for (int i = 0; i < count; i++) {
        length[i] = 1 + i;
        for (int p = 0; p < positions; p++) {
            tokens[i][p] = 1000 * i + p;
            tags[i][p] = (p + i) % 3 == 0 ? ignored : (65000 + 31 * (i * positions + p)) % classes;
            for (int f = 0; f < features; f++)
                measured[i][p][f] = (float)(i - p) + 0.25f * (float)f;
        }
    }
    return qs_threads_set(1);
}

static void open_tagged(qs_dataset *set) {
    if (qs_dataset_of_arrays(&tagged, count, both, length, tags, set) != QS_OK) fail_msg("%s", qs_message());
}

/* A batch of a model that takes longer samples than the set has: what lies behind a sample's end is padding. */
TEST(shorter_samples_are_padded) {
    enum { frame = positions + 2 };
    const int64_t indices[] = {4, 0, 2};
    int32_t token[3][frame], tag[3][frame], lengths[3];
    float value[3][frame][features];
    qs_dataset set;
    open_tagged(&set);
    const qs_batch batch = {.input = {token, value},
                            .extent = {{frame}, {frame, features}},
                            .length = lengths,
                            .target = tag,
                            .positions = frame,
                            .ignored = ignored};
    assert_ok(qs_batch_fill(&set, NULL, indices, 3, &batch));
    for (int i = 0; i < 3; i++) {
        const int64_t sample = indices[i];
        assert_int_equal(lengths[i], length[sample]);
        for (int p = 0; p < frame; p++) {
            const bool inside = p < length[sample];
            assert_int_equal(token[i][p], inside ? tokens[sample][p] : padding);
            assert_int_equal(tag[i][p], inside ? tags[sample][p] : ignored);
            for (int f = 0; f < features; f++)
                assert_true(value[i][p][f] == (inside ? measured[sample][p][f] : 0.0f));
        }
    }
    qs_dataset_release(&set);
}

/* The set owns its copies. */
TEST(arrays_are_copied) {
    int32_t token[positions], tag[positions];
    float value[positions][features];
    const int64_t index = 1;
    qs_dataset set;
    open_tagged(&set);
    const uint64_t before = qs_dataset_hash(&set, 1);
    tokens[1][0]++;
    tags[1][0]++;
    const qs_batch batch = {
        .input = {token, value}, .extent = {{positions}, {positions, features}}, .target = tag, .positions = positions, .ignored = -1};
    assert_ok(qs_batch_fill(&set, NULL, &index, 1, &batch));
    assert_int_equal(token[0], --tokens[1][0]);
    assert_int_equal(tag[0], --tags[1][0]);
    assert_true(qs_dataset_hash(&set, 1) == before);
    set.length[2]++; /* the same labels at another length are another set */
    assert_true(qs_dataset_hash(&set, 1) != before);
    qs_dataset_release(&set);
}

TEST(spans_and_real_numbers) {
    qs_data_description is = tagged;
    is.samples.inputs = 1;
    is.samples.target = (qs_target){.kind = QS_TARGET_SPAN, .extent = positions};
    const int32_t spans[count][2] = {{0, 0}, {1, 1}, {1, 2}, {3, 3}, {0, 4}};
    int32_t token[positions], span[2];
    const int64_t index = 2;
    qs_dataset set;
    assert_int_equal(qs_target_values(&is.samples.target), 2);
    assert_ok(qs_dataset_of_arrays(&is, count, both, length, spans, &set));
    qs_batch batch = {.input = {token}, .extent = {{positions}}, .target = span};
    assert_ok(qs_batch_fill(&set, NULL, &index, 1, &batch));
    assert_memory_equal(span, spans[2], sizeof span);
    qs_dataset_release(&set);

    is.samples.target = (qs_target){.kind = QS_TARGET_REAL, .extent = 2};
    const float reals[count][2] = {{0.5f, -1}, {1e-30f, 2}, {3, 1e30f}, {0, 0}, {-0.0f, 7}};
    float real[2];
    assert_ok(qs_dataset_of_arrays(&is, count, both, length, reals, &set));
    batch.target = real;
    assert_ok(qs_batch_fill(&set, NULL, &index, 1, &batch));
    assert_memory_equal(real, reals[2], sizeof real);
    qs_dataset_release(&set);
}

static void refused(const qs_data_description *is, const int32_t *lengths, const void *target, const char *part) {
    qs_dataset set, untouched;
    memset(&set, 0x5a, sizeof set);
    memcpy(&untouched, &set, sizeof untouched);
    assert_int_equal(qs_dataset_of_arrays(is, count, both, lengths, target, &set), QS_USAGE);
    assert_memory_equal(&set, &untouched, sizeof set);
    if (!strstr(qs_message(), part)) fail_msg("message lacks '%s': %s", part, qs_message());
}

TEST(contradictions_are_refused) {
    qs_data_description is = tagged;
    int32_t wrong[count][positions], lengths[count];
    refused(&tagged, NULL, tags, "input token varies, lengths must be given");
    memcpy(lengths, length, sizeof lengths);
    lengths[3] = positions + 1;
    refused(&tagged, lengths, tags, "sample 3 has length 7, input token takes 1 to 6");
    lengths[3] = 0;
    refused(&tagged, lengths, tags, "sample 3 has length 0");
    memcpy(wrong, tags, sizeof wrong);
    wrong[2][1] = classes;
    refused(&tagged, length, wrong, "target of sample 2 is 70000, must be 0 to 69999");
    wrong[2][1] = -1; /* no class, and not the ignored value */
    refused(&tagged, length, wrong, "target of sample 2 is -1");
    is.samples.inputs = 0;
    refused(&is, length, tags, "0 inputs, must be 1 to 4");
    is = tagged;
    is.samples.input[1].rank = 5;
    refused(&is, length, tags, "input measured has rank 5");
    is = tagged;
    is.samples.input[1].extent[1] = 0;
    refused(&is, length, tags, "input measured has 0 values along axis 1");
    is = tagged;
    is.samples.input[0].type = QS_INPUT_U8;
    refused(&is, length, tags, "input token holds bytes, must be images");
    is = tagged;
    is.samples.target.extent = 0;
    refused(&is, length, tags, "a target of 0 positions");
    is = tagged;
    is.samples.target = (qs_target){.kind = QS_TARGET_SPAN, .extent = positions};
    const int32_t spans[count][2] = {{0, 0}, {1, 1}, {2, 3}, {3, 3}, {4, 4}};
    refused(&is, length, spans, "target of sample 2 is 3, must be 0 to 2"); /* it is 3 long */
    is = tagged;
    is.samples.input[0] = qs_input_image(4, 4, 3);
    refused(&is, length, tags, "deviation 0 of channel 0");
    is = tagged;
    is.samples.input[0].bound = 4005;
    refused(&is, length, tags, "input token of sample 4 holds 4005, must be 0 to 4004");
    is.samples.input[0].bound = padding;
    refused(&is, length, tags, "padded with 99, must be 0 to 98");
    for (int i = 0; i < count * positions; i++)
        wrong[i / positions][i % positions] = ignored;
    refused(&tagged, length, wrong, "every label is the ignored value -7");
}

/* A batch has the model's value where no class counts, whatever the set's is; those that count are counted within the samples' lengths. */
TEST(ignored_labels) {
    const int64_t indices[] = {4, 1};
    int32_t token[2][positions], tag[2][positions];
    float value[2][positions][features];
    int64_t counted = 0;
    qs_dataset set;
    open_tagged(&set);
    const qs_batch batch = {
        .input = {token, value}, .extent = {{positions}, {positions, features}}, .target = tag, .positions = positions, .ignored = -1};
    assert_ok(qs_batch_fill(&set, NULL, indices, 2, &batch));
    for (int i = 0; i < 2; i++)
        for (int p = 0; p < positions; p++) {
            const int32_t label = tags[indices[i]][p];
            const bool counts = p < length[indices[i]] && label != ignored;
            assert_int_equal(tag[i][p], counts ? label : -1);
            counted += counts;
        }
    assert_true(counted > 0 && counted < 2 * positions);
    assert_int_equal(qs_dataset_counted(&set, indices, 2), counted);
    qs_dataset_release(&set);
}

static void expect_mismatch(const qs_samples *model, const char *part) {
    assert_int_equal(qs_samples_fit(tagged.name, &tagged.samples, model), QS_MISMATCH);
    if (!strstr(qs_message(), part)) fail_msg("message lacks '%s': %s", part, qs_message());
}

TEST(models_that_do_not_fit) {
    qs_samples model = tagged.samples;
    model.input[0].extent[0] = model.input[1].extent[0] = 2 * positions;
    model.target.extent = 2 * positions;
    model.target.classes++;
    assert_ok(qs_samples_fit(tagged.name, &tagged.samples, &model));
    model = tagged.samples;
    model.inputs = 1;
    expect_mismatch(&model, "the model takes 1 inputs, samples of tagged have 2");
    model = tagged.samples;
    model.input[0].type = QS_INPUT_F32;
    expect_mismatch(&model, "input token takes 32-bit floats of rank 1, tagged has 32-bit integers of rank 1");
    model = tagged.samples;
    model.input[0].extent[0]--;
    expect_mismatch(&model, "input token takes 5 values along axis 0, samples of tagged have 6");
    model = tagged.samples;
    model.input[1].extent[1]++;
    expect_mismatch(&model, "input measured takes 4 values along axis 1, samples of tagged have 3");
    model = tagged.samples;
    model.target.kind = QS_TARGET_SPAN;
    expect_mismatch(&model, "the model learns a span, the target of tagged is a class per position");
    model = tagged.samples;
    model.target.classes--;
    expect_mismatch(&model, "tells 69999 classes apart, tagged has 70000");
    model = tagged.samples;
    model.target.extent--;
    expect_mismatch(&model, "5 positions, that of tagged 6");
}

TEST_MAIN_WITH(setup, NULL, shorter_samples_are_padded, arrays_are_copied, spans_and_real_numbers, contradictions_are_refused,
               models_that_do_not_fit, ignored_labels)
