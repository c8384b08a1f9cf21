# SPDX-License-Identifier: Apache-2.0
"""Gradients by PyTorch of the models that make_exports.py exports, for tests/onnx/gradients.c.

    python make_gradients.py FOLDER [MODEL ...]

Needs what make_exports.py needs, and onnx. For each FOLDER/MODEL.onnx that it made it writes FOLDER/MODEL.gradients, a safetensors file.
Its tensors have the names of the file's initializers, and hold the norm of the gradient and then every stride-th element of it, in the
file's order of values, where the stride is the next odd number from count / KEPT on. An initializer that PyTorch calls otherwise is known
by its values, as they are or transposed; of two copies of one parameter the one with the parameter's name is told. A matrix that the
exporter turned and called onnx::MatMul_N has the name and the order of the module, which the import finds again. "loss" and "seed" are one
number each.

Inputs and labels come from the hash of make_step.py by their names and the seed. As there a seed is taken whose step keeps clear of
branches.
"""
import json
import math
import os
import struct
import sys

import numpy as np
import onnx
import onnx.numpy_helper
import torch
import torch.nn.functional as F
from make_exports import LENGTH, Outputs, models
from make_step import MARGIN, bits, uniform

BATCH, KEPT = 4, 512
# Batch norms, or tables of positions, are folded in these files: their weights are computed from parameters. In RoBERTa's
# the row of token types, which the import expands to all positions, trains as many rows, and two rows of positions are left out.
# ONNX's tensors of recurrent networks are several of PyTorch's.
LEFT_OUT = ("gated", "swin", "roberta-class", "lstm-folded")
SPAN, TOKENS = ("bert-span",), ("bert-tokens", "gpt2-tokens", "llama-old")


def watch(model, margin):
    """Hooks that let margin[0] shrink to the closest call at a bend or in a max pool."""
    nn = torch.nn
    bends = {nn.ReLU: (0,), nn.Hardswish: (-3, 3), nn.Hardsigmoid: (-3, 3)}

    def bend(module, inputs):
        for at in bends[type(module)]:
            margin[0] = min(margin[0], (inputs[0].detach() - at).abs().min().item())

    def pool(module, inputs):
        windows = F.unfold(inputs[0].detach().flatten(0, 1).unsqueeze(1), module.kernel_size, 1, module.padding, module.stride)
        top = windows.topk(2, 1).values
        margin[0] = min(margin[0], (top[:, 0] - top[:, 1])[top[:, 0] > 0].min().item())

    modules = [one for one in model.modules() if type(one) in bends or isinstance(one, nn.MaxPool2d)]
    return [one.register_forward_pre_hook(bend if type(one) in bends else pool) for one in modules]


def integers(seed, name, count, modulus):
    return torch.from_numpy((bits(seed, name, count) % np.uint32(modulus)).astype(np.int64))


def input_of(name, example, seed):
    if name == "image":
        shape = (BATCH, *example.shape[1:])
        return torch.from_numpy(4 * uniform(seed, name, math.prod(shape)).reshape(shape))
    if name == "attention_mask":
        return (torch.arange(LENGTH) < LENGTH - 2 * torch.arange(BATCH)[:, None]).long()
    ids = integers(seed, name, BATCH * LENGTH, 2 if name == "token_type_ids" else 11)
    return (ids if name == "token_type_ids" else 5 + ids).reshape(BATCH, LENGTH)


def loss_of(name, out, seed):
    if name in SPAN:
        labels = integers(seed, "labels", 2 * BATCH, LENGTH).reshape(BATCH, 2)
        return (F.cross_entropy(out[0], labels[:, 0]) + F.cross_entropy(out[1], labels[:, 1])) / 2
    if name in TOKENS:
        labels = integers(seed, "labels", BATCH * LENGTH, out.shape[-1])
        labels[4::5] = -100
        return F.cross_entropy(out.flatten(0, 1), labels)
    return F.cross_entropy(out, integers(seed, "labels", BATCH, out.shape[-1]))


def step(name, model, names, inputs, seed):
    """The loss and the closest call; gradients are in the parameters."""
    model.zero_grad()
    kind = next(model.parameters()).dtype
    feed = [input_of(one, example, seed) for one, example in zip(names or ["image"], inputs)]
    feed = [one.to(kind) if one.is_floating_point() else one for one in feed]
    margin = [math.inf]
    hooks = watch(model, margin)
    loss = loss_of(name, model(*feed), seed)
    for hook in hooks:
        hook.remove()
    loss.backward()
    return loss.item(), margin[0]


def gradients_of(path, model):
    """Gradients by the names and in the layouts of the file, or of the module where the file lost them, and which initializers are no
    parameters."""
    found, left, parameters = {}, [], dict(model.named_parameters())
    rows = [(one.name, onnx.numpy_helper.to_array(one)) for one in onnx.load(path).graph.initializer]
    rows = [(name, value) for name, value in rows if value.dtype == np.float32]
    used = {name for name, _ in rows if name in parameters}
    for name, value in rows:
        same = {}
        for other, leaf in parameters.items():
            for turned in (leaf, leaf.T if leaf.dim() == 2 else leaf):
                if turned.shape == value.shape and np.array_equal(turned.detach().numpy(), value):
                    same.setdefault(other, leaf.grad if turned is leaf else leaf.grad.T)
        if name in parameters:
            assert name in same, f"{name} is another one than PyTorch's: the file was made by another version"
            found[name] = same[name]
        elif same:
            fresh = [other for other in same if other not in used]
            if fresh:
                used.add(fresh[0])
                turned = name.startswith("onnx::MatMul_")
                found[fresh[0] if turned else name] = parameters[fresh[0]].grad if turned else same[fresh[0]]
        else:
            left.append(name)
    assert used == set(parameters), f"not in the file: {set(parameters) - used}"
    return found, left


def write(path, tensors):
    """safetensors of fp32, in 8-byte steps."""
    header, data = {}, b""
    for name, values in tensors.items():
        packed = np.asarray(values, "<f4").tobytes()
        header[name] = {"dtype": "F32", "shape": [len(values)], "data_offsets": [len(data), len(data) + len(packed)]}
        data += packed
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text + data)


def main(folder, wanted):
    torch.set_num_threads(1)
    for name, model, names, inputs, _, _ in models(wanted):
        if name in LEFT_OUT or wanted and name not in wanted:
            continue
        model = Outputs(model, names) if names else model
        seed = 1
        while True:
            loss, margin = step(name, model, names, inputs, seed)
            if margin > MARGIN:
                break
            seed += 1
        found, left = gradients_of(os.path.join(folder, name + ".onnx"), model)
        tensors = {"seed": [seed], "loss": [loss]}
        for one, gradient in found.items():
            assert gradient.abs().max() > 0, f"{one} does not reach the loss"
            flat = gradient.detach().contiguous().numpy().reshape(-1)
            norm = np.sqrt(np.sum(flat.astype(np.float64) ** 2))
            tensors[one] = [norm, *flat[:: max(1, math.ceil(flat.size / KEPT)) | 1]]
        write(os.path.join(folder, name + ".gradients"), tensors)
        rounded = {one: leaf.grad.double() for one, leaf in model.named_parameters()}
        step(name, model.double(), names, inputs, seed)
        exact = [(one, leaf.grad, leaf.grad.abs().max()) for one, leaf in model.named_parameters()]
        exact = [row for row in exact if row[2] > 1e-9]  # the others are zero but for rounding
        worst = max((((gradient - rounded[one]).abs().max() / most).item(), one) for one, gradient, most in exact)
        print(f"{name}: seed {seed}, loss {loss:.6f}, margin {margin:.2e}, {len(found)} gradients, not parameters: {left}, "
              f"PyTorch's own rounding {worst[0]:.1e} of the largest of {worst[1]}")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
