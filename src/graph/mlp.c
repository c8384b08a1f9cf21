// SPDX-License-Identifier: Apache-2.0
/* mlp: three linear layers, 784-256-128-10 on its standard input; takes images of any size and plain vectors. */
#include "layers.h"

void qs__build_mlp(qs__builder *builder) {
    qs__flatten(builder);
    qs__linear(builder, "fc1", qs__channels(builder, 256));
    qs__relu(builder, "relu1");
    qs__linear(builder, "fc2", qs__channels(builder, 128));
    qs__relu(builder, "relu2");
    qs__classifier(builder);
}
