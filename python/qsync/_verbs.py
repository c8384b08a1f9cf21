# SPDX-License-Identifier: Apache-2.0
"""The verbs as functions. What an option means, and its standard, says ``qsync VERB --help``."""

from __future__ import annotations

import dataclasses
import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, Iterator, Mapping, Optional, Union
from contextlib import contextmanager

from ._program import PathLike, Progress, Result, call, cluster_ranks, option_words
from ._tensors import read_tensors

if TYPE_CHECKING:
    import numpy

Cluster = Union[PathLike, Mapping[str, Any]]


@contextmanager
def _cluster_file(cluster: Optional[Cluster]) -> Iterator[Optional[PathLike]]:
    """A cluster that is given as a mapping, as a file for the time of a call."""
    if cluster is None or not isinstance(cluster, Mapping):
        yield cluster
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cluster.json"
        path.write_text(json.dumps({"schema": "qsync/cluster/2", **cluster}), encoding="utf-8")
        yield path


def _print_line(line: Mapping[str, Any]) -> None:
    if line.get("type") == "step":
        print("step %d: loss %.4f" % (line["step"], line["loss"]), flush=True)
    if line.get("type") == "epoch":
        print("epoch %d: test loss %s, test accuracy %s" % (line["epoch"], line.get("test_loss"), line.get("test_accuracy")), flush=True)


def profile(model: PathLike, dataset: PathLike, out: PathLike = "profile.json", *, cluster: Optional[Cluster] = None, **options: Any) -> Result:
    """Measures what every kernel of the model costs in every precision, on all ranks of the cluster, into the file ``out``."""
    with _cluster_file(cluster) as file:
        words = ["profile"] + option_words({"cluster": file, "model": model, "dataset": dataset, "out": out, **options})
        return dataclasses.replace(call(words, ranks=cluster_ranks(file)), path=Path(out))


def plan(profile: PathLike, dataset: PathLike, out: PathLike = "plan.json", *, cluster: Cluster, **options: Any) -> Result:
    """Decides which operators run in which precision on which device. The result is the plan, which ``out`` holds as well."""
    with _cluster_file(cluster) as file:
        words = ["plan"] + option_words({"cluster": file, "profile": profile, "dataset": dataset, "out": out, **options})
        return dataclasses.replace(call(words), path=Path(out))


def train(
    model: Optional[PathLike] = None,
    dataset: Optional[PathLike] = None,
    *,
    out: Optional[PathLike] = None,
    plan: Optional[PathLike] = None,
    cluster: Optional[Cluster] = None,
    progress: Union[bool, Progress, None] = None,
    **options: Any,
) -> Result:
    """Trains. With a plan, exactly by it: model and data set are then those of its job unless they are said.

    ``progress`` receives the lines of the run's metrics as they are written, or prints them where it is True. The result has
    ``test_accuracy``, ``test_loss``, ``training_loss``, ``steps``, ``iteration_us``, ``samples_per_second`` and more; its ``path`` is
    the run folder ``out``, with weights, configuration, plan and metrics.
    """
    told = _print_line if progress is True else progress or None
    with _cluster_file(cluster) as file, tempfile.TemporaryDirectory() as spare:
        folder = Path(out) if out is not None else Path(spare) / "run" if told is not None else None
        words = ["train"] + option_words({"cluster": file, "plan": plan, "model": model, "dataset": dataset, "out": folder, **options})
        metrics = folder / "metrics.jsonl" if folder is not None else None
        result = call(words, ranks=cluster_ranks(file), metrics=metrics, progress=told)
        return dataclasses.replace(result, path=Path(out) if out is not None else None)


def _weights_file(run: PathLike) -> Path:
    path = Path(run)
    return path / "weights.safetensors" if path.is_dir() else path


def evaluate(run: PathLike, dataset: Optional[PathLike] = None, **options: Any) -> Result:
    """Loss and accuracy of a run's weights (a run folder, or a weights file) on the test part, of the run's data set unless it is said."""
    return call(["eval", str(_weights_file(run))] + option_words({"dataset": dataset, **options}))


def inspect(model: PathLike, **options: Any) -> Result:
    """A model on paper: operators, shapes, parameters, FLOPs, bytes saved for backward. Of a weights file, its tensors."""
    return call(["inspect", str(model)] + option_words(options))


def weights(run: PathLike) -> "Dict[str, numpy.ndarray[Any, Any]]":
    """The tensors of a run's weights (a run folder, or a safetensors file), by name."""
    return read_tensors(_weights_file(run))
