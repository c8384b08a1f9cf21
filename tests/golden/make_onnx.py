# SPDX-License-Identifier: Apache-2.0
"""Outputs of ONNX models by ONNX Runtime, for tests of the import (tests/kit/outputs.h reads them).

    python make_onnx.py OUT.json ROOT MODEL[:OPTIONS] ...

Models are paths below ROOT, with the options that the import takes; "plain=" before one: its masks and types join its ids. Needs numpy, onnx and onnxruntime. Every input is made of a formula
that the test knows too; of each output at most 64 values are kept, evenly spread, with the largest magnitude of all.
"""
import json
import os
import sys

import numpy as np
import onnx
import onnxruntime


def real(count):
    """Numbers from -0.5 to 0.5 that 24 bits hold."""
    i = np.arange(count, dtype=np.uint64)
    return ((((i * 2654435761) & 0xFFFFFFFF) >> 8).astype(np.float64) / (1 << 24) - 0.5).astype(np.float32)


def integers(name, length, plain):
    """Ids, which positions count, token types; `plain`: all positions count, and are of type 0."""
    i = np.arange(length)
    if plain and "mask" in name:
        return np.ones_like(i)
    if plain and "type" in name:
        return np.zeros_like(i)
    if "position" in name:
        return i
    if "mask" in name:
        return (i < length - length // 4).astype(np.int64)
    if "type" in name or "segment" in name:
        return i % 2
    return 5 + i * 7 % 11


def main():
    out, root, models = sys.argv[1], sys.argv[2], sys.argv[3:]
    rows = []
    for text in models:
        plain = text.startswith("plain=")
        text = text.removeprefix("plain=")
        path, _, said = text.partition(".onnx:")
        path += "" if path.endswith(".onnx") else ".onnx"
        options = dict(one.rsplit("=", 1) for one in said.split(",")) if said else {}
        model = onnx.load(os.path.join(root, path), load_external_data=False)
        settings = onnxruntime.SessionOptions()
        settings.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        settings.log_severity_level = 3
        session = onnxruntime.InferenceSession(os.path.join(root, path), settings, providers=["CPUExecutionProvider"])
        feed = {}
        for one in session.get_inputs():
            shape = []
            for axis, extent in enumerate(one.shape):
                if axis == 0:
                    extent = 1
                elif not isinstance(extent, int) or extent < 1:
                    extent = int(options.get(str(extent), options.get("%s:%d" % (one.name, axis), options.get("length", 0))))
                shape.append(extent)
            count = int(np.prod(shape))
            if "float" in one.type:
                feed[one.name] = real(count).reshape(shape).astype(np.float16 if "16" in one.type else np.float32)
            else:
                feed[one.name] = integers(one.name, count, plain).reshape(shape).astype(np.int32 if "32" in one.type else np.int64)
        names = [one.name for one in session.get_outputs()]
        wanted = options.get("output")
        values = session.run(None, feed)
        if wanted:
            value = values[names.index(wanted)]
        elif len(values) == 2 and values[0].shape == values[1].shape and values[0].ndim == 2 and values[0].shape[1] > 2:
            value = np.stack(values[:2], -1)
            wanted = names[0]
        else:
            value = values[0]
            wanted = names[0]
        last = [node.op_type for node in model.graph.node if wanted in node.output]
        flat = np.asarray(value, np.float64).reshape(-1)
        every = max(1, len(flat) // 64)
        rows.append({"model": text, "ends": last[0] if last else "", "classes": int(max(value.shape[-1], value.shape[1] if value.ndim == 4 else 1)), "count": len(flat), "every": every,
                     "largest": float(np.abs(flat).max()), "values": [float("%.9g" % v) for v in flat[::every][:64]]})
        print(text, value.shape, flat[:3])
    with open(out, "w") as file:
        file.write("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")


main()
