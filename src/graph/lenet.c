// SPDX-License-Identifier: Apache-2.0
/* lenet5: LeCun et al. 1998, with average pooling as there and ReLU in place of tanh. The original sees 32×32 fields, so smaller images
 * (MNIST's 28×28) are padded by 2 on each side; both give the published 400 features in front of the linear layers. */
#include "layers.h"

void qs__build_lenet(qs__builder *builder) {
    const qs_model_input *input = &builder->input;
    qs__need_images(builder, 12);
    bool small = input->height < 32 || input->width < 32;
    qs__conv(builder, "conv1", qs__channels(builder, 6), 5, 1, small ? 2 : 0, true);
    qs__relu(builder, "relu1");
    qs__average_pool(builder, "pool1", 2, 2);
    qs__conv(builder, "conv2", qs__channels(builder, 16), 5, 1, 0, true);
    qs__relu(builder, "relu2");
    qs__average_pool(builder, "pool2", 2, 2);
    qs__flatten(builder);
    qs__linear(builder, "fc1", qs__channels(builder, 120));
    qs__relu(builder, "relu3");
    qs__linear(builder, "fc2", qs__channels(builder, 84));
    qs__relu(builder, "relu4");
    qs__classifier(builder);
}
