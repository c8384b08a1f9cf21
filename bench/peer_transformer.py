# SPDX-License-Identifier: Apache-2.0
"""Peer of `qsync bench` for transformers: samples per second of a PyTorch training step (forward, loss, backward, AdamW) on the CPU.

usage: peer_transformer.py MODEL FORMAT BATCH THREADS [LENGTH or SIZE]     (FORMAT fp32, bf16)
       peer_transformer.py --parameters MODEL
MODEL is minilm, bert:mini, bert:base (ids, types and a mask; one class of two), gpt2, gpt2:mini (the next token at each position, output
layer tied) or vit:tiny (images, ten classes). Prints a JSON object: samples per second, and which of its ways was the fastest: plain or
compiled (torch.compile), with AdamW fused or by lists. A few steps of each tell; the fastest is then measured anew, so that the choice does
not favour a lucky minute. bf16 is by autocast. Attention is scaled_dot_product_attention, dropout as in qsync's models.
"""
import itertools
import json
import statistics
import sys
import time

import torch
from torch import nn
from torch.nn import functional


class Attention(nn.Module):
    def __init__(self, hidden, heads, dropout, causal):
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(hidden, hidden) for _ in range(4))
        self.heads, self.dropout, self.causal = heads, dropout, causal

    def split(self, x):
        return x.view(x.shape[0], x.shape[1], self.heads, -1).transpose(1, 2)

    def forward(self, x, mask):
        y = functional.scaled_dot_product_attention(
            self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x)),
            attn_mask=mask, dropout_p=self.dropout if self.training else 0, is_causal=self.causal)
        return self.out(y.transpose(1, 2).reshape(x.shape))


class Block(nn.Module):
    def __init__(self, hidden, heads, inner, dropout, norms_first, causal, tanh):
        super().__init__()
        self.attention = Attention(hidden, heads, dropout, causal)
        self.up, self.down = nn.Linear(hidden, inner), nn.Linear(inner, hidden)
        self.norm1, self.norm2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.drop = nn.Dropout(dropout)
        self.norms_first, self.form = norms_first, "tanh" if tanh else "none"

    def feed(self, x):
        return self.drop(self.down(functional.gelu(self.up(x), approximate=self.form)))

    def forward(self, x, mask=None):
        if self.norms_first:
            x = x + self.drop(self.attention(self.norm1(x), mask))
            return x + self.feed(self.norm2(x))
        x = self.norm1(x + self.drop(self.attention(x, mask)))
        return self.norm2(x + self.feed(x))


class Bert(nn.Module):
    def __init__(self, layers, hidden, heads, inner, vocabulary=30522, positions=512, dropout=0.1):
        super().__init__()
        self.words, self.types = nn.Embedding(vocabulary, hidden), nn.Embedding(2, hidden)
        self.positions = nn.Embedding(positions, hidden)
        self.norm, self.drop = nn.LayerNorm(hidden), nn.Dropout(dropout)
        self.blocks = nn.ModuleList(Block(hidden, heads, inner, dropout, False, False, False) for _ in range(layers))
        self.pooler, self.classifier = nn.Linear(hidden, hidden), nn.Linear(hidden, 2)

    def forward(self, ids, types, keep):
        x = self.words(ids) + self.types(types) + self.positions.weight[: ids.shape[1]]
        x, mask = self.drop(self.norm(x)), keep[:, None, None, :].bool()
        for block in self.blocks:
            x = block(x, mask)
        return self.classifier(self.drop(torch.tanh(self.pooler(x[:, 0]))))


class Gpt(nn.Module):
    def __init__(self, layers, hidden, heads, inner, vocabulary=50257, positions=1024, dropout=0.1):
        super().__init__()
        self.words, self.positions = nn.Embedding(vocabulary, hidden), nn.Embedding(positions, hidden)
        self.drop, self.norm = nn.Dropout(dropout), nn.LayerNorm(hidden)
        self.blocks = nn.ModuleList(Block(hidden, heads, inner, dropout, True, True, True) for _ in range(layers))

    def forward(self, ids):
        x = self.drop(self.words(ids) + self.positions.weight[: ids.shape[1]])
        for block in self.blocks:
            x = block(x)
        return functional.linear(self.norm(x), self.words.weight)


class Vit(nn.Module):
    def __init__(self, layers, hidden, heads, inner, size=32, classes=10):
        super().__init__()
        patch = size // 8 if size < 128 else 16
        self.patches = nn.Conv2d(3, hidden, patch, patch)
        self.token = nn.Parameter(torch.zeros(1, 1, hidden))
        self.positions = nn.Parameter(0.02 * torch.randn(1, 1 + (size // patch) ** 2, hidden))
        self.blocks = nn.ModuleList(Block(hidden, heads, inner, 0.0, True, False, False) for _ in range(layers))
        self.norm, self.classifier = nn.LayerNorm(hidden), nn.Linear(hidden, classes)

    def forward(self, images):
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat((self.token.expand(x.shape[0], -1, -1), x), 1) + self.positions
        for block in self.blocks:
            x = block(x)
        return self.classifier(self.norm(x)[:, 0])


# Builder, its arguments, length or size.
MODELS = {
    "minilm": (Bert, (6, 384, 12, 1536), 128),
    "bert:mini": (Bert, (4, 256, 4, 1024), 128),
    "bert:base": (Bert, (12, 768, 12, 3072), 128),
    "gpt2": (Gpt, (12, 768, 12, 3072), 256),
    "gpt2:mini": (Gpt, (4, 256, 4, 1024), 256),
    "vit:tiny": (Vit, (12, 192, 3, 768), 32),
}


def build(name, extent):
    kind, sizes, standard = MODELS[name]
    return kind(*sizes, size=extent or standard) if kind is Vit else kind(*sizes)


def batch_of(name, batch, extent):
    kind, _, standard = MODELS[name]
    extent = extent or standard
    if kind is Vit:
        return (torch.randn(batch, 3, extent, extent),), torch.randint(0, 10, (batch,))
    ids = torch.randint(0, 30522, (batch, extent))
    if kind is Gpt:
        return (ids,), torch.randint(0, 30522, (batch, extent))
    return (ids, torch.zeros_like(ids), torch.ones_like(ids)), torch.randint(0, 2, (batch,))


# Compiled or plain; AdamW fused or by lists.
WAYS = tuple(itertools.product((False, True), repeat=2))


def median_step(name, number_format, batch, extent, way, steps):
    compiled, fused = way
    torch.manual_seed(1)
    model = build(name, extent).train()
    inputs, labels = batch_of(name, batch, extent)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=fused, foreach=not fused)
    run = torch.compile(model) if compiled else model
    times = []
    for step in range(3 + steps):
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=number_format == "bf16"):
            logits = run(*inputs)
        loss = functional.cross_entropy(logits.float().flatten(0, -2), labels.flatten())
        loss.backward()
        optimizer.step()
        if step >= 3:
            times.append(time.perf_counter() - start)
    return statistics.median(times)


def main():
    if sys.argv[1] == "--parameters":
        print(sum(values.numel() for values in build(sys.argv[2], 0).parameters()))
        return
    name, number_format, batch, threads = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    extent = int(sys.argv[5]) if len(sys.argv) > 5 else 0
    torch.set_num_threads(threads)
    times = {}
    for way in WAYS:
        try:
            times[way] = median_step(name, number_format, batch, extent, way, 3)
        except Exception as failure:  # a compiler that is not there
            print(f"peer: {way}: {failure}", file=sys.stderr)
    fastest = min(times, key=times.get)
    seconds = median_step(name, number_format, batch, extent, fastest, 8)
    print(json.dumps({"samples_per_s": batch / seconds, "compiled": fastest[0], "fused": fastest[1], "torch": torch.__version__}))


if __name__ == "__main__":
    main()
