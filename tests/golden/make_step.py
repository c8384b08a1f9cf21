#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""One training step's loss and gradients by PyTorch, for tests/train/golden.c.

Run with any PyTorch from 1.13 on: python3 tests/golden/make_step.py [MODEL ...] writes tests/golden/step-MODEL.bin.

Weights, images or tokens and labels come from an integer hash that the test computes as well, so only results are stored. A seed is taken whose step
keeps every ReLU input and every pair of rivals in a max pool further apart than MARGIN: no rounding error can then flip a branch, and
differences stay within what rounding explains.

File: 8 bytes magic "qsstep1\n", then little-endian: uint32 seed, uint32 tensors, float64 loss (mean over the batch); for each tensor: name
(96 bytes, zero-padded), int64 count, int64 stride, 8 float64 sums of all elements under pseudo-random signs, then every stride-th element as
float32, in our memory order (O, H, W, I).
"""
import math
import pathlib
import struct
import sys

import numpy as np
import torch
import torch.nn.functional as F

BATCH, CLASSES, SIGNS, KEPT = 4, 10, 8, 4096
MARGIN = 2.0**-16  # values are of order 1 and their errors of order 2^-20


# ---- The hash ---------------------------------------------------------------------------------------------------------------
def mix(x):
    x = x.astype(np.uint32)
    x ^= x >> np.uint32(16)
    x *= np.uint32(0x7FEB352D)
    x ^= x >> np.uint32(15)
    x *= np.uint32(0x846CA68B)
    return x ^ (x >> np.uint32(16))


def bits(seed, name, count):
    key = 2166136261 ^ seed
    for byte in name.encode():
        key = ((key ^ byte) * 16777619) & 0xFFFFFFFF
    with np.errstate(over="ignore"):
        return mix(np.arange(count, dtype=np.uint32) * np.uint32(0x9E3779B1) + np.uint32(key))


def uniform(seed, name, count):
    """In [-1/2, 1/2): multiples of 2^-24, exact in fp32."""
    return (bits(seed, name, count) >> np.uint32(8)).astype(np.float32) * np.float32(2.0**-24) - np.float32(0.5)


class Values:
    """The parameters of one model, made as they are asked for; `margin` shrinks to the closest call seen."""

    def __init__(self, seed, dtype):
        self.seed, self.dtype, self.parameters, self.margin = seed, dtype, {}, math.inf
        self.layer_norm = False

    def make(self, name, values, shape):
        leaf = torch.from_numpy(values.reshape(shape)).to(self.dtype).requires_grad_()
        self.parameters[name] = leaf
        return leaf

    def weights(self, name, *shape):
        fan_in = math.prod(shape[1:])
        scale = np.float32(2.0 ** math.floor(0.5 * math.log2(24.0 / fan_in) + 0.5))
        return self.make(name, uniform(self.seed, name, math.prod(shape)) * scale, shape)

    def vector(self, name, count, centre):
        return self.make(name, np.float32(centre) + np.float32(0.5) * uniform(self.seed, name, count), (count,))

    # ---- Layers ----
    def conv(self, x, name, outputs, kernel, stride=1, padding=0, bias=False, groups=1):
        weights = self.weights(name + ".weights", outputs, kernel, kernel, x.shape[1] // groups).permute(0, 3, 1, 2)
        return F.conv2d(x, weights, self.vector(name + ".bias", outputs, 0) if bias else None, stride, padding, 1, groups)

    def linear(self, x, name, outputs, bias=True):
        weights = self.weights(name + ".weights", outputs, x.shape[-1])
        return F.linear(x, weights, self.vector(name + ".bias", outputs, 0) if bias else None)

    def norm(self, x, name):
        scale, shift = self.vector(name + ".scale", x.shape[1], 1), self.vector(name + ".shift", x.shape[1], 0)
        if self.layer_norm:
            return F.layer_norm(x.permute(0, 2, 3, 1), scale.shape, scale, shift, 1e-5).permute(0, 3, 1, 2)
        return F.batch_norm(x, None, None, scale, shift, True, 0.1, 1e-5)

    def relu(self, x):
        self.margin = min(self.margin, x.detach().abs().min().item())
        return F.relu(x)

    def relu6(self, x):
        self.margin = min(self.margin, (x.detach() - 6).abs().min().item())
        return self.relu(x).clamp(max=6)

    def max_pool(self, x):
        top = F.unfold(x.detach().flatten(0, 1).unsqueeze(1), 2, stride=2).topk(2, 1).values
        gap = (top[:, 0] - top[:, 1])[top[:, 0] > 0]  # windows of zeros only: no gradient passes the ReLU before
        self.margin = min(self.margin, gap.min().item())
        return F.max_pool2d(x, 2)


def flatten(x):
    return x.permute(0, 2, 3, 1).reshape(x.shape[0], -1)


# ---- Models, as src/graph builds them -----------------------------------------------------------------------------------------
def resnet8(v, x):
    x = v.relu(v.norm(v.conv(x, "stem.conv", 8, 3, 1, 1), "stem.bn"))
    for stage, channels in enumerate((8, 16, 32)):
        prefix, stride, skip = f"stage{stage + 1}.block0.", 2 if stage else 1, x
        x = v.relu(v.norm(v.conv(x, prefix + "conv1", channels, 3, stride, 1), prefix + "bn1"))
        x = v.norm(v.conv(x, prefix + "conv2", channels, 3, 1, 1), prefix + "bn2")
        if stage:
            skip = v.norm(v.conv(skip, prefix + "shortcut.conv", channels, 1, stride, 0), prefix + "shortcut.bn")
        x = v.relu(x + skip)
    return v.linear(x.mean((2, 3)), "fc", CLASSES)


def resnet8_ln(v, x):
    v.layer_norm = True
    return resnet8(v, x)


def vgg11(v, x):
    for stage, (channels, count) in enumerate(((8, 1), (16, 1), (32, 2), (64, 2), (64, 2))):
        for i in range(count):
            x = v.relu(v.conv(x, f"stage{stage + 1}.conv{i + 1}", channels, 3, 1, 1, True))
        x = v.max_pool(x)
    return v.linear(flatten(x), "fc", CLASSES)


def lenet5(v, x):
    x = F.avg_pool2d(v.relu(v.conv(x, "conv1", 6, 5, 1, 0, True)), 2)
    x = F.avg_pool2d(v.relu(v.conv(x, "conv2", 16, 5, 1, 0, True)), 2)
    x = v.relu(v.linear(flatten(x), "fc1", 120))
    x = v.relu(v.linear(x, "fc2", 84))
    return v.linear(x, "fc", CLASSES)


def mobilenet_v2(v, x):
    def layer(x, name, outputs, kernel, stride=1, groups=1):
        return v.relu6(v.norm(v.conv(x, name + ".conv", outputs, kernel, stride, kernel // 2, groups=groups), name + ".bn"))

    x = layer(x, "stem", 8, 3)
    for stage, (expansion, channels, blocks, first) in enumerate(
        ((1, 8, 1, 1), (6, 8, 2, 1), (6, 8, 3, 2), (6, 16, 4, 2), (6, 24, 3, 1), (6, 40, 3, 2), (6, 80, 1, 1))
    ):
        for block in range(blocks):
            prefix, stride, skip = f"stage{stage + 1}.block{block}.", first if block == 0 else 1, x
            if expansion != 1:
                x = layer(x, prefix + "expand", expansion * x.shape[1], 1)
            x = layer(x, prefix + "depthwise", x.shape[1], 3, stride, x.shape[1])
            x = v.norm(v.conv(x, prefix + "project.conv", channels, 1), prefix + "project.bn")
            if stride == 1 and skip.shape == x.shape:
                x = x + skip
    return v.linear(layer(x, "head", 320, 1).mean((2, 3)), "fc", CLASSES)


def squeezenet(v, x):
    def layer(x, name, outputs, kernel):
        return v.relu(v.norm(v.conv(x, name + ".conv", outputs, kernel, 1, kernel // 2), name + ".bn"))

    x = layer(x, "stem", 24, 3)
    for i, (squeeze, expand, pooled) in enumerate(
        ((8, 16, 1), (8, 16, 0), (8, 32, 0), (8, 32, 1), (16, 48, 0), (16, 48, 0), (16, 64, 0), (16, 64, 1))
    ):
        prefix = f"fire{i + 2}."
        x = layer(v.max_pool(x) if pooled else x, prefix + "squeeze", squeeze, 1)
        x = torch.cat((layer(x, prefix + "expand1", expand, 1), layer(x, prefix + "expand3", expand, 3)), 1)
    return v.linear(x.mean((2, 3)), "fc", CLASSES)


def shufflenet_v2(v, x):
    def layer(x, name, outputs):
        return v.relu(v.norm(v.conv(x, name + ".conv", outputs, 1), name + ".bn"))

    def depthwise(x, name, stride):
        return v.norm(v.conv(x, name + ".conv", x.shape[1], 3, stride, 1, groups=x.shape[1]), name + ".bn")

    x = v.relu(v.norm(v.conv(x, "stem.conv", 8, 3, 1, 1), "stem.bn"))
    for stage, (half, units) in enumerate(((16, 4), (32, 8), (56, 4))):
        for unit in range(units):
            prefix, stride = f"stage{stage + 2}.unit{unit}.", 1 if unit else 2
            if unit:
                passed, x = x[:, :half], x[:, half:]
            else:
                passed = layer(depthwise(x, prefix + "shortcut.depthwise", stride), prefix + "shortcut.project", half)
            x = layer(depthwise(layer(x, prefix + "expand", half), prefix + "depthwise", stride), prefix + "project", half)
            x = torch.stack((passed, x), 2).flatten(1, 2)  # joined and interleaved
    return v.linear(layer(x, "head", 256).mean((2, 3)), "fc", CLASSES)


# ---- Transformers: sequences (samples, positions, channels) -----------------------------------------------------------------------
LENGTH, VOCABULARY, POSITIONS, HIDDEN, HEADS, IGNORED = 12, 50, 20, 32, 4, -1


def layer_norm(v, x, name, epsilon):
    return F.layer_norm(x, x.shape[-1:], v.vector(name + ".scale", HIDDEN, 1), v.vector(name + ".shift", HIDDEN, 0), epsilon)


def rms_norm(v, x, name, epsilon):
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + epsilon) * v.vector(name + ".scale", HIDDEN, 1)


def rotate(x):
    """Pairs (i, i + d/2) of each head turn by position times 10000^(-2i/d)."""
    half = x.shape[-1] // 2
    angle = torch.arange(x.shape[2], dtype=torch.float64)[:, None] * 10000.0 ** (-torch.arange(half, dtype=torch.float64) / half)
    cosine, sine = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    return torch.cat((x[..., :half] * cosine - x[..., half:] * sine, x[..., half:] * cosine + x[..., :half] * sine), -1)


def attend(v, x, query, key, value, projection, keys=HEADS, keep=None, causal=False, rotary=False, bias=True):
    def heads(name, count):
        y = v.linear(x, name, count * HIDDEN // HEADS, bias)
        return y.view(x.shape[0], x.shape[1], count, -1).transpose(1, 2)

    q, k, values = heads(query, HEADS), heads(key, keys), heads(value, keys)
    if rotary:
        q, k = rotate(q), rotate(k)
    k, values = (y.repeat_interleave(HEADS // keys, 1) for y in (k, values))
    scores = q @ k.transpose(2, 3) / math.sqrt(HIDDEN // HEADS)
    if keep is not None:
        scores = scores.masked_fill(~keep[:, None, None, :].bool(), -math.inf)
    if causal:
        scores = scores.masked_fill(torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1), -math.inf)
    y = (scores.softmax(-1) @ values).transpose(1, 2).reshape(x.shape)
    return v.linear(y, projection, HIDDEN, bias)


def gelu_tanh(x):
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def bert(v, ids, types, keep, classes=2):
    def table(name, rows):
        return v.weights(name + ".weights", rows, HIDDEN)

    x = table("embeddings.word_embeddings", VOCABULARY)[ids] + table("embeddings.token_type_embeddings", 2)[types]
    x = layer_norm(v, x + table("embeddings.position_embeddings", POSITIONS)[:LENGTH], "embeddings.LayerNorm", 1e-12)
    for layer in range(2):
        p = f"encoder.layer.{layer}."
        y = attend(v, x, *(p + "attention.self." + n for n in ("query", "key", "value")), p + "attention.output.dense", keep=keep)
        x = layer_norm(v, x + y, p + "attention.output.LayerNorm", 1e-12)
        y = v.linear(F.gelu(v.linear(x, p + "intermediate.dense", 64)), p + "output.dense", HIDDEN)
        x = layer_norm(v, x + y, p + "output.LayerNorm", 1e-12)
    return v.linear(torch.tanh(v.linear(x[:, 0], "pooler.dense", HIDDEN)), "classifier", classes)


def gpt2(v, ids):
    words = v.weights("wte.weights", VOCABULARY, HIDDEN)
    x = words[ids] + v.weights("wpe.weights", POSITIONS, HIDDEN)[:LENGTH]
    for layer in range(2):
        p = f"h.{layer}."
        y = layer_norm(v, x, p + "ln_1", 1e-5)
        x = x + attend(v, y, p + "attn.q", p + "attn.k", p + "attn.v", p + "attn.c_proj", causal=True)
        y = v.linear(layer_norm(v, x, p + "ln_2", 1e-5), p + "mlp.c_fc", 64)
        x = x + v.linear(gelu_tanh(y), p + "mlp.c_proj", HIDDEN)
    return F.linear(layer_norm(v, x, "ln_f", 1e-5), words)


def llama(v, ids):
    words = v.weights("model.embed_tokens.weights", VOCABULARY, HIDDEN)
    x = words[ids]
    for layer in range(2):
        p = f"model.layers.{layer}."
        y = rms_norm(v, x, p + "input_layernorm", 1e-5)
        names = (p + "self_attn." + n for n in ("q_proj", "k_proj", "v_proj", "o_proj"))
        x = x + attend(v, y, *names, keys=2, causal=True, rotary=True, bias=False)
        y = rms_norm(v, x, p + "post_attention_layernorm", 1e-5)
        y = F.silu(v.linear(y, p + "mlp.gate_proj", 48, False)) * v.linear(y, p + "mlp.up_proj", 48, False)
        x = x + v.linear(y, p + "mlp.down_proj", HIDDEN, False)
    return F.linear(rms_norm(v, x, "model.norm", 1e-5), words)


def vit(v, x):
    x = v.conv(x, "embeddings.patch_embeddings.projection", HIDDEN, 4, 4, 0, True).flatten(2).transpose(1, 2)
    token = v.weights("embeddings.cls_token.weights", 1, HIDDEN).expand(x.shape[0], 1, HIDDEN)
    x = torch.cat((token, x), 1)
    x = x + v.weights("embeddings.position_embeddings.weights", x.shape[1], HIDDEN)
    for layer in range(2):
        p = f"encoder.layer.{layer}."
        y = layer_norm(v, x, p + "layernorm_before", 1e-6)
        names = (p + "attention.attention." + n for n in ("query", "key", "value"))
        x = x + attend(v, y, *names, p + "attention.output.dense")
        y = F.gelu(v.linear(layer_norm(v, x, p + "layernorm_after", 1e-6), p + "intermediate.dense", 64))
        x = x + v.linear(y, p + "output.dense", HIDDEN)
    return v.linear(layer_norm(v, x, "layernorm", 1e-6)[:, 0], "classifier", CLASSES)


TOKENS = {"bert": bert, "bert_choice": bert, "gpt2": gpt2, "llama": llama}
MODELS = {
    "resnet8": resnet8,
    "resnet8_ln": resnet8_ln,
    "vgg11": vgg11,
    "lenet5": lenet5,
    "mobilenet_v2": mobilenet_v2,
    "squeezenet": squeezenet,
    "shufflenet_v2": shufflenet_v2,
    "vit": vit,
}
SIZES = {"resnet8_ln": 16, "mobilenet_v2": 16, "squeezenet": 16, "shufflenet_v2": 16}  # others 32: fewer pixels find a seed sooner


# ---- A step ---------------------------------------------------------------------------------------------------------------------
def tokens_step(model, seed, dtype):
    """bert: samples end at unlike places, one of two classes; as a choice the model reads two sequences a sample, each by itself, and gives
    each one number. The others: the next token, of which every fifth does not count."""

    def draw(name, count, below):
        return torch.from_numpy((bits(seed, name, count) % below).astype(np.int64))

    rows = BATCH * (2 if model == "bert_choice" else 1)
    ids = draw("ids", rows * LENGTH, VOCABULARY).view(rows, LENGTH)
    values = Values(seed, dtype)
    if model in ("bert", "bert_choice"):
        types = draw("types", rows * LENGTH, 2).view(rows, LENGTH)
        keep = (torch.arange(LENGTH)[None, :] < LENGTH - 2 * (torch.arange(rows) % BATCH)[:, None]).long()
        logits = bert(values, ids, types, keep, 2 * BATCH // rows).view(BATCH, 2)
        loss = F.cross_entropy(logits, draw("labels", BATCH, 2))
    else:
        labels = draw("labels", BATCH * LENGTH, VOCABULARY)
        labels[torch.arange(BATCH * LENGTH) % 5 == 4] = IGNORED
        loss = F.cross_entropy(TOKENS[model](values, ids).flatten(0, 1), labels, ignore_index=IGNORED)
    loss.backward()
    return loss.item(), values


def step(model, seed, dtype=torch.float32):
    if model in TOKENS:
        return tokens_step(model, seed, dtype)
    size = SIZES.get(model, 32)
    images = np.float32(4) * uniform(seed, "images", BATCH * size * size * 3).reshape(BATCH, size, size, 3)
    labels = torch.from_numpy((bits(seed, "labels", BATCH) % CLASSES).astype(np.int64))
    values = Values(seed, dtype)
    loss = F.cross_entropy(MODELS[model](values, torch.from_numpy(images).to(dtype).permute(0, 3, 1, 2)), labels)
    loss.backward()
    return loss.item(), values


def largest(parameters, name):
    """A shift's gradient may vanish (batch norm behind it takes every shift away), not its terms: those of the scale's are as large. So may
    that of a bias of keys, which shifts all scores of a query alike: those of its weights are as large."""
    names = [name, name.replace(".shift", ".scale"), name.replace(".bias", ".weights")]
    return max(parameters[n].grad.abs().max() for n in names)


def write(path, seed, loss, gradients):
    with open(path, "wb") as out:
        out.write(b"qsstep1\n" + struct.pack("<IId", seed, len(gradients), loss))
        for name, gradient in gradients.items():
            flat = gradient.detach().contiguous().numpy().reshape(-1)
            stride = max(1, math.ceil(flat.size / KEPT)) | 1  # odd: never in step with a power of two
            signs = [1.0 - 2.0 * ((bits(seed, name + ".signs", flat.size) >> np.uint32(s)) & 1) for s in range(SIGNS)]
            sums = [float(flat.astype(np.float64) @ s) for s in signs]
            out.write(struct.pack("<96sqq8d", name.encode(), flat.size, stride, *sums))
            out.write(flat[::stride].astype("<f4").tobytes())


def main(names):
    torch.set_num_threads(1)
    for model in names or (*MODELS, *TOKENS):
        seed = 1
        while True:
            loss, values = step(model, seed)
            if values.margin > MARGIN:
                break
            seed += 1
        path = pathlib.Path(__file__).parent / f"step-{model}.bin"
        gradients = {name: leaf.grad for name, leaf in values.parameters.items()}
        write(path, seed, loss, gradients)
        _, exact = step(model, seed, torch.float64)
        worst = max(
            ((leaf.grad.double() - exact.parameters[name].grad).abs().max() / largest(exact.parameters, name)).item()
            for name, leaf in values.parameters.items()
        )
        print(f"{path.name}: seed {seed}, loss {loss:.6f}, margin {values.margin:.2e}, PyTorch's own rounding {worst:.1e} of the largest")


if __name__ == "__main__":
    main(sys.argv[1:])
