"""What is known of this machine: what each knob gained before, and the machine's ceilings.

Files in the user's cache, for each machine.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import asdict, astuple, dataclass
from pathlib import Path

import torch

from refluid import __version__
from refluid.core import flags
from refluid.core.writing import write_file
from refluid.tune.doctor.host import Host
from refluid.tune.search import Tried

_LATEST = 8
# Ceilings are measured by so many tunings.
_RATED = 2
# Most bytes that are kept of what was compiled.
_COMPILED = 1 << 28


@dataclass(frozen=True)
class MachineRates:
    """Ceilings: float32 and bfloat16 products a second, bytes copied a second."""

    full: float
    half: float
    copied: float


class Learned:
    """The gains of this machine with these versions. folder: of all machines' files.

    machine: a name of both.
    """

    def __init__(self, host: Host, folder: Path | None = None) -> None:
        isa = host.environment.get("ONEDNN_MAX_CPU_ISA", "")
        facts = (host.model, host.cores, host.threads, host.instructions, host.used, isa)
        versions = torch.__version__, __version__
        self.machine = hashlib.sha256(repr((*facts, *versions)).encode()).hexdigest()[:16]
        self.folder = folder or _folder()
        self._path = self.folder / f"{self.machine}.json"
        self._rates_path = self.folder / f"ceilings-{self.machine}.json"
        self._gains: dict[str, list[float]] = self._read()

    def compiled(self) -> str:
        """A folder for what was compiled, which other scripts and tunings may find again."""
        folder = self.folder / f"compiled-{self.machine}"
        if sum(one.stat().st_size for one in folder.rglob("*") if one.is_file()) > _COMPILED:
            shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True, exist_ok=True)
        return str(folder)

    def ceilings(self, measured: Callable[[], MachineRates]) -> MachineRates:
        """The highest that was measured in the first tunings; `measured` is called in those.

        Others may have held cores meanwhile, but nothing makes a ceiling higher than it is.
        """
        known = self._known_rates()
        if len(known) < _RATED:
            known.append(measured())
            self._write(self._rates_path, [asdict(one) for one in known])
        return MachineRates(*(max(each) for each in zip(*map(astuple, known), strict=True)))

    def _known_rates(self) -> list[MachineRates]:
        try:
            found = json.loads(self._rates_path.read_text(encoding="utf-8"))
            return [
                MachineRates(**{key: float(rate) for key, rate in one.items()}) for one in found
            ]
        except (OSError, ValueError, AttributeError, TypeError):
            return []

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
        self._write(self._path, self._gains)

    @staticmethod
    def _write(path: Path, what: object) -> None:
        text = json.dumps(what, indent=1).encode()
        write_file(path, lambda file: file.write(text), durable=False)


def _folder() -> Path:
    cache = flags.environment_str("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "refluid" / "tune"
