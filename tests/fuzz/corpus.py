# SPDX-License-Identifier: Apache-2.0
"""Models to begin fuzzing with: real ones, made small.

    python corpus.py FOLDER MODEL ...

Writes each model to FOLDER with the values of its large real tensors taken out: ConstantOfShape nodes fill them, so that nodes, names and
shapes stay and a file has a few kilobytes. Needs numpy and onnx.
"""
import os
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SMALLEST = 32  # elements of a tensor that is taken out


def filled(name, shape, node_name):
    value = helper.make_tensor("value", TensorProto.FLOAT, [1], [0.01])
    extents = numpy_helper.from_array(np.asarray(shape, np.int64), name + "_extents")
    return extents, helper.make_node("ConstantOfShape", [extents.name], [name], name=node_name, value=value)


def shrink(model):
    graph, nodes, kept = model.graph, [], []
    for tensor in graph.initializer:
        if tensor.data_type == TensorProto.FLOAT and np.prod(tensor.dims) >= SMALLEST:
            extents, node = filled(tensor.name, tensor.dims, "")
            kept.append(extents)
            nodes.append(node)
        else:
            kept.append(tensor)
    for node in graph.node:
        large = [one.t for one in node.attribute if node.op_type == "Constant" and one.type == onnx.AttributeProto.TENSOR
                 and one.t.data_type == TensorProto.FLOAT and np.prod(one.t.dims) >= SMALLEST]
        if large:
            extents, node = filled(node.output[0], large[0].dims, node.name)
            kept.append(extents)
        nodes.append(node)
    names = {tensor.name for tensor in kept}
    inputs = [one for one in graph.input if one.name in names or not any(one.name in node.output for node in nodes)]
    del graph.node[:], graph.initializer[:], graph.input[:], graph.value_info[:]
    graph.node.extend(nodes)
    graph.initializer.extend(kept)
    graph.input.extend(inputs)


def main():
    folder = sys.argv[1]
    for number, path in enumerate(sys.argv[2:]):
        model = onnx.load(path, load_external_data=False)
        shrink(model)
        with open(os.path.join(folder, "%03d-%s" % (number, os.path.basename(path))), "wb") as file:
            file.write(model.SerializeToString())


main()
