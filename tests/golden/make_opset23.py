# SPDX-License-Identifier: Apache-2.0
"""A small model of the operators that opset 23 of ONNX brought, for tests of the import.

    python make_opset23.py FILE

Needs onnx and numpy; make_onnx.py then computes what it gives. Grouped keys and rotations of heads that lie side by side, of channels in both
orders of pairs; of four axes with a mask, another scale, and keys behind the queries that causality hides.
"""
import sys

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

LENGTH = 6


def main():
    random = np.random.default_rng(23)
    initializers, nodes = [], []

    def number(name, value):
        initializers.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def matrix(name, *extent):
        return number(name, random.normal(0, 0.3, extent).astype(np.float32))

    def node(op, inputs, output, **attributes):
        nodes.append(helper.make_node(op, inputs, [output], **attributes))
        return output

    def apart(x, heads, width, output):
        cut = node("Reshape", [x, number(output + ".extents", np.array([0, 0, heads, width]))], output + ".cut")
        return node("Transpose", [cut], output, perm=[0, 2, 1, 3])

    angles = np.arange(16)[:, None] * 10000.0 ** (-np.arange(2) / 2)[None]
    cosine, sine = number("cosine", np.cos(angles).astype(np.float32)), number("sine", np.sin(angles).astype(np.float32))
    rows = node("Shape", ["x"], "rows", start=0, end=1)
    both = node("Concat", [rows, number("length", np.array([LENGTH]))], "both", axis=0)
    places = node("Expand", [number("range", np.arange(LENGTH)[None]), both], "places")

    # Side by side: six heads of four channels read two, whose values have six.
    h = node("RMSNormalization", ["x", matrix("norm.weight", 24)], "h", axis=-1, epsilon=1e-5)
    q = node("RotaryEmbedding", [node("MatMul", [h, matrix("q.weight", 24, 24)], "q"), cosine, sine, places], "q.turned", num_heads=6)
    k = node("RotaryEmbedding", [node("MatMul", [h, matrix("k.weight", 24, 8)], "k"), cosine, sine, places], "k.turned", num_heads=2)
    v = node("MatMul", [h, matrix("v.weight", 24, 12)], "v")
    a = node("Attention", [q, k, v], "a", q_num_heads=6, kv_num_heads=2, is_causal=1)
    x = node("Add", ["x", node("MatMul", [a, matrix("o.weight", 36, 24)], "o")], "sum")

    # Four axes; pairs are neighbours.
    q = apart(node("MatMul", [x, matrix("q2.weight", 24, 16)], "q2"), 4, 4, "q2.heads")
    k = apart(node("MatMul", [x, matrix("k2.weight", 24, 16)], "k2"), 4, 4, "k2.heads")
    v = apart(node("MatMul", [x, matrix("v2.weight", 24, 16)], "v2"), 4, 4, "v2.heads")
    q = node("RotaryEmbedding", [q, cosine, sine, places], "q2.turned", interleaved=1)
    k = node("RotaryEmbedding", [k, cosine, sine, places], "k2.turned", interleaved=1)
    mask = number("mask", np.tril(np.ones((LENGTH, LENGTH), bool)))
    a = node("Attention", [q, k, v, mask], "a2", scale=0.3)

    # Fewer queries than keys: the first four positions of what was found, which see four keys.
    first = node("Slice", [a] + [number(n, np.array([i])) for n, i in (("zero", 0), ("four", 4), ("axis", 2))], "first")
    a = node("Attention", [first, k, v], "a3", is_causal=1)
    flat = node("Reshape", [node("Transpose", [a], "back", perm=[0, 2, 1, 3]), number("joined", np.array([0, 0, 16]))], "flat")
    node("MatMul", [flat, matrix("head.weight", 16, 5)], "logits")
    graph = helper.make_graph(nodes, "opset23", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", LENGTH, 24])],
                              [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 4, 5])], initializers)
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10), sys.argv[1])


if __name__ == "__main__":
    main()
