# SPDX-License-Identifier: Apache-2.0
"""From a PyTorch module to a file that qsync trains, and from a run back into the very module. PyTorch is imported where it is used."""

from __future__ import annotations

import copy
import inspect as _inspect
import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Sequence, Tuple

import numpy

from ._program import PathLike
from ._tensors import read_tensors, write_tensors
from ._verbs import _weights_file

if TYPE_CHECKING:
    import torch

_COUNTER = "num_batches_tracked"  # of batch norms: how many batches their statistics have seen


class NamesDiffer(ValueError):
    """The tensors of a run are not those of the module: ``missing`` in the run, ``superfluous`` there, of other ``shapes``."""

    def __init__(self, run: Path, missing: Sequence[str], superfluous: Sequence[str], shapes: Sequence[str]) -> None:
        kinds = (("missing: ", missing), ("superfluous: ", superfluous), ("of another shape: ", shapes))
        super().__init__("%s does not fit the module; %s" % (run, "; ".join(text + ", ".join(names) for text, names in kinds if names)))
        self.missing, self.superfluous, self.shapes = list(missing), list(superfluous), list(shapes)


@dataclass(frozen=True)
class LoadReport:
    """What :func:`load_into` did."""

    loaded: List[str]  #: tensors of the module that were filled
    counters: List[str]  #: of batch norms that count batches: raised by the steps of the run


def from_torch(
    module: "torch.nn.Module",
    example: Any,
    path: Optional[PathLike] = None,
    *,
    input_names: Optional[Sequence[str]] = None,
    output_names: Sequence[str] = ("output",),
    opset: int = 17,
) -> Path:
    """Exports a module as an ONNX file that can be trained: in training mode, nothing folded, parameters under their names.

    ``example`` is an input, or a tuple of them, whose first axis is the batch; that axis stays free. A copy of the module is exported, so
    that modes and running statistics stay as they are. Without a path the file is made in a temporary folder, which stays.
    """
    import torch

    given: Tuple[Any, ...] = example if isinstance(example, tuple) else (example,)
    inputs = tuple(one.detach().cpu() if isinstance(one, torch.Tensor) else one for one in given)
    if input_names is None:
        names = list(_inspect.signature(module.forward).parameters)
        input_names = names[: len(inputs)] if len(names) >= len(inputs) else ["input%d" % i for i in range(len(inputs))]
    if path is None:
        path = os.path.join(tempfile.mkdtemp(prefix="qsync-"), type(module).__name__.lower() + ".onnx")
    keywords: Dict[str, Any] = {
        "training": torch.onnx.TrainingMode.TRAINING,
        "do_constant_folding": False,
        "export_params": True,
        "opset_version": opset,
        "input_names": list(input_names),
        "output_names": list(output_names),
        "dynamic_axes": {name: {0: "batch"} for name in [*input_names, *output_names]},
    }
    if "dynamo" in _inspect.signature(torch.onnx.export).parameters:
        keywords["dynamo"] = False  # the exporter that keeps names, and needs no other package
    exported = copy.deepcopy(module).cpu().train()
    # The exporter runs the module, which moves running statistics, and then writes them: they are put back behind the run, through views,
    # so that the exporter sees nothing of it.
    views = [(buffer.detach().numpy(), buffer.detach().numpy().copy()) for buffer in exported.buffers()]

    def put_back(*_: Any) -> None:
        for view, values in views:
            view[...] = values

    exported.register_forward_hook(put_back)
    torch.onnx.export(exported, inputs, os.fspath(path), **keywords)
    return Path(path)


def save_weights(module: "torch.nn.Module", path: PathLike) -> Path:
    """Writes a module's parameters and running statistics as fp32 safetensors: a start for ``train(..., weights=path)``."""
    import torch

    tensors = {}
    for name, tensor in _tensors_once(module).items():
        if name.rpartition(".")[2] != _COUNTER:
            tensors[name] = tensor.detach().to("cpu", torch.float32).numpy()
    write_tensors(path, tensors)
    return Path(path)


def _tensors_once(module: "torch.nn.Module") -> Dict[str, Any]:
    """A module's parameters and persistent buffers; of those that have several names, the first."""
    seen = set()
    tensors = {}
    for name, tensor in module.state_dict(keep_vars=True).items():
        if id(tensor) not in seen:
            tensors[name] = tensor
        seen.add(id(tensor))
    return tensors


def _names_of(module: "torch.nn.Module") -> Dict[str, List[str]]:
    """All names of each tensor, by its first."""
    first: Dict[int, str] = {}
    names: Dict[str, List[str]] = {}
    for name, tensor in module.state_dict(keep_vars=True).items():
        names.setdefault(first.setdefault(id(tensor), name), []).append(name)
    return names


def _steps_of(run: Path) -> int:
    """Steps of the run whose folder a weights file lies in; 0 where it does not say."""
    try:
        return int(json.loads((run.parent / "result.json").read_text(encoding="utf-8"))["steps"])
    except (OSError, ValueError, KeyError):
        return 0


def load_into(module: "torch.nn.Module", run: PathLike) -> LoadReport:
    """Puts a run's trained weights and running statistics into the module, in place and bit by bit.

    ``run`` is a run folder or a safetensors file. Names and shapes are compared first: where one is missing or superfluous nothing is
    changed, and :class:`NamesDiffer` lists all of them. Tensors that a module holds under several names are found by any of them. Counters
    of batch norms, which no run keeps, are raised by its steps.
    """
    import torch

    file = _weights_file(run)
    tensors = read_tensors(file)
    names = _names_of(module)
    own = _tensors_once(module)
    counters = [name for name in own if name.rpartition(".")[2] == _COUNTER and name not in tensors]
    wanted = {name: next((one for one in names[name] if one in tensors), None) for name in own if name not in counters}
    missing = [name for name, found in wanted.items() if found is None]
    known = {one for every in names.values() for one in every}
    superfluous = [name for name in tensors if name not in known]
    shapes = [
        "%s %s, in the run %s" % (name, tuple(own[name].shape), tensors[found].shape)
        for name, found in wanted.items()
        if found is not None and tuple(own[name].shape) != tensors[found].shape
    ]
    if missing or superfluous or shapes:
        raise NamesDiffer(file, missing, superfluous, shapes)
    steps = _steps_of(file)
    with torch.no_grad():
        for name, found in wanted.items():
            if found is not None:
                own[name].copy_(torch.from_numpy(numpy.array(tensors[found])))
        for name in counters:
            own[name].add_(steps)
    return LoadReport(list(wanted), counters)
