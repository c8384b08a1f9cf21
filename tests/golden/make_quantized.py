# SPDX-License-Identifier: Apache-2.0
"""Small models as ONNX Runtime's quantizer writes them (quantize_static, QDQ), for tests of the import.

    python make_quantized.py FOLDER

Needs torch, onnx, onnxscript and onnxruntime. Beside each model NAME.onnx stands NAME-plain.onnx, which the tests do not read: the float model
of the same weights, values left unrounded. make_onnx.py computes what that gives; the import of NAME.onnx must give the same. A pair
whose codes begin at 0 stands in the place of a relu there, as the quantizer leaves these out.
"""
import os
import sys
import warnings

import numpy as np
import onnx
import onnxruntime.quantization as quantization
import torch
from make_exports import shaken
from onnx import numpy_helper

warnings.filterwarnings("ignore")


class Convolutions(torch.nn.Module):
    """Convolutions of each kind with their activations, sums, pools and a head."""

    def __init__(self):
        super().__init__()
        nn = torch.nn
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU6())
        self.deep = nn.Sequential(nn.Conv2d(8, 8, 3, 1, 1, groups=8), nn.ReLU(), nn.Conv2d(8, 8, 1))
        self.head = nn.Sequential(nn.MaxPool2d(2), nn.Conv2d(8, 12, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(12, 7))

    def forward(self, x):
        x = 4 * self.stem(x)
        return torch.softmax(self.head(x + self.deep(x)), 1)


class Samples(quantization.CalibrationDataReader):
    def __init__(self, name, samples):
        self.rest = iter([{name: sample} for sample in samples])

    def get_next(self):
        return next(self.rest, None)


def plain(model):
    """The model without rounding of values: those of a pair are what goes into it, or a relu of that."""
    constants = {one.name: numpy_helper.to_array(one) for one in model.graph.initializer}
    outputs = {one.name for one in model.graph.output}
    makers = {name: node for node in model.graph.node for name in node.output}
    nodes = []
    for node in model.graph.node:
        down = makers.get(node.input[0]) if node.op_type == "DequantizeLinear" else None
        if down is not None and down.op_type == "QuantizeLinear" and down.input[0] not in constants:
            if down.input[0] in makers and node.output[0] in outputs:  # a softmax at the end is never negative
                makers[down.input[0]].output[:] = node.output
                continue
            zero = constants[down.input[2]]
            bounded = zero.flat[0] == np.iinfo(zero.dtype).min
            node = onnx.helper.make_node("Relu" if bounded else "Identity", [down.input[0]], node.output)
        if node.op_type != "QuantizeLinear" or node.input[0] in constants:
            nodes.append(node)
    out = onnx.ModelProto()
    out.CopyFrom(model)
    del out.graph.node[:]
    out.graph.node.extend(nodes)
    return out


def main():
    torch.manual_seed(24)
    model = shaken(Convolutions()).eval()
    path = [os.path.join(sys.argv[1], name) for name in ("float.onnx", "quantized.onnx", "quantized-plain.onnx")]
    torch.onnx.export(model, (torch.randn(2, 3, 16, 16),), path[0], dynamo=False, opset_version=17, input_names=["image"],
                      dynamic_axes={"image": {0: "batch"}})
    samples = [np.random.default_rng(i).uniform(-0.5, 0.5, (8, 3, 16, 16)).astype(np.float32) for i in range(4)]
    quantization.quantize_static(path[0], path[1], Samples("image", samples), quant_format=quantization.QuantFormat.QDQ, per_channel=True,
                                 activation_type=quantization.QuantType.QUInt8, weight_type=quantization.QuantType.QInt8)
    file = onnx.load(path[1])
    del file.graph.value_info[:]
    onnx.save(file, path[1])
    onnx.save(plain(file), path[2])
    os.remove(path[0])


if __name__ == "__main__":
    main()
