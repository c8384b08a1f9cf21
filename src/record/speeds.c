// SPDX-License-Identifier: Apache-2.0
/* `speed` of a class and of its profile: one part, or one for each format of products. */
#include "table.h"

#include <string.h>

qs_status qs__speeds_read(const qs__place *place, double *speed, qs_speeds *products) {
    bool has_fp32 = false;
    double greatest = 0;
    const char *name;
    json_t *value;
    if (!place->value) return QS_OK;
    if (!json_is_object(place->value)) return qs__part_take(place, speed);
    if (json_object_size(place->value) > QS_MOST_SPEEDS)
        return qs__refuse_value(place, "names %zu formats, may name %d", json_object_size(place->value), QS_MOST_SPEEDS);
    json_object_foreach(place->value, name, value) {
        const qs__place member = {.parent = place, .source = place->source, .key = name, .value = value};
        const int i = products->formats;
        if (qs_format_find(name, &products->format[i]) != QS_OK) return qs__refuse_value(&member, "%s", qs_message());
        for (int other = 0; other < i; other++)
            if (products->format[other] == products->format[i])
                return qs__refuse_value(&member, "%s stands there twice", products->format[i]->name);
        QS_TRY(qs__part_take(&member, &products->part[i]));
        greatest = fmax(greatest, products->part[i]);
        has_fp32 = has_fp32 || products->format[i] == qs_format_of("fp32");
        products->formats++;
    }
    if (!has_fp32) return qs__refuse_value(place, "must name \"fp32\": what is in no other named format is multiplied in it");
    *speed = greatest;
    return QS_OK;
}

void qs__speeds_write(qs__writer *writer, const char *name, double speed, const qs_speeds *products) {
    if (products->formats == 0) {
        qs__put_number(writer, name, speed);
        return;
    }
    qs__open(writer, name, "{}", QS__ONE_LINE);
    for (int i = 0; i < products->formats; i++)
        qs__put_number(writer, products->format[i]->name, products->part[i]);
    qs__close(writer);
}
