"""What was gained on this machine before, by knob: a file in the user's cache for each machine."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import torch

from refluid import __version__
from refluid.core import flags
from refluid.core.writing import write_file
from refluid.tune.doctor.host import Host
from refluid.tune.search import Tried

_LATEST = 8


class Learned:
    """The gains of this machine with these versions. folder: of all machines' files.

    machine: a name of both.
    """

    def __init__(self, host: Host, folder: Path | None = None) -> None:
        isa = host.environment.get("ONEDNN_MAX_CPU_ISA", "")
        facts = (host.model, host.cores, host.instructions, host.used, isa)
        versions = torch.__version__, __version__
        self.machine = hashlib.sha256(repr((*facts, *versions)).encode()).hexdigest()[:16]
        self.folder = folder or _folder()
        self._path = self.folder / f"{self.machine}.json"
        self._gains: dict[str, list[float]] = self._read()

    def _read(self) -> dict[str, list[float]]:
        try:
            found = json.loads(self._path.read_text(encoding="utf-8"))
            return {str(key): [float(one) for one in gains] for key, gains in found.items()}
        except (OSError, ValueError, AttributeError, TypeError):
            return {}

    def gains(self) -> dict[str, float]:
        """The mean part of a step that each choice took away in its latest trials, at least a
        little: what helped nobody may help the next."""
        return {key: max(0.01, sum(found) / len(found)) for key, found in self._gains.items()}

    def note(self, one: Tried) -> None:
        """Keeps what a trial found, now."""
        gain = 0.0 if one.found is None or not one.kept else 1 - one.found.ratio
        self._gains[one.proposal.key] = [*self._gains.get(one.proposal.key, []), gain][-_LATEST:]
        text = json.dumps(self._gains, indent=1).encode()
        write_file(self._path, lambda file: file.write(text), durable=False)


def _folder() -> Path:
    cache = flags.environment_str("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "refluid" / "tune"
