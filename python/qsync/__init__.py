# SPDX-License-Identifier: Apache-2.0
"""Training over unlike devices, from Python.

The package calls the program ``qsync`` and reads what it writes; it needs NumPy, and PyTorch only where a module is exported or filled::

    import qsync

    model = qsync.from_torch(module, torch.zeros(1, 3, 32, 32))
    qsync.train(model, "npz:set.npz", epochs=5, out="run/first")
    qsync.load_into(module, "run/first")

Options of the program are keywords: ``--max-steps 100`` is ``max_steps=100``, a flag is ``True``, lists are joined by commas. Whatever the
program refuses is an :class:`Error` with the program's own line.
"""

from ._program import Error, Infeasible, NumericFailure, PeerLost, Preempted, Result, UsageError, program_path
from ._tensors import TensorFileError, read_tensors, write_tensors
from ._torch import LoadReport, NamesDiffer, from_torch, load_into, save_weights
from ._verbs import evaluate, inspect, plan, profile, train, weights

__version__ = "1.0.0"

__all__ = [
    "Error",
    "Infeasible",
    "LoadReport",
    "NamesDiffer",
    "NumericFailure",
    "PeerLost",
    "Preempted",
    "Result",
    "TensorFileError",
    "UsageError",
    "evaluate",
    "from_torch",
    "inspect",
    "load_into",
    "plan",
    "profile",
    "program_path",
    "read_tensors",
    "save_weights",
    "train",
    "weights",
    "write_tensors",
]
