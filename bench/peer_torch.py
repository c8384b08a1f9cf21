# SPDX-License-Identifier: Apache-2.0
"""Peer of `qsync bench`: images per second of a PyTorch training step (forward, loss, backward, SGD with momentum) on the CPU.

usage: peer_torch.py MODEL FORMAT BATCH THREADS [SIZE]    (FORMAT fp32, bf16; SIZE of the images, 32 or what is said below)
       peer_torch.py --parameters MODEL
MODEL is resnet8, resnet20, vgg11_bn or mobilenet_v2 (CIFAR forms, 10 classes), or resnet18 or resnet50 (ImageNet forms, 1000 classes, SIZE 224).
Prints one number: batch over the median step time, or the number of trained parameters. Channels-last memory; bf16 by autocast. Gradients are
dropped or zeroed between steps, parameters updated all at once or one by one: a few steps of each pairing tell which is the fastest, and that one is
then measured anew, so that the choice does not favour a lucky minute.
"""
import itertools
import statistics
import sys
import time

import torch
from torch import nn
from torch.nn import functional


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.shortcut = nn.Sequential()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = functional.relu(self.bn1(self.conv1(x)))
        return functional.relu(self.bn2(self.conv2(y)) + self.shortcut(x))


def resnet(blocks):
    layers, inputs = [nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU()], 16
    for stage, width in enumerate((16, 32, 64)):
        for block in range(blocks):
            layers.append(Block(inputs, width, 2 if stage and not block else 1))
            inputs = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


class Bottleneck(nn.Module):
    """1x1, 3x3 with the stride, 1x1 to four times the width."""

    def __init__(self, inputs, width, stride):
        super().__init__()
        outputs = 4 * width
        self.layers = nn.Sequential(
            nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, outputs, 1, bias=False), nn.BatchNorm2d(outputs),
        )
        self.shortcut = nn.Sequential()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        return functional.relu(self.layers(x) + self.shortcut(x))


def imagenet_resnet(make_block, expansion, blocks):
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for stage, count in enumerate(blocks):
        width = 64 << stage
        for block in range(count):
            layers.append(make_block(inputs, width, 2 if stage and not block else 1))
            inputs = expansion * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 1000))


def vgg11_bn():
    layers, inputs = [], 3
    for width in (64, 0, 128, 0, 256, 256, 0, 512, 512, 0, 512, 512, 0):
        if width == 0:
            layers.append(nn.MaxPool2d(2))
        else:
            layers += [nn.Conv2d(inputs, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
            inputs = width
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(512, 10))


class ReLU6(nn.ReLU6):
    """PyTorch 1.13 has no backward of it in bf16: there a plain ReLU stands in, which is cheaper."""

    def forward(self, x):
        return functional.relu(x) if x.dtype == torch.bfloat16 else super().forward(x)


class Inverted(nn.Module):
    def __init__(self, inputs, outputs, stride, expansion):
        super().__init__()
        hidden = inputs * expansion
        expand = [nn.Conv2d(inputs, hidden, 1, bias=False), nn.BatchNorm2d(hidden), ReLU6()] if expansion != 1 else []
        self.layers = nn.Sequential(
            *expand,
            nn.Conv2d(hidden, hidden, 3, stride, 1, groups=hidden, bias=False), nn.BatchNorm2d(hidden), ReLU6(),
            nn.Conv2d(hidden, outputs, 1, bias=False), nn.BatchNorm2d(outputs),
        )
        self.skip = stride == 1 and inputs == outputs

    def forward(self, x):
        return x + self.layers(x) if self.skip else self.layers(x)


def mobilenet_v2():
    layers, inputs = [nn.Conv2d(3, 32, 3, 1, 1, bias=False), nn.BatchNorm2d(32), ReLU6()], 32
    for expansion, width, blocks, stride in (
        (1, 16, 1, 1), (6, 24, 2, 1), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)
    ):
        for block in range(blocks):
            layers.append(Inverted(inputs, width, 1 if block else stride, expansion))
            inputs = width
    layers += [nn.Conv2d(320, 1280, 1, bias=False), nn.BatchNorm2d(1280), ReLU6()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1280, 10))


# Builder, size of the images, classes.
MODELS = {
    "resnet8": (lambda: resnet(1), 32, 10),
    "resnet20": (lambda: resnet(3), 32, 10),
    "resnet18": (lambda: imagenet_resnet(Block, 1, (2, 2, 2, 2)), 224, 1000),
    "resnet50": (lambda: imagenet_resnet(Bottleneck, 4, (3, 4, 6, 3)), 224, 1000),
    "vgg11_bn": (vgg11_bn, 32, 10),
    "mobilenet_v2": (mobilenet_v2, 32, 10),
}


def parameters(name):
    return sum(values.numel() for values in MODELS[name][0]().parameters())


# Gradients dropped (or zeroed), parameters updated all at once (or one by one).
PAIRINGS = tuple(itertools.product((True, False), repeat=2))


def median_step(name, number_format, batch, size, pairing, steps):
    build, own_size, classes = MODELS[name]
    size = size or own_size
    drop, at_once = pairing
    torch.manual_seed(1)
    model = build().to(memory_format=torch.channels_last)
    images = torch.randn(batch, 3, size, size).to(memory_format=torch.channels_last)
    labels = torch.randint(0, classes, (batch,))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-4, foreach=at_once)
    times = []
    for step in range(3 + steps):
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=drop)
        with torch.autocast("cpu", torch.bfloat16, enabled=number_format == "bf16"):
            loss = functional.cross_entropy(model(images).float(), labels)
        loss.backward()
        optimizer.step()
        if step >= 3:
            times.append(time.perf_counter() - start)
    return statistics.median(times)


def samples_per_second(name, number_format, batch, size):
    def measure(pairing, steps):
        return median_step(name, number_format, batch, size, pairing, steps)

    fastest = min(PAIRINGS, key=lambda pairing: measure(pairing, 5))
    return batch / measure(fastest, 12)


def main():
    if sys.argv[1] == "--parameters":
        print(parameters(sys.argv[2]))
        return
    name, number_format, batch, threads = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    torch.set_num_threads(threads)
    print(samples_per_second(name, number_format, batch, int(sys.argv[5]) if len(sys.argv) > 5 else 0))


if __name__ == "__main__":
    main()
