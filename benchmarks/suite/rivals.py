"""The rivals: which there are, which can run here, and one of them at work in its process."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from benchmarks.suite.sides.side import Options

ROOT = Path(__file__).resolve().parents[2]
PATH = (str(ROOT), str(ROOT / "src"))
PEERS = ROOT / ".peers"


class RivalFailed(Exception):
    """A rival can't be built or train; the message is its own."""


@dataclass(frozen=True)
class Rival:
    """`packages` are installed in an environment of its own; without any, it runs in this one.

    workloads: those that it has a network for, all where none is named.
    """

    name: str
    title: str
    kind: str
    variant: str = ""
    packages: tuple[str, ...] = ()
    devices: tuple[str, ...] = ("cpu",)
    workloads: tuple[str, ...] = ()

    @property
    def python(self) -> Path:
        return PEERS / self.name / "bin" / "python" if self.packages else Path(sys.executable)

    @property
    def installed(self) -> bool:
        """Whether its environment was made completely."""
        return not self.packages or (PEERS / self.name / ".ready").exists()


BOTH = ("cpu", "cuda")
REFLUID, COMPILED, FLOAT32 = "refluid", "refluid_compiled", "refluid_float32"
EAGER, DYGRAPH, DECLARATIVE = "eager", "dygraph", "declarative"
ALL = (
    Rival(REFLUID, "refluid", "refluid", devices=BOTH),
    Rival(COMPILED, "refluid, compiled tier", "refluid", "compiled", devices=BOTH),
    Rival(
        DYGRAPH,
        "refluid dygraph",
        "dygraph",
        devices=BOTH,
        workloads=("mlp", "resnet50", "lstm", "transformer"),
    ),
    Rival(
        DECLARATIVE,
        "refluid declarative",
        "dygraph",
        "declarative",
        devices=BOTH,
        workloads=("mlp", "resnet50", "transformer"),
    ),
    Rival(FLOAT32, "refluid, float32", "refluid", devices=BOTH),
    Rival(EAGER, "PyTorch eager", "pytorch", "eager", devices=BOTH),
    Rival("channels_last", "PyTorch channels_last", "pytorch", "channels_last", devices=BOTH),
    Rival("compile", "torch.compile", "pytorch", "compile", devices=BOTH),
    Rival("paddle3", "paddle 3.3.1", "paddle", packages=("paddlepaddle==3.3.1", "setuptools")),
    Rival(
        "paddle2",
        "paddle 2.6.2",
        "paddle",
        packages=("paddlepaddle==2.6.2", "numpy<2", "protobuf==4.25.8", "setuptools"),
    ),
    Rival("jax", "JAX jit", "jax", packages=("jax",)),
)
RIVALS: Mapping[str, Rival] = {rival.name: rival for rival in ALL}


class Running:
    """A rival's process. Methods of `worker.Worker` are asked for by name; close it at the end."""

    def __init__(
        self, rival: Rival, environment: Mapping[str, str], log: Path, patience: float
    ) -> None:
        self.rival, self.log, self.patience = rival, log, patience
        self._log = log.open("w")
        self._process = subprocess.Popen(
            [str(rival.python), "-m", "benchmarks.suite.worker"],
            cwd=ROOT,
            env=os.environ
            | {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}"}
            | dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )

    def build(self, workload: str, options: Options, folder: Path) -> Any:
        return self.ask(
            "build",
            kind=self.rival.kind,
            workload=workload,
            options=asdict(options),
            folder=str(folder),
        )

    def ask(self, do: str, **arguments: Any) -> Any:
        """The worker's answer; RivalFailed if it fails, dies or takes longer than `patience`."""
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
            process.stdin.flush()
        except BrokenPipeError:
            raise RivalFailed(self._last_words()) from None
        ready, _, _ = select.select([process.stdout], [], [], self.patience)
        line = process.stdout.readline() if ready else ""
        if not ready:
            raise RivalFailed(f"no answer to {do} within {self.patience:.0f} s")
        if not line:
            raise RivalFailed(self._last_words())
        reply = json.loads(line)
        if "error" in reply:
            raise RivalFailed(reply["error"])
        return reply["found"]

    def _last_words(self) -> str:
        lines = self.log.read_text(errors="replace").strip().splitlines()
        return f"the process ended: {lines[-1] if lines else 'without a word'}"

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._log):
            assert stream is not None
            stream.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


# What torch, oneDNN and XLA use of a processor that has more.
PROCESSORS: Mapping[str, Mapping[str, str]] = {
    "": {},
    "avx2": {
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "ATEN_CPU_CAPABILITY": "avx2",
        "XLA_FLAGS": "--xla_cpu_max_isa=AVX2",
    },
}


def environment(
    rival: Rival, threads: int, tier: str, caches: Path | None, processor: str
) -> dict[str, str]:
    """Environment variables that set threads, tier and instructions.

    caches: a folder for compiled code. Without one, what is compiled for a narrower processor is
    kept by itself: torch.compile takes code that it made for another width, and computes garbage.
    """
    found = dict(PROCESSORS[processor])
    if processor:
        kept = Path(tempfile.gettempdir()) / f"torchinductor_{os.getuid()}_{processor}"
        found["TORCHINDUCTOR_CACHE_DIR"] = str(kept)
    if threads:
        found |= dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(threads))
        found["FLAGS_paddle_num_threads"] = str(threads)
    tier = rival.variant if rival.name == COMPILED else tier
    if rival.kind == "refluid" and tier != "auto":
        found["FLAGS_refluid_tier"] = tier
    if caches is not None:
        own = str(caches / rival.name)
        found |= {"TORCHINDUCTOR_CACHE_DIR": own, "JAX_COMPILATION_CACHE_DIR": own}
        found |= {"XDG_CACHE_HOME": own}
    return found


def scratch() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="refluid-bench-")
