// SPDX-License-Identifier: Apache-2.0
/* resnet: He et al. 2016. CIFAR form of depth 6n + 2 (stem 3×3/16, three stages of n basic blocks, 16/32/64 channels; n = 1 is the
 * resnet8 of MLPerf tiny), and ImageNet form (stem 7×7/2 with max pool, or 3×3 for small images, four stages from 64 channels).
 * Where a block changes shape its shortcut is a 1×1 convolution with batch norm (the paper's option B; its CIFAR models used the
 * parameter-free option A, so resnet20 and resnet32 have 2752 parameters more than the paper's). */
#include "layers.h"

enum { MAX_STAGES = 4, EXPANSION = 4 };

typedef struct layout {
    int stages;
    int blocks[MAX_STAGES]; /* per stage */
    int channels;           /* of the first stage, doubled by each next one */
    bool bottleneck;
} layout;

static void conv_norm(qs__builder *builder, int index, int channels, int kernel, int stride) {
    char name[16];
    snprintf(name, sizeof name, "conv%d", index);
    qs__conv(builder, name, channels, kernel, stride, kernel / 2, false);
    snprintf(name, sizeof name, "bn%d", index);
    qs__norm(builder, name);
}

/* The node that the block's sum reads beside its last batch norm: the block's input, or its projection. */
static int shortcut(qs__builder *builder, int input, int channels, int stride) {
    if (builder->status != QS_OK) return input;
    if (stride == 1 && builder->graph->node[input].shape.dim[1] == channels) return input;
    int main_path = builder->at;
    builder->at = input;
    qs__conv(builder, "shortcut.conv", channels, 1, stride, 0, false);
    qs__norm(builder, "shortcut.bn");
    int projection = builder->at;
    builder->at = main_path;
    return projection;
}

/* Two 3×3 convolutions; the first has the stride. */
static void basic_block(qs__builder *builder, int channels, int stride) {
    int input = builder->at;
    conv_norm(builder, 1, channels, 3, stride);
    qs__relu(builder, "relu1");
    conv_norm(builder, 2, channels, 3, 1);
    qs__add(builder, "add", shortcut(builder, input, channels, stride));
    qs__relu(builder, "relu2");
}

/* 1×1, 3×3, 1×1; the 3×3 has the stride, as in every published training since 2016 ("v1.5"). */
static void bottleneck_block(qs__builder *builder, int channels, int stride) {
    int input = builder->at;
    conv_norm(builder, 1, channels, 1, 1);
    qs__relu(builder, "relu1");
    conv_norm(builder, 2, channels, 3, stride);
    qs__relu(builder, "relu2");
    conv_norm(builder, 3, EXPANSION * channels, 1, 1);
    qs__add(builder, "add", shortcut(builder, input, EXPANSION * channels, stride));
    qs__relu(builder, "relu3");
}

static void stages(qs__builder *builder, const layout *form) {
    for (int s = 0; s < form->stages; s++) {
        int channels = qs__channels(builder, form->channels << s);
        for (int i = 0; i < form->blocks[s]; i++) {
            qs__prefix(builder, "stage%d.block%d.", s + 1, i);
            (form->bottleneck ? bottleneck_block : basic_block)(builder, channels, i == 0 && s > 0 ? 2 : 1);
        }
    }
    qs__prefix_none(builder);
    qs__global_average_pool(builder);
    qs__classifier(builder);
}

static void stem(qs__builder *builder, int channels, int kernel, int stride) {
    qs__prefix(builder, "stem.");
    qs__conv(builder, "conv", qs__channels(builder, channels), kernel, stride, kernel / 2, false);
    qs__norm(builder, "bn");
    qs__relu(builder, "relu");
}

void qs__build_resnet_cifar(qs__builder *builder) {
    int blocks = (builder->depth - 2) / 6;
    qs__need_images(builder, 8);
    stem(builder, 16, 3, 1);
    stages(builder, &(layout){.stages = 3, .blocks = {blocks, blocks, blocks}, .channels = 16});
}

static const layout resnet18 = {.stages = 4, .blocks = {2, 2, 2, 2}, .channels = 64};
static const layout resnet50 = {.stages = 4, .blocks = {3, 4, 6, 3}, .channels = 64, .bottleneck = true};

void qs__build_resnet_small_stem(qs__builder *builder) {
    qs__need_images(builder, 8);
    stem(builder, 64, 3, 1);
    stages(builder, &resnet18);
}

void qs__build_resnet(qs__builder *builder) {
    qs__need_images(builder, 32);
    stem(builder, 64, 7, 2);
    qs__max_pool(builder, "pool", 3, 2, 1);
    stages(builder, builder->depth == 18 ? &resnet18 : &resnet50);
}
