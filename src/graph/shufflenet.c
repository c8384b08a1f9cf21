// SPDX-License-Identifier: Apache-2.0
/* shufflenet_v2: Ma et al. 2018, complexity 1×. A unit without stride passes half of its channels on as they are and filters the other
 * half (1×1, depthwise 3×3, 1×1); a unit with one filters all of them on two paths. The halves are joined and their channels interleaved,
 * so that the next unit filters channels of both. Images below 64×64 get the usual CIFAR form (stem without stride, no pool behind it);
 * parameters are the same in both. */
#include "layers.h"

enum { STAGES = 3, STEM_CHANNELS = 24, HEAD_CHANNELS = 1024, IMAGENET_SIZE = 64, MINIMUM_SIZE = 8 };

/* `half` of a stage's channels is what one path carries. */
static const struct { int half, units; } stage_table[STAGES] = {{58, 4}, {116, 8}, {232, 4}};

static void conv_norm(qs__builder *builder, const char *name, int channels) {
    char text[32];
    snprintf(text, sizeof text, "%s.conv", name);
    qs__conv(builder, text, channels, 1, 1, 0, false);
    snprintf(text, sizeof text, "%s.bn", name);
    qs__norm(builder, text);
    snprintf(text, sizeof text, "%s.relu", name);
    qs__relu(builder, text);
}

static void depthwise_norm(qs__builder *builder, const char *name, int stride) {
    char text[32];
    snprintf(text, sizeof text, "%s.conv", name);
    qs__depthwise(builder, text, 3, stride, 1);
    snprintf(text, sizeof text, "%s.bn", name);
    qs__norm(builder, text);
}

/* The path that filters, from the node at hand. */
static void filter(qs__builder *builder, int half, int stride) {
    conv_norm(builder, "expand", half);
    depthwise_norm(builder, "depthwise", stride);
    conv_norm(builder, "project", half);
}

static void unit(qs__builder *builder, int half, int stride) {
    const int input = builder->at;
    if (stride == 1) {
        qs__slice(builder, "passed", 0, half);
    } else {
        depthwise_norm(builder, "shortcut.depthwise", stride);
        conv_norm(builder, "shortcut.project", half);
    }
    const int other = builder->at;
    builder->at = input;
    if (stride == 1) qs__slice(builder, "filtered", half, half);
    filter(builder, half, stride);
    qs__concat(builder, "concat", other);
    qs__channel_shuffle(builder, "shuffle", 2);
}

void qs__build_shufflenet_v2(qs__builder *builder) {
    const bool small = builder->input.height < IMAGENET_SIZE || builder->input.width < IMAGENET_SIZE;
    qs__need_images(builder, MINIMUM_SIZE);
    qs__prefix(builder, "stem.");
    qs__conv(builder, "conv", qs__channels(builder, STEM_CHANNELS), 3, small ? 1 : 2, 1, false);
    qs__norm(builder, "bn");
    qs__relu(builder, "relu");
    if (!small) qs__max_pool(builder, "pool", 3, 2, 1);
    for (int s = 0; s < STAGES; s++) {
        const int half = qs__channels(builder, stage_table[s].half);
        for (int i = 0; i < stage_table[s].units; i++) {
            qs__prefix(builder, "stage%d.unit%d.", s + 2, i);
            unit(builder, half, i == 0 ? 2 : 1);
        }
    }
    qs__prefix_none(builder);
    conv_norm(builder, "head", qs__channels(builder, HEAD_CHANNELS));
    qs__global_average_pool(builder);
    qs__classifier(builder);
}
