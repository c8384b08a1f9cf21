// SPDX-License-Identifier: Apache-2.0
/* mobilenet_v2: Sandler et al. 2018. Inverted residual blocks: a 1×1 convolution expands the channels, a depthwise 3×3 filters them, a 1×1
 * projects them back without activation; a sum with the block's input where shapes agree. Images below 64×64 get the usual CIFAR form
 * (stem and second stage without stride, so that 32×32 ends as 4×4); larger ones the published strides. Parameters are the same in both. */
#include "layers.h"

enum { STAGES = 7, IMAGENET_SIZE = 64, MINIMUM_SIZE = 8, STEM_CHANNELS = 32, HEAD_CHANNELS = 1280 };

static const struct {
    int expansion, channels, blocks, stride;
} stage_table[STAGES] = {{1, 16, 1, 1}, {6, 24, 2, 2}, {6, 32, 3, 2}, {6, 64, 4, 2}, {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};

static void conv_norm_relu(qs__builder *builder, const char *name, int channels, int kernel, int stride) {
    char text[32];
    snprintf(text, sizeof text, "%s.conv", name);
    qs__conv(builder, text, channels, kernel, stride, kernel / 2, false);
    snprintf(text, sizeof text, "%s.bn", name);
    qs__norm(builder, text);
    snprintf(text, sizeof text, "%s.relu", name);
    qs__relu6(builder, text);
}

static int channels_at(const qs__builder *builder) {
    return builder->status == QS_OK ? (int)builder->graph->node[builder->at].shape.dim[1] : 0;
}

static void block(qs__builder *builder, int expansion, int channels, int stride) {
    int input = builder->at, inputs = channels_at(builder);
    if (expansion != 1) conv_norm_relu(builder, "expand", expansion * inputs, 1, 1);
    qs__depthwise(builder, "depthwise.conv", 3, stride, 1);
    qs__norm(builder, "depthwise.bn");
    qs__relu6(builder, "depthwise.relu");
    qs__conv(builder, "project.conv", channels, 1, 1, 0, false);
    qs__norm(builder, "project.bn");
    if (stride == 1 && inputs == channels) qs__add(builder, "add", input);
}

void qs__build_mobilenet_v2(qs__builder *builder) {
    bool small = builder->input.height < IMAGENET_SIZE || builder->input.width < IMAGENET_SIZE;
    qs__need_images(builder, MINIMUM_SIZE);
    conv_norm_relu(builder, "stem", qs__channels(builder, STEM_CHANNELS), 3, small ? 1 : 2);
    for (int s = 0; s < STAGES; s++) {
        int channels = qs__channels(builder, stage_table[s].channels), stride = small && s == 1 ? 1 : stage_table[s].stride;
        for (int i = 0; i < stage_table[s].blocks; i++) {
            qs__prefix(builder, "stage%d.block%d.", s + 1, i);
            block(builder, stage_table[s].expansion, channels, i == 0 ? stride : 1);
        }
    }
    qs__prefix_none(builder);
    conv_norm_relu(builder, "head", qs__channels(builder, HEAD_CHANNELS), 1, 1);
    qs__global_average_pool(builder);
    qs__classifier(builder);
}
