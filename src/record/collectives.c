// SPDX-License-Identifier: Apache-2.0
/* The all-reduces of a profile: lines over message sizes, by link, algorithm, ranks and hosts. */
#include "profile_internal.h"

#include <string.h>

/* As in profile.c: sums of times stay finite. */
static const double most_us = 1e12;

/* ---- Reading ----------------------------------------------------------------------------------------------------------------- */

static qs_status read_piece(const qs__place *row, int64_t least, qs_message_piece *out) {
    QS_TRY(qs__expect_fields(row, "to_bytes us_per_byte us", ""));
    QS_TRY(qs__get_integer(row, "to_bytes", least, INT64_MAX, &out->to_bytes));
    QS_TRY(qs__get_number(row, "us_per_byte", 0, most_us, &out->us_per_byte));
    return qs__get_number(row, "us", 0, most_us, &out->us);
}

static qs_status read_pieces(const qs__place *row, qs_collective_cost *out) {
    qs__place list = qs__field(row, "pieces");
    if (!list.value) return QS_OK;
    QS_TRY(qs__expect_array(&list, 1, sizeof out->piece / sizeof *out->piece));
    for (size_t i = 0; i < json_array_size(list.value); i++) {
        qs__place element = qs__element(&list, i);
        QS_TRY(read_piece(&element, i ? out->piece[i - 1].to_bytes : 1, &out->piece[i]));
    }
    out->pieces = (int)json_array_size(list.value);
    return QS_OK;
}

static qs_status read_line(const qs__place *row, qs_collective_cost *out) {
    QS_TRY(qs__get_number(row, "alpha_us", 0, most_us, &out->alpha_us));
    QS_TRY(qs__get_number(row, "us_per_byte", 0, most_us, &out->us_per_byte));
    QS_TRY(qs__get_number(row, "r2", -INFINITY, 1, &out->r2));
    QS_TRY(qs__get_number(row, "worst_residual", 0, INFINITY, &out->worst_residual));
    QS_TRY(qs__get_number(row, "spread", 0, INFINITY, &out->spread));
    return qs__get_count(row, "samples", 1, INT32_MAX, &out->samples);
}

static qs_status read_collective(const qs__place *row, qs_collective_cost *out) {
    QS_TRY(qs__expect_fields(row, "ranks algorithm alpha_us us_per_byte r2 cpu_share temporary_per_byte",
                             "hosts link wire worst_residual spread samples pieces window_bytes"));
    QS_TRY(qs__get_count(row, "ranks", 1, INT32_MAX, &out->ranks));
    QS_TRY(qs__get_count(row, "hosts", 1, out->ranks, &out->hosts));
    QS_TRY(qs__get_name(row, "link", out->link, sizeof out->link));
    QS_TRY(qs__get_name(row, "algorithm", out->algorithm, sizeof out->algorithm));
    QS_TRY(qs__get_name(row, "wire", out->wire, sizeof out->wire));
    QS_TRY(read_line(row, out));
    QS_TRY(read_pieces(row, out));
    QS_TRY(qs__get_number(row, "cpu_share", 0, 1, &out->cpu_share));
    QS_TRY(qs__get_number(row, "temporary_per_byte", 0, INFINITY, &out->temporary_per_byte));
    return qs__get_integer(row, "window_bytes", 0, INT64_MAX, &out->window_bytes);
}

qs_status qs__collectives_read(const qs__place *root, qs_profile *out) {
    qs__place list = qs__field(root, "collectives");
    QS_TRY(qs__expect_array(&list, 0, INT32_MAX));
    QS_TRY(qs__members_create(&list, sizeof(qs_collective_cost), &out->collective));
    for (size_t i = 0; i < json_array_size(list.value); i++) {
        qs__place row = qs__element(&list, i);
        QS_TRY(read_collective(&row, &out->collective[i]));
    }
    out->collectives = (int)json_array_size(list.value);
    return QS_OK;
}

/* ---- Writing ----------------------------------------------------------------------------------------------------------------- */

static void write_pieces(qs__writer *writer, const qs_collective_cost *row) {
    qs__open_array(writer, "pieces", QS__ONE_LINE);
    for (int i = 0; i < row->pieces; i++) {
        qs__open_object(writer, NULL, QS__ONE_LINE);
        qs__put_integer(writer, "to_bytes", row->piece[i].to_bytes);
        qs__put_number(writer, "us_per_byte", row->piece[i].us_per_byte);
        qs__put_number(writer, "us", row->piece[i].us);
        qs__close(writer);
    }
    qs__close(writer);
}

static void write_collective(qs__writer *writer, const qs_collective_cost *row) {
    qs__open_object(writer, NULL, QS__ONE_LINE);
    qs__put_integer(writer, "ranks", row->ranks);
    if (row->hosts > 0) qs__put_integer(writer, "hosts", row->hosts);
    if (row->link[0]) qs__put_text(writer, "link", row->link);
    qs__put_text(writer, "algorithm", row->algorithm);
    if (row->wire[0]) qs__put_text(writer, "wire", row->wire);
    qs__put_number(writer, "alpha_us", row->alpha_us);
    qs__put_number(writer, "us_per_byte", row->us_per_byte);
    qs__put_number(writer, "r2", row->r2);
    if (row->samples > 0) {
        qs__put_number(writer, "worst_residual", row->worst_residual);
        qs__put_number(writer, "spread", row->spread);
        qs__put_integer(writer, "samples", row->samples);
    }
    if (row->pieces > 0) write_pieces(writer, row);
    qs__put_number(writer, "cpu_share", row->cpu_share);
    qs__put_number(writer, "temporary_per_byte", row->temporary_per_byte);
    if (row->window_bytes > 0) qs__put_integer(writer, "window_bytes", row->window_bytes);
    qs__close(writer);
}

void qs__collectives_write(qs__writer *writer, const qs_profile *profile) {
    qs__open_array(writer, "collectives", QS__LINES);
    for (int i = 0; i < profile->collectives; i++)
        write_collective(writer, &profile->collective[i]);
    qs__close(writer);
}
