# SPDX-License-Identifier: Apache-2.0
"""Peer of `qsync-bench norm`: microseconds of PyTorch's batch norm in training, forward and backward, channels last, the least of all rounds.

usage: norm_torch.py ROUNDS THREADS
Prints JSON {"SHAPE.FORMAT": {"forward": us, "backward": us}} for the shapes of src/bench/norm.c. Backward is taken with the gradients of
weight and bias.
"""
import json
import sys
import time

import torch

SHAPES = {"resnet20.stage1": (128, 16, 32), "resnet20.stage3": (128, 64, 8), "vgg11_bn.block1": (128, 64, 32),
          "resnet18.stage2": (16, 128, 16), "mobilenet_v2.head": (128, 1280, 4)}
FORMATS = {"fp32": torch.float32, "bf16": torch.bfloat16}


def measure(batch, channels, size, dtype, rounds):
    norm = torch.nn.BatchNorm2d(channels)
    x = torch.randn(batch, channels, size, size).to(dtype).contiguous(memory_format=torch.channels_last).requires_grad_()
    gradient = torch.randn(batch, channels, size, size).to(dtype).contiguous(memory_format=torch.channels_last)
    best = [float("inf"), float("inf")]
    for _ in range(rounds + 2):
        x.grad = norm.weight.grad = norm.bias.grad = None
        start = time.perf_counter()
        y = norm(x)
        middle = time.perf_counter()
        y.backward(gradient)
        best = [min(best[0], middle - start), min(best[1], time.perf_counter() - middle)]
    return {"forward": best[0] * 1e6, "backward": best[1] * 1e6}


def main():
    rounds = int(sys.argv[1])
    torch.set_num_threads(int(sys.argv[2]))
    torch.manual_seed(1)
    print(json.dumps({f"{name}.{label}": measure(*shape, dtype, rounds)
                      for name, shape in SHAPES.items() for label, dtype in FORMATS.items()}))


main()
