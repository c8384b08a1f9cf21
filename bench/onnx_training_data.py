# SPDX-License-Identifier: Apache-2.0
"""Samples with a rule that any model can learn, for models whose inputs no data set has.

    python3 onnx_training_data.py GRAPH.json OUT.npz SAMPLES

GRAPH.json says what the model takes and learns (`qsync inspect MODEL --graph`). Every sample has one of a few kinds: an image of a colour of its own under noise,
ids most of which are of a part of the vocabulary of its own. A class is the kind, of positions the kind or a part of the id, a span stands
where two ids are that occur nowhere else, real numbers follow the kind. Prints the data set's name for qsync. Needs no more than Python.
"""
import array
import json
import random
import struct
import sys
import zipfile

KINDS = 3


def entry(archive, name, descr, shape, data):
    header = "{'descr': '%s', 'fortran_order': False, 'shape': (%s,), }" % (descr, ", ".join(str(one) for one in shape))
    header += " " * (63 - (10 + len(header)) % 64) + "\n"
    archive.writestr(name + ".npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + bytes(data))


def images(draw, kinds, extents):
    """Channels last; a level for each kind and channel, and five bits of noise."""
    channels, out = extents[-1], bytearray()
    pixels = extents[0] * extents[1]
    for kind in kinds:
        one = bytearray(pixels * channels)
        for c in range(channels):
            level = 30 + (70 * kind + 110 * c * kind) % 190
            one[c::channels] = draw.randbytes(pixels).translate(bytes(level + (x >> 3) for x in range(256)))
        out += one
    return out


def ids(draw, kinds, length, bound):
    """Two in three ids are of the kind; 1 and 2 mark where a span begins and ends, and occur once."""
    rows = []
    for kind in kinds:
        row = [3 + (kind + KINDS * draw.randrange(bound // KINDS) if draw.random() < 2 / 3 else draw.randrange(bound)) % (bound - 3)
               for _ in range(length)]
        begin = draw.randrange(length // 2)
        row[begin], row[begin + length // 3] = 1, 2
        rows.append(row)
    return rows


def main():
    with open(sys.argv[1]) as file:
        graph = json.load(file)
    length_of = {one["extents"][0]: one["length"] for one in graph["inputs"] if "length" in one}  # an extent that varies, at its bound
    for one in graph["inputs"]:
        one["extents"] = [length_of.get(extent, extent) for extent in one["extents"]]
    graph["target"]["extent"] = length_of.get(graph["target"].get("extent"), graph["target"].get("extent", 1))
    samples, draw, target = int(sys.argv[3]), random.Random(7), graph["target"]
    kinds = [draw.randrange(KINDS if target.get("classes", KINDS) >= KINDS else 2) for _ in range(samples)]
    names, rows = [], None
    with zipfile.ZipFile(sys.argv[2], "w") as archive:
        for place, one in enumerate(graph["inputs"]):
            name, extents = "input%d" % place, one["extents"]
            names.append(name)
            if one["type"] == "u8":
                entry(archive, name, "|u1", [samples] + extents, images(draw, kinds, extents))
                names[-1] += ":hwc"
            elif one["type"] == "f32":
                count = 1
                for extent in extents:
                    count *= extent
                values = array.array("f", (kind - 1 + draw.gauss(0, 0.3) for kind in kinds for _ in range(count)))
                entry(archive, name, "<f4", [samples] + extents, values.tobytes())
            else:
                length = extents[-1]
                if "mask" in one["name"]:
                    some = [[int(at < length - length // 4 * (sample % 2)) for at in range(length)] for sample in range(samples)]
                elif one["bound"] == 2:
                    some = [[int(at >= length // 2) for at in range(length)]] * samples
                else:
                    rows = some = ids(draw, kinds, length, one["bound"])
                entry(archive, name, "<i4", [samples, length], array.array("i", (value for row in some for value in row)).tobytes())
        kind_of, extent = target["kind"], target["extent"]
        if kind_of == "class":
            entry(archive, "target", "<i4", [samples], array.array("i", kinds).tobytes())
        elif kind_of == "span":
            entry(archive, "target", "<i4", [samples, 2], array.array("i", (row.index(mark) for row in rows for mark in (1, 2))).tobytes())
        elif kind_of == "class_per_position":
            values = [value % KINDS for row in rows for value in row] if rows else [kind for kind in kinds for _ in range(extent)]
            entry(archive, "target", "<i4", [samples, extent], array.array("i", values).tobytes())
        else:
            values = array.array("f")
            for kind in kinds:
                values.extend(array.array("f", [kind / 2]) * extent)
            entry(archive, "target", "<f4", [samples, extent], values.tobytes())
    print("npz:%s,%s,target=target" % (sys.argv[2], ",".join("input=" + name for name in names)))


main()
