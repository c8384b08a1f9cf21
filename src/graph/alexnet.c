// SPDX-License-Identifier: Apache-2.0
/* alexnet: the one-column form (Krizhevsky 2014) with torchvision's layers. Its 6×6 map in front of the linear layers holds at 224×224;
 * other sizes have linear layers of their own size. */
#include "layers.h"

static void features(qs__builder *builder) {
    qs__conv(builder, "conv1", qs__channels(builder, 64), 11, 4, 2, true);
    qs__relu(builder, "relu1");
    qs__max_pool(builder, "pool1", 3, 2, 0);
    qs__conv(builder, "conv2", qs__channels(builder, 192), 5, 1, 2, true);
    qs__relu(builder, "relu2");
    qs__max_pool(builder, "pool2", 3, 2, 0);
    qs__conv(builder, "conv3", qs__channels(builder, 384), 3, 1, 1, true);
    qs__relu(builder, "relu3");
    qs__conv(builder, "conv4", qs__channels(builder, 256), 3, 1, 1, true);
    qs__relu(builder, "relu4");
    qs__conv(builder, "conv5", qs__channels(builder, 256), 3, 1, 1, true);
    qs__relu(builder, "relu5");
    qs__max_pool(builder, "pool5", 3, 2, 0);
}

void qs__build_alexnet(qs__builder *builder) {
    qs__need_images(builder, 63); /* 63 -> conv1 15 -> pool1 7 -> pool2 3 -> pool5 1 */
    features(builder);
    qs__flatten(builder);
    qs__dropout(builder, "dropout1");
    qs__linear(builder, "fc1", qs__channels(builder, 4096));
    qs__relu(builder, "relu6");
    qs__dropout(builder, "dropout2");
    qs__linear(builder, "fc2", qs__channels(builder, 4096));
    qs__relu(builder, "relu7");
    qs__classifier(builder);
}
