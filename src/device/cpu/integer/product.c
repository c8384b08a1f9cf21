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

static int least(int a, int b) {
    return a < b ? a : b;
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
        int lift = least(shift - rest, spare);
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

/* Channels in their own order need no gathering. */
static bool in_order(const qs__shift_order *order) {
    return order->parts == 1;
}

static void stage_row(const qs__shift_order *order, uint8_t sign, const int8_t *src, uint8_t *dst) {
    for (int64_t c = 0; c < order->packed; c++) {
        int code = order->channel[c] < 0 ? 0 : src[order->channel[c]];
        dst[c] = (uint8_t)(code * order->left_power[c]) ^ sign;
    }
}

static void stage_lifted(const qs__shift_order *order, const qs__products *kernels, bool flip, int64_t channels, const int8_t *src,
                         uint8_t *dst) {
    kernels->lift(channels, flip, order->left_power, src, dst);
    memset(dst + channels, flip ? 0x80 : 0, (size_t)(order->packed - channels));
}

/* Rows that stay in a cache at a time: kernels go through them once for every 64 codes of the result. */
static void stage_gathered(const qs__shift_order *order, const qs__products *kernels, bool flip, int64_t rows, int64_t channels,
                           int64_t stride, const int8_t *src, uint8_t *dst) {
    const qs__gather gather = {.channel = order->channel, .channels = channels, .packed = order->packed, .stride = stride, .flip = flip};
    const int64_t most = 1 + GATHERED / channels;
    for (int64_t row = 0; row < rows; row += most)
        kernels->gather(&gather, rows - row < most ? rows - row : most, src + row * stride, dst + row * order->packed);
}

static void stage_joined(const qs__shift_order *order, const qs__products *kernels, bool flip, int64_t pixels, const int8_t *src,
                         uint8_t *dst) {
    for (int64_t pixel = 0; pixel < pixels; pixel += order->repeat) {
        const int64_t some = pixels - pixel < order->repeat ? pixels - pixel : order->repeat, at = pixel * order->packed;
        kernels->lift(some * order->packed, flip, order->powers, src + at, dst + at);
    }
}

void qs__stage_left(const qs__shift_order *order, const qs__products *kernels, bool flip, int64_t pixels, int64_t channels, int64_t stride,
                    const int8_t *src, uint8_t *dst) {
    if (!in_order(order) && !order->lifted) {
        stage_gathered(order, kernels, flip, pixels, channels, stride, src, dst);
        return;
    }
    if (in_order(order) && channels == order->packed && channels == stride) {
        stage_joined(order, kernels, flip, pixels, src, dst);
        return;
    }
    for (int64_t pixel = 0; pixel < pixels; pixel++, src += stride, dst += order->packed) {
        if (in_order(order) && channels >= NARROW) {
            stage_lifted(order, kernels, flip, channels, src, dst);
        } else {
            stage_row(order, flip ? 0x80 : 0, src, dst);
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
