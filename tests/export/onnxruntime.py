# SPDX-License-Identifier: Apache-2.0
"""Runs an ONNX file in ONNX Runtime on inputs and compares its logits with those that stand beside them.

    onnxruntime.py MODEL DATA ALLOWED NAME

DATA: tensors one behind the other (tests/export/export_models.h), the last one is the logits. Ends with 1 where the largest difference
beside the largest logit exceeds ALLOWED. The file is checked by the package onnx where that is there."""
import os
import struct
import sys

sys.path = [path for path in sys.path if os.path.abspath(path or ".") != os.path.dirname(os.path.abspath(__file__))]

import numpy  # noqa: E402
import onnxruntime  # noqa: E402


def tensors(path):
    with open(path, "rb") as file:
        data = file.read()
    at = 0
    while at < len(data):
        length, integers, axes = struct.unpack_from("<3i", data, at)
        at += 12
        name = data[at:at + length].decode()
        at += length
        shape = struct.unpack_from("<%dq" % axes, data, at)
        at += 8 * axes
        values = numpy.frombuffer(data, "<i4" if integers else "<f4", int(numpy.prod(shape)), at).reshape(shape)
        at += 4 * values.size
        yield name, values.astype(numpy.int64) if integers else values


def main():
    model, data, allowed, name = sys.argv[1:]
    try:
        import onnx
        onnx.checker.check_model(model, full_check=True)
    except ImportError:
        pass
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    inputs = dict(tensors(data))
    expected = inputs.pop("")
    (got,) = session.run(None, inputs)
    same = got.shape == expected.shape
    difference = float(numpy.abs(got - expected).max() / numpy.abs(expected).max()) if same else float("inf")
    print("%-56s largest difference %.2e of the largest logit %.3g, shape %s" %
          (name, difference, numpy.abs(expected).max(), list(got.shape)), flush=True)
    return 0 if difference <= float(allowed) else 1


sys.exit(main())
