#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sentence embeddings of all-MiniLM-L6-v2 by NumPy in double precision, for tests/train/pretrained.c.

python3 tests/golden/make_minilm.py FOLDER, where FOLDER is what `tools/fetch-data.sh DATA minilm` made, writes tests/golden/minilm.inc.

Written from the papers (Devlin et al. 2019, Vaswani et al. 2017) and the names of the file's tensors, with nothing of qsync. Sentences are of whole
words of the vocabulary, so that looking words up is all of the tokenizer that is needed.
"""
import json
import math
import pathlib
import struct
import sys

import numpy as np

SENTENCES = [
    "a man is eating food .",
    "someone is having a meal .",
    "the new movie was long , and not a good one",
]
LAYERS, HEADS, KEPT = 6, 12, 8


def tensors(path):
    data = path.read_bytes()
    (header,) = struct.unpack("<Q", data[:8])
    for name, one in json.loads(data[8 : 8 + header]).items():
        if name != "__metadata__" and one["dtype"] == "F32":
            begin, end = one["data_offsets"]
            values = np.frombuffer(data[8 + header + begin : 8 + header + end], "<f4")
            yield name, values.astype(np.float64).reshape(one["shape"])


def erf(x):
    return np.vectorize(math.erf)(x)


class Encoder:
    def __init__(self, folder):
        self.tensor = dict(tensors(folder / "model.safetensors"))
        self.words = {word: row for row, word in enumerate((folder / "vocab.txt").read_text(encoding="utf-8").split("\n"))}

    def linear(self, name, x):
        return x @ self.tensor[name + ".weight"].T + self.tensor[name + ".bias"]

    def norm(self, name, x):
        centred = x - x.mean(-1, keepdims=True)
        scaled = centred / np.sqrt((centred * centred).mean(-1, keepdims=True) + 1e-12)
        return scaled * self.tensor[name + ".weight"] + self.tensor[name + ".bias"]

    def attention(self, name, x):
        split = [self.linear(name + ".self." + part, x).reshape(len(x), HEADS, -1).transpose(1, 0, 2) for part in ("query", "key", "value")]
        query, key, value = split
        scores = query @ key.transpose(0, 2, 1) / math.sqrt(query.shape[-1])
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        return (weights @ value).transpose(1, 0, 2).reshape(x.shape)

    def embed(self, sentence):
        """The ids, and the mean of the last layer over all positions."""
        ids = [self.words[word] for word in ["[CLS]", *sentence.split(), "[SEP]"]]
        table = {part: self.tensor[f"embeddings.{part}_embeddings.weight"] for part in ("word", "position", "token_type")}
        x = self.norm("embeddings.LayerNorm", table["word"][ids] + table["position"][: len(ids)] + table["token_type"][0])
        for layer in range(LAYERS):
            name = f"encoder.layer.{layer}"
            x = self.norm(name + ".attention.output.LayerNorm", x + self.linear(name + ".attention.output.dense", self.attention(name + ".attention", x)))
            hidden = self.linear(name + ".intermediate.dense", x)
            x = self.norm(name + ".output.LayerNorm", x + self.linear(name + ".output.dense", hidden * (1 + erf(hidden / math.sqrt(2))) / 2))
        return ids, x.mean(0)


def main():
    encoder = Encoder(pathlib.Path(sys.argv[1]))
    made = [encoder.embed(sentence) for sentence in SENTENCES]
    unit = [mean / np.linalg.norm(mean) for _, mean in made]
    lines = ["// SPDX-License-Identifier: Apache-2.0", "// Written by make_minilm.py: sentence, ids, norm of the embedding, its first values, cosines with each sentence."]
    for (ids, mean), sentence, one in zip(made, SENTENCES, unit):
        padded = ", ".join(str(i) for i in ids)
        values = ", ".join(f"{x:.9g}" for x in mean[:KEPT])
        cosines = ", ".join(f"{one @ other:.9g}" for other in unit)
        lines.append(f'{{"{sentence}",\n {len(ids)},\n {{{padded}}},\n {np.linalg.norm(mean):.9g},\n {{{values}}},\n {{{cosines}}}}},')
    (pathlib.Path(__file__).parent / "minilm.inc").write_text("\n".join(lines) + "\n")


main()
