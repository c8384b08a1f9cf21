# SPDX-License-Identifier: Apache-2.0
"""Random strings and their ids by the Python package tokenizers, for tests/text/peer.c: peer.py COUNT BERT_VOCAB GPT2_FOLDER > FILE.

The file: per string its bytes (u32 length, bytes), then twice its ids (u32 count, u32 each), by WordPiece and by byte-level pair encoding.
Exit code 77 without the package.

Characters are those that Python's Unicode version assigns, without surrogates and private use, and without those that the package treats
otherwise than their properties in that version say. Its tables are of Unicode 8: it takes the accents and punctuation that came later for
letters. Of older characters four classes differ: U+166D, U+1734 and U+111C9, whose categories were changed since, and the ideographs
U+2B820 to U+2B91F, which BERT cuts into single characters and the package does not.
"""

import random
import struct
import sys
import unicodedata

try:
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
except ImportError:
    sys.exit(77)

IDEOGRAPHS = ((0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F), (0x2B740, 0x2B81F), (0x2B820, 0x2CEAF),
              (0xF900, 0xFAFF), (0x2F800, 0x2FA1F))


def words_of(c):
    """What BERT's rules make of the character c between the letters a and b, by Python's tables."""
    if unicodedata.category(c)[0] == "C" and c not in "\t\n\r" or c == "\ufffd":
        return ["ab"]
    if c.isspace():
        return ["a", "b"]
    parts = [p.lower() for p in unicodedata.normalize("NFD", c) if unicodedata.category(p) != "Mn"]
    text = "".join(f" {p} " if unicodedata.category(p)[0] == "P" or p in "$+<=>^`|~" else p for p in parts)
    if any(low <= ord(c) <= high for low, high in IDEOGRAPHS):
        text = f" {text} "
    return [word for word in f"a{text}b".split(" ") if word]


def main(count, bert, gpt2):
    word = Tokenizer(models.WordPiece.from_file(bert, unk_token="[UNK]"))
    word.normalizer = normalizers.BertNormalizer(lowercase=True)
    word.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    pair = Tokenizer(models.BPE.from_file(gpt2 + "/encoder.json", gpt2 + "/vocab.bpe"))
    pair.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    assigned = [chr(c) for c in range(0x110000) if unicodedata.category(chr(c)) not in ("Cn", "Cs", "Co")]
    known = [c for c in assigned
             if words_of(c) == [w for w, _ in word.pre_tokenizer.pre_tokenize_str(word.normalizer.normalize_str(f"a{c}b"))]]
    print(f"{len(assigned) - len(known)} of {len(assigned)} characters are unknown to the package", file=sys.stderr)
    assert len(known) > 0.99 * len(assigned)
    by_block = {}
    for c in known:
        by_block.setdefault(ord(c) >> 7, []).append(c)
    blocks = list(by_block.values())
    common = list("etaoin shrdlu ETAOIN'sdt.,!?- 0123456789\n\t")
    draw = random.Random(1)
    out = sys.stdout.buffer
    for i in range(count):
        # Alternately: any character; two blocks and English; English with a few others.
        pools = ([known], [draw.choice(blocks), draw.choice(blocks), common], [common, common, common, draw.choice(blocks)])[i % 3]
        text = "".join(draw.choice(draw.choice(pools)) for _ in range(draw.randrange(1, 40)))
        data = text.encode()
        out.write(struct.pack("<I", len(data)) + data)
        for tokenizer in (word, pair):
            ids = tokenizer.encode(text, add_special_tokens=False).ids
            out.write(struct.pack(f"<I{len(ids)}I", len(ids), *ids))


main(int(sys.argv[1]), sys.argv[2], sys.argv[3])
