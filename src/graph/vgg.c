// SPDX-License-Identifier: Apache-2.0
/* vgg: Simonyan and Zisserman 2015, configurations A (11) and D (16), plain or with batch norm behind each convolution (which then has
 * no bias). Images of 64×64 and more get the two hidden layers of 4096 with dropout (the published model at 224×224); smaller ones the
 * usual CIFAR form, one linear layer behind the features. The fifth pool is left out where the map is 1 wide already (28×28). */
#include "layers.h"

enum { STAGES = 5, IMAGENET_SIZE = 64, MINIMUM_SIZE = 16 };

static const int convolutions_11[STAGES] = {1, 1, 2, 2, 2};
static const int convolutions_16[STAGES] = {2, 2, 3, 3, 3};
static const int stage_channels[STAGES] = {64, 128, 256, 512, 512};

static void stage(qs__builder *builder, int index, int convolutions, bool batch_norm) {
    qs__prefix(builder, "stage%d.", index + 1);
    for (int i = 1; i <= convolutions; i++) {
        char name[16];
        snprintf(name, sizeof name, "conv%d", i);
        qs__conv(builder, name, qs__channels(builder, stage_channels[index]), 3, 1, 1, !batch_norm);
        snprintf(name, sizeof name, "bn%d", i);
        if (batch_norm) qs__norm(builder, name);
        snprintf(name, sizeof name, "relu%d", i);
        qs__relu(builder, name);
    }
    if (builder->status != QS_OK) return;
    const qs_shape *map = &builder->graph->node[builder->at].shape;
    if (map->dim[2] > 1 && map->dim[3] > 1) qs__max_pool(builder, "pool", 2, 2, 0);
}

static void hidden_layers(qs__builder *builder) {
    qs__linear(builder, "fc1", qs__channels(builder, 4096));
    qs__relu(builder, "relu1");
    qs__dropout(builder, "dropout1");
    qs__linear(builder, "fc2", qs__channels(builder, 4096));
    qs__relu(builder, "relu2");
    qs__dropout(builder, "dropout2");
}

static void build(qs__builder *builder, bool batch_norm) {
    qs__need_images(builder, MINIMUM_SIZE);
    const int *convolutions = builder->depth == 11 ? convolutions_11 : convolutions_16;
    for (int i = 0; i < STAGES; i++) {
        stage(builder, i, convolutions[i], batch_norm);
    }
    qs__prefix_none(builder);
    qs__flatten(builder);
    if (builder->input.height >= IMAGENET_SIZE && builder->input.width >= IMAGENET_SIZE) hidden_layers(builder);
    qs__classifier(builder);
}

void qs__build_vgg(qs__builder *builder) {
    build(builder, false);
}

void qs__build_vgg_bn(qs__builder *builder) {
    build(builder, true);
}
