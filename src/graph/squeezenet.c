// SPDX-License-Identifier: Apache-2.0
/* squeezenet: Iandola et al. 2016, version 1.0. A fire module squeezes the channels by a 1×1 convolution and expands them by a 1×1 and a
 * 3×3 one side by side, whose results are joined. As usual where it is trained on small images: batch norm behind each convolution (without
 * it training from scratch needs small rates), a 3×3 stem, 2×2 pools. The stem has a stride from 64×64 on. The last 1×1 convolution and the
 * mean behind it commute, as both are linear: the mean comes first and the convolution is the classifier. */
#include "layers.h"

enum { FIRES = 8, STEM_CHANNELS = 96, IMAGENET_SIZE = 64, MINIMUM_SIZE = 8 };

/* `expand` channels of each kind; a pool stands in front where `pooled`. */
static const struct {
    int squeeze, expand;
    bool pooled;
} fires[FIRES] = {{16, 64, true},   {16, 64, false},  {32, 128, false}, {32, 128, true},
                  {48, 192, false}, {48, 192, false}, {64, 256, false}, {64, 256, true}};

static void conv_norm_relu(qs__builder *builder, const char *name, int channels, int kernel, int stride) {
    char text[32];
    snprintf(text, sizeof text, "%s.conv", name);
    qs__conv(builder, text, channels, kernel, stride, kernel / 2, false);
    snprintf(text, sizeof text, "%s.bn", name);
    qs__norm(builder, text);
    snprintf(text, sizeof text, "%s.relu", name);
    qs__relu(builder, text);
}

static void fire(qs__builder *builder, int squeeze, int expand) {
    conv_norm_relu(builder, "squeeze", squeeze, 1, 1);
    const int squeezed = builder->at;
    conv_norm_relu(builder, "expand1", expand, 1, 1);
    const int narrow = builder->at;
    builder->at = squeezed;
    conv_norm_relu(builder, "expand3", expand, 3, 1);
    qs__concat(builder, "concat", narrow);
}

void qs__build_squeezenet(qs__builder *builder) {
    const bool small = builder->input.height < IMAGENET_SIZE || builder->input.width < IMAGENET_SIZE;
    qs__need_images(builder, MINIMUM_SIZE);
    conv_norm_relu(builder, "stem", qs__channels(builder, STEM_CHANNELS), 3, small ? 1 : 2);
    for (int i = 0; i < FIRES; i++) {
        qs__prefix(builder, "fire%d.", i + 2);
        if (fires[i].pooled) qs__max_pool(builder, "pool", 2, 2, 0);
        fire(builder, qs__channels(builder, fires[i].squeeze), qs__channels(builder, fires[i].expand));
    }
    qs__prefix_none(builder);
    qs__global_average_pool(builder);
    qs__classifier(builder);
}
