# SPDX-License-Identifier: Apache-2.0
"""Peer of `qsync bench --backend cuda`: PyTorch's training steps (forward, loss, backward, update) on the GPU.

usage: peer_cuda.py SECONDS STEPS FORMAT,... CASE...     (CASE: MODEL:BATCH:EXTENT, as resnet50:256:224 or bert/base:64:128)

Models are those of peer_torch.py (channels last, SGD with momentum) and peer_transformer.py (AdamW), whose updates are fused ones. fp32
multiplies in fp32, tf32 in TF32; bf16 and fp16 are by autocast, over parameters in fp32, fp16 with a gradient scaler. The batch lies on the
GPU. Every case as it stands, with cuDNN's own search for the fastest kernels, and compiled (torch.compile): both ways of the first format,
then the others as they stand, then compiled, as far as SECONDS reach: what would run longer is cut off. GPU_WAYS (stands compiled) names
one way alone. Compiling takes minutes of the processor: GPU_WAIT names a file without which nothing is timed. Prints a JSON object a line as it goes: the median step by the GPU's clock. Without a
GPU the CPU does it, to try this out.
"""
import json
import os
import signal
import statistics
import sys
import time

import torch
from torch.nn import functional

import peer_torch
import peer_transformer

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
WARM_UP = 4


class Clock:
    """Marks in the GPU's queue; on a CPU, moments."""

    def __init__(self):
        self.marks = []

    def mark(self):
        if DEVICE == "cuda":
            event = torch.cuda.Event(enable_timing=True)
            event.record()
            self.marks.append(event)
        else:
            self.marks.append(time.perf_counter())

    def wait(self, file):
        if DEVICE == "cuda":
            torch.cuda.synchronize()
        while file and not os.path.exists(file):
            time.sleep(0.1)

    def seconds(self):
        if DEVICE == "cuda":
            torch.cuda.synchronize()
            return [a.elapsed_time(b) / 1e3 for a, b in zip(self.marks, self.marks[1:])]
        return [b - a for a, b in zip(self.marks, self.marks[1:])]


def image_step(name, batch, extent):
    build, size, classes = peer_torch.MODELS[name]
    model = build().to(DEVICE, memory_format=torch.channels_last)
    size = extent or size
    inputs = (torch.randn(batch, 3, size, size, device=DEVICE).to(memory_format=torch.channels_last),)
    labels = torch.randint(0, classes, (batch,), device=DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-4, fused=True)
    return model, inputs, labels, optimizer


def text_step(name, batch, extent):
    model = peer_transformer.build(name, extent).train().to(DEVICE)
    inputs, labels = peer_transformer.batch_of(name, batch, extent)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    return model, tuple(one.to(DEVICE) for one in inputs), labels.to(DEVICE), optimizer


def measure(name, batch, extent, number_format, compiled, steps):
    torch.manual_seed(1)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = number_format == "tf32"
    torch.backends.cudnn.benchmark = True
    make = image_step if name in peer_torch.MODELS else text_step
    model, inputs, labels, optimizer = make(name, batch, extent)
    half = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(number_format)
    scaler = torch.amp.GradScaler(DEVICE, init_scale=1024.0, enabled=number_format == "fp16")
    run = torch.compile(model) if compiled else model
    clock = Clock()
    for step in range(WARM_UP + steps):
        if step == WARM_UP - 2:  # compiled by then
            clock.wait(os.environ.get("GPU_WAIT"))
        if step >= WARM_UP:
            clock.mark()
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(DEVICE, half, enabled=half is not None):
            logits = run(*inputs)
        loss = functional.cross_entropy(logits.float().flatten(0, -2), labels.flatten())
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    clock.mark()
    return statistics.median(clock.seconds())


def out_of_time(number, frame):
    raise TimeoutError("no time left")


def main():
    deadline = time.monotonic() + float(sys.argv[1])
    steps, formats = int(sys.argv[2]), sys.argv[3].split(",")
    cases = [(case.split(":")[0].replace("/", ":"), *map(int, case.split(":")[1:])) for case in sys.argv[4:]]
    signal.signal(signal.SIGALRM, out_of_time)
    if DEVICE == "cuda":
        where = {"torch": torch.__version__, "cudnn": torch.backends.cudnn.version(), "device": torch.cuda.get_device_name()}
    else:
        where = {"torch": torch.__version__, "device": "cpu"}
    first, *others = formats
    plan = [(case, first, False) for case in cases] + [(case, first, True) for case in reversed(cases)]
    plan += [(case, number_format, compiles) for compiles in (False, True) for number_format in others for case in cases]
    ways = os.environ.get("GPU_WAYS", "stands compiled").split()
    plan = [row for row in plan if ("compiled" if row[2] else "stands") in ways]
    for (name, batch, extent), number_format, compiles in plan:
        row = {"model": name, "batch": batch, "extent": extent, "format": number_format, "compiled": compiles, **where}
        begin = time.monotonic()
        try:
            if deadline - begin < 2:
                raise TimeoutError("no time left")
            signal.setitimer(signal.ITIMER_REAL, deadline - begin)
            seconds = measure(name, batch, extent, number_format, compiles, steps)
            row |= {"step_us": seconds * 1e6, "samples_per_s": batch / seconds}
        except Exception as failure:  # of this cell alone
            row["failure"] = f"{type(failure).__name__}: {failure}"[:400]
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        row["took_s"] = round(time.monotonic() - begin, 1)
        if DEVICE == "cuda":
            torch.cuda.empty_cache()
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
