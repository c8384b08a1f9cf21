// SPDX-License-Identifier: Apache-2.0
/* What the integer products share: the order of channels and their shifts, scratch, headroom. */
#include "cpu/integer/product.h"

#include <string.h>

enum { GATHERED = 1 << 16, NARROW = 16 };

int qs__spare_bits(const qs_format *format) {
    int bits = 0;
    while (format->max * (2 << bits) <= INT8_MAX)
        bits++;
    return bits;
}

/* Bits by which a factor's codes are shifted within their bytes, at most; none where groups are gathered. */
static int room_of(const qs__product *product, const qs_format *format) {
    return product->gathered ? 0 : qs__spare_bits(format);
}

/* Channels with `rest` left over by both bytes. */
static void fill_part(const qs__product *product, int64_t channels, const uint8_t *group, int rest, qs__shift_order *order) {
    int spare = room_of(product, product->left), both = spare + room_of(product, product->right);
    int part = order->parts++;
    order->begin[part] = order->packed;
    for (int64_t c = 0; c < channels; c++) {
        int shift = product->shifts - 1 - (group ? group[c] : product->shifts - 1);
        if ((shift > both ? shift - both : 0) != rest) continue;
        const int lift = shift - rest < spare ? shift - rest : spare;
        order->lifted |= lift > 0;
        order->channel[order->packed] = (int32_t)c;
        order->left_power[order->packed] = (uint8_t)(1 << lift);
        order->right_lifted |= shift - rest - lift > 0;
        order->right_power[order->packed++] = (uint8_t)(1 << (shift - rest - lift));
    }
    for (; order->packed % 4; order->packed++) {
        order->channel[order->packed] = -1;
        order->left_power[order->packed] = order->right_power[order->packed] = 1;
    }
    order->length[part] = order->packed - order->begin[part];
}

static int most_rest(const qs__product *product) {
    int rest = product->shifts - 1 - room_of(product, product->left) - room_of(product, product->right);
    return rest > 0 ? rest : 0;
}

/* Each part is padded to quadruples. */
int64_t qs__packed_most(const qs__product *product, int64_t channels) {
    const int parts = most_rest(product) + 1;
    return (channels + 3 * parts) / 4 * 4;
}

void qs__shift_order_fill(const qs__product *product, int64_t channels, const uint8_t *group, qs__shift_order *order) {
    order->parts = 0;
    order->packed = 0;
    order->lifted = order->right_lifted = false;
    for (int rest = group ? most_rest(product) : 0; rest >= 0; rest--)
        fill_part(product, channels, group, rest, order);
}

/* With one part channels keep their own order; several parts without a shift in the left byte are gathered by the vector kernel. */
void qs__stage_left(const qs__shift_order *order, const qs__products *kernels, bool flip, int64_t pixels, int64_t channels, int64_t stride,
                    const int8_t *src, uint8_t *dst) {
    const bool in_order = order->parts == 1;
    const uint8_t zero = flip ? 0x80 : 0;
    if (!in_order && !order->lifted) {
        /* Rows that stay in a cache at a time: kernels go through them once for every 64 codes of the result. */
        const qs__gather gather = {
            .channel = order->channel, .channels = channels, .packed = order->packed, .stride = stride, .flip = flip};
        const int64_t most = 1 + GATHERED / channels;
        for (int64_t row = 0; row < pixels; row += most)
            kernels->gather(&gather, pixels - row < most ? pixels - row : most, src + row * stride, dst + row * order->packed);
    } else if (in_order && channels == order->packed && channels == stride) {
        for (int64_t pixel = 0; pixel < pixels; pixel += order->repeat) {
            const int64_t some = pixels - pixel < order->repeat ? pixels - pixel : order->repeat, at = pixel * order->packed;
            kernels->lift(some * order->packed, flip, order->powers, src + at, dst + at);
        }
    } else if (in_order && channels >= NARROW) {
        for (int64_t pixel = 0; pixel < pixels; pixel++, src += stride, dst += order->packed) {
            kernels->lift(channels, flip, order->left_power, src, dst);
            memset(dst + channels, zero, (size_t)(order->packed - channels));
        }
    } else {
        for (int64_t pixel = 0; pixel < pixels; pixel++, src += stride, dst += order->packed)
            for (int64_t c = 0; c < order->packed; c++) {
                const int code = order->channel[c] < 0 ? 0 : src[order->channel[c]];
                dst[c] = (uint8_t)(code * order->left_power[c]) ^ zero;
            }
    }
}

/* Products that one sum adds up, at most. */
static double terms(const qs__product *product) {
    double window = (double)(product->size.kernel[0] * product->size.kernel[1]);
    switch (product->pass) {
    case QS__FORWARD:
        return window * (double)(product->size.channels / product->size.groups);
    case QS__INPUT_GRADIENT:
        return window * (double)(product->size.outputs / product->size.groups);
    default:
        return (double)product->size.batch * (double)(product->size.out_height * product->size.out_width);
    }
}

bool qs__product_fits(const qs__product *product) {
    int shifts = product->pass == QS__WEIGHT_GRADIENT ? 1 : product->shifts;
    return terms(product) * product->left->max * product->right->max * (1 << (shifts - 1)) <= INT32_MAX;
}
