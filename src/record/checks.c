// SPDX-License-Identifier: Apache-2.0
/* Plans that a profile was checked with. */
#include "profile_internal.h"

static qs_status read_check(const qs__place *list, size_t index, qs_profile_check *out) {
    const qs__place row = qs__element(list, index);
    QS_TRY(qs__expect_fields(&row, "plan steps median_us undisturbed measured_us confidence predicted_us no_casts_us", ""));
    QS_TRY(qs__get_text(&row, "plan", out->plan, sizeof out->plan));
    QS_TRY(qs__get_count(&row, "steps", 0, INT32_MAX, &out->steps));
    QS_TRY(qs__get_number(&row, "median_us", 0, INFINITY, &out->median_us));
    QS_TRY(qs__get_count(&row, "undisturbed", 0, INT32_MAX, &out->undisturbed));
    QS_TRY(qs__get_number(&row, "measured_us", 0, INFINITY, &out->measured_us));
    QS_TRY(qs__get_number(&row, "confidence", 0, INFINITY, &out->confidence));
    QS_TRY(qs__get_number(&row, "predicted_us", 0, INFINITY, &out->predicted_us));
    return qs__get_number(&row, "no_casts_us", 0, INFINITY, &out->no_casts_us);
}

qs_status qs__checks_read(const qs__place *root, qs_profile *out) {
    const qs__place list = qs__field(root, "checks");
    if (!list.value) return QS_OK;
    QS_TRY(qs__expect_array(&list, 1, INT32_MAX));
    QS_TRY(qs__members_create(&list, sizeof *out->check, &out->check));
    for (size_t i = 0; i < json_array_size(list.value); i++)
        QS_TRY(read_check(&list, i, &out->check[i]));
    out->checks = (int)json_array_size(list.value);
    return QS_OK;
}

void qs__checks_write(qs__writer *writer, const qs_profile *profile) {
    if (profile->checks == 0) return;
    qs__open_array(writer, "checks", QS__LINES);
    for (int i = 0; i < profile->checks; i++) {
        const qs_profile_check *row = &profile->check[i];
        qs__open_object(writer, NULL, QS__ONE_LINE);
        qs__put_text(writer, "plan", row->plan);
        qs__put_integer(writer, "steps", row->steps);
        qs__put_number(writer, "median_us", row->median_us);
        qs__put_integer(writer, "undisturbed", row->undisturbed);
        qs__put_number(writer, "measured_us", row->measured_us);
        qs__put_number(writer, "confidence", row->confidence);
        qs__put_number(writer, "predicted_us", row->predicted_us);
        qs__put_number(writer, "no_casts_us", row->no_casts_us);
        qs__close(writer);
    }
    qs__close(writer);
}
