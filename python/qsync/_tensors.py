# SPDX-License-Identifier: Apache-2.0
"""Files of named tensors (safetensors): the length of a JSON header in eight bytes, the header, the values."""

from __future__ import annotations

import json
import os
from typing import Any, Dict, Mapping, Optional

import numpy

from ._program import PathLike

Tensors = Dict[str, "numpy.ndarray[Any, Any]"]

_TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "|i1", "U8": "|u1", "BOOL": "|b1"}
_LONGEST_HEADER = 100_000_000


class TensorFileError(ValueError):
    """A file that is no file of tensors, or is broken."""


def _bytes(path: PathLike) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def read_tensors(path: PathLike) -> Tensors:
    """The tensors of a file by name. BF16 comes widened to float32, all others as they are."""
    data = _bytes(path)
    length = int.from_bytes(data[:8], "little")
    if len(data) < 8 or length > min(len(data) - 8, _LONGEST_HEADER):
        raise TensorFileError("%s: a header of %d bytes does not fit the file of %d" % (path, length, len(data)))
    try:
        header = json.loads(data[8 : 8 + length].decode())
        rows = {name: row for name, row in header.items() if name != "__metadata__"}
        tensors: Tensors = {}
        for name, row in rows.items():
            start, end = (8 + length + int(offset) for offset in row["data_offsets"])
            kind = numpy.dtype(_TYPES[row["dtype"]])
            shape = tuple(int(extent) for extent in row["shape"])
            if not 8 + length <= start <= end <= len(data) or end - start != int(numpy.prod(shape, dtype=numpy.int64)) * kind.itemsize:
                raise TensorFileError("%s: tensor %s has bytes %d to %d, which its shape or the file does not hold" % (path, name, start, end))
            values = numpy.frombuffer(data, kind, offset=start, count=(end - start) // kind.itemsize).reshape(shape)
            if row["dtype"] == "BF16":
                values = (values.astype("<u4") << 16).view("<f4")
            tensors[name] = values
    except (KeyError, TypeError, AttributeError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise TensorFileError("%s: no header of tensors: %r" % (path, error)) from error
    return tensors


def write_tensors(path: PathLike, tensors: Mapping[str, "numpy.ndarray[Any, Any]"], metadata: Optional[Mapping[str, str]] = None) -> None:
    """Writes tensors of floats, integers or booleans by name; the file is replaced whole or not at all."""
    names = {numpy.dtype(kind): name for name, kind in _TYPES.items() if name != "BF16"}
    header: Dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    parts = []
    at = 0
    for name in sorted(tensors, key=lambda one: (-tensors[one].dtype.itemsize, one)):
        values = numpy.ascontiguousarray(tensors[name])
        if values.dtype not in names:
            raise TypeError("tensor %s: values of type %s cannot be written" % (name, values.dtype))
        header[name] = {"dtype": names[values.dtype], "shape": list(tensors[name].shape), "data_offsets": [at, at + values.nbytes]}
        at += values.nbytes
        parts.append(values.tobytes())
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    temporary = "%s.%d.tmp" % (os.fspath(path), os.getpid())
    try:
        with open(temporary, "wb") as file:
            file.write(len(text).to_bytes(8, "little") + text)
            for part in parts:
                file.write(part)
        os.replace(temporary, path)
    except BaseException:
        if os.path.exists(temporary):
            os.unlink(temporary)
        raise
