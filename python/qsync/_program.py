# SPDX-License-Identifier: Apache-2.0
"""The program as a child: where it is, its command line, its progress, and what its end means."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Callable, Dict, List, Mapping, Optional, Sequence, Type, Union

PathLike = Union[str, "os.PathLike[str]"]
#: Receives one line of a run's ``metrics.jsonl`` after the other: ``{"type": "epoch", "epoch": 1, "test_accuracy": ...}``.
Progress = Callable[[Mapping[str, Any]], None]

_PROGRESS_LINE = re.compile(r"^qsync: +\d+ % ")
_POLL_SECONDS = 0.05
_STOP_SECONDS = 10.0


class Error(RuntimeError):
    """The program failed. ``str()`` is its own line; ``exit_code`` and ``log`` (all that it wrote to stderr) tell more."""

    def __init__(self, line: str, exit_code: int, log: str) -> None:
        super().__init__(line)
        self.exit_code = exit_code
        self.log = log


class UsageError(Error):
    """Wrong options, or options that do not go together."""


class Infeasible(Error):
    """No plan fits the memory."""


class NumericFailure(Error):
    """Training diverged, or loss scaling skipped too many steps."""


class PeerLost(Error):
    """Another rank of the run died."""


class Preempted(Error):
    """The run was stopped and can be resumed."""


_BY_CODE: Dict[int, Type[Error]] = {2: UsageError, 3: Infeasible, 4: NumericFailure, 5: PeerLost, 75: Preempted}


@dataclass(frozen=True)
class Result:
    """What a verb printed as JSON, by its names: ``result["test_accuracy"]``."""

    figures: Dict[str, Any]
    path: Optional[Path] = None  #: the run folder, or the file that was written
    log: str = field(default="", repr=False)  #: what the program wrote to stderr

    def __getitem__(self, name: str) -> Any:
        return self.figures[name]

    def __contains__(self, name: object) -> bool:
        return name in self.figures


def program_path() -> str:
    """The program: ``$QSYNC``, or ``qsync`` on the path, or what ``make release`` built beside the package."""
    said = os.environ.get("QSYNC")
    if said:
        return said
    found = shutil.which("qsync")
    if found:
        return found
    places = [str(Path(__file__).resolve().parents[2] / "build" / "release" / "qsync")]
    try:
        from . import _built  # type: ignore[attr-defined]  # written when the package is installed

        places.append(str(_built.PROGRAM))
    except ImportError:
        pass
    for place in places:
        if os.access(place, os.X_OK):
            return place
    raise FileNotFoundError("no program qsync: set QSYNC, put it on PATH, or run `make release`; looked at " + ", ".join(places))


def option_words(options: Mapping[str, Any]) -> List[str]:
    """``{"max_steps": 5, "no_augmentation": True}`` as words of a command line. None and False say nothing."""
    words: List[str] = []
    for name, value in options.items():
        if value is None or value is False:
            continue
        words.append("--" + name.replace("_", "-"))
        if value is True:
            continue
        if isinstance(value, (list, tuple)):
            words.append(",".join(str(one) for one in value))
        else:
            words.append(os.fspath(value) if isinstance(value, os.PathLike) else str(value))
    return words


def cluster_ranks(cluster: Optional[PathLike]) -> int:
    """How many ranks a cluster file has; 1 without one."""
    if cluster is None:
        return 1
    with open(cluster, encoding="utf-8") as file:
        classes = json.load(file).get("classes", {})
    return sum(int(one.get("count", 1)) for one in classes.values())


def _launcher(ranks: int) -> List[str]:
    if ranks == 1:
        return []
    words = [os.environ.get("QSYNC_MPIRUN", "mpirun")]
    version = subprocess.run(words + ["--version"], capture_output=True, text=True, check=False).stdout
    if "Open MPI" in version or "OpenRTE" in version:
        words += ["--oversubscribe"]
    return words + ["-n", str(ranks)]


class _Metrics:
    """Lines that a run adds to its metrics, whole ones only; those of an earlier run in the folder are not its."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._before = self._identity()
        self._file: Optional[IO[str]] = None
        self._part = ""

    def _identity(self) -> Optional[tuple[int, int]]:
        try:
            facts = self._path.stat()
        except OSError:
            return None
        return facts.st_ino, facts.st_mtime_ns

    def tell(self, progress: Progress) -> None:
        if self._file is None:
            if self._identity() in (None, self._before):
                return
            self._file = open(self._path, encoding="utf-8")
        self._part += self._file.read()
        *lines, self._part = self._part.split("\n")
        for line in lines:
            progress(json.loads(line))

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def _failure(code: int, log: str, command: Sequence[str]) -> Error:
    lines = [line for line in log.splitlines() if line.startswith("qsync: ") and not _PROGRESS_LINE.match(line)]
    line = lines[-1][len("qsync: ") :] if lines else "%s ended with exit code %d" % (" ".join(command), code)
    return _BY_CODE.get(code, Error)(line, code, log)


def _stop(child: "subprocess.Popen[bytes]") -> None:
    child.send_signal(signal.SIGINT)
    try:
        child.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def call(words: Sequence[str], *, ranks: int = 1, metrics: Optional[Path] = None, progress: Optional[Progress] = None) -> Result:
    """Runs ``qsync WORDS... --json`` and returns what it printed. KeyboardInterrupt reaches the program and then the caller."""
    command = _launcher(ranks) + [program_path(), *words, "--json"]
    watched = _Metrics(metrics) if metrics is not None and progress is not None else None
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        try:
            while child.poll() is None:
                time.sleep(_POLL_SECONDS)
                if watched is not None and progress is not None:
                    watched.tell(progress)
            if watched is not None and progress is not None:
                watched.tell(progress)
        except BaseException:
            _stop(child)
            raise
        finally:
            if watched is not None:
                watched.close()
        out.seek(0)
        err.seek(0)
        text, log = out.read().decode(), err.read().decode(errors="replace")
    if child.returncode != 0:
        raise _failure(child.returncode, log, command)
    return Result(json.loads(text), log=log)
