"""Recordings of programs run by real Fluid: single runs (`.npz`) and training runs (folders).

The format is described in docs/recordings.md. Arrays that were too large to store are drawn
again from a seed made of their name.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from refluid.core.dtypes import VarType
from refluid.core.errors import EnforceNotMet
from refluid.ir.program import Program

Array = npt.NDArray[Any]
Lengths = list[list[int]]


@dataclass(frozen=True)
class RecordedValue:
    """An array and its sequence lengths per level."""

    array: Array
    lengths: Lengths = field(default_factory=list)


@dataclass(frozen=True)
class RecordedStep:
    """One run: which program, what is fed, what Fluid returned.

    expected: by position of the fetch ("0"), and of the element for a tensor array ("1.0").
    """

    program: str
    feeds: Mapping[str, RecordedValue]
    fetches: tuple[str, ...]
    expected: Mapping[str, RecordedValue]


@dataclass
class Recording:
    """Programs, the state before, the steps, and what the state was afterwards.

    after: step number -> name -> expected value. digests: step number -> name -> sum, sum of
    magnitudes, sum of squares, first, middle and last element. random: outputs can't be equal,
    only alike. spreads: step number and name (or "fetch POSITION") -> how far rounding alone moved
    that result in Fluid.
    """

    name: str
    programs: dict[str, Program]
    state: dict[str, RecordedValue]
    steps: list[RecordedStep]
    after: dict[int, dict[str, RecordedValue]] = field(default_factory=dict)
    digests: dict[int, dict[str, Array]] = field(default_factory=dict)
    random: bool = False
    training: bool = False
    parallel: Mapping[str, Any] | None = None
    spreads: Mapping[tuple[int, str], float] = field(default_factory=dict)


def find_recordings(paths: Iterable[Path]) -> Iterator[Path]:
    """Recordings at or below the given paths, in order of name."""
    for path in paths:
        if _is_recording(path):
            yield path
        elif path.is_dir():
            yield from find_recordings(sorted(path.iterdir()))
        elif not path.exists():
            raise EnforceNotMet(f"{path} does not exist")


def _is_recording(path: Path) -> bool:
    if path.is_dir():
        return (path / "steps.npz").is_file() and (path / "meta.json").is_file()
    return path.suffix == ".npz"


def load_recording(path: Path) -> Recording:
    """Reads a recording. EnforceNotMet where the files are none."""
    try:
        return _load_training(path) if path.is_dir() else _load_run(path)
    except (KeyError, OSError, ValueError) as error:
        raise EnforceNotMet(f"{path} is not a recording refluid can read: {error}") from error


def seeded_array(name: str, shape: Iterable[int], dtype: str, std: float, mean: float) -> Array:
    """The array that the recorder drew for this name."""
    draw = np.random.RandomState(zlib.crc32(name.encode()) & 0x7FFFFFFF)
    array = draw.standard_normal(size=tuple(shape)) * 0.05
    if (std, mean) != (0.05, 0.0):
        array = array * (std / 0.05) + mean
    return array.astype(dtype)


def _values(data: Mapping[str, Any], prefix: str, kind: str = "") -> dict[str, RecordedValue]:
    """Arrays `PREFIXkind.NAME` with the lengths in `PREFIXkindlod.NAME`."""
    found = {}
    start = f"{prefix}{kind}."
    for key in data:
        if key.startswith(start):
            name = key[len(start) :]
            lengths = data.get(f"{prefix}{kind}lod.{name}")
            found[name] = RecordedValue(
                data[key], json.loads(str(lengths)) if lengths is not None else []
            )
    return found


def _load_run(path: Path) -> Recording:
    with np.load(path, allow_pickle=False) as archive:
        data = dict(archive)
    meta = json.loads(str(data["meta"]))
    state = _values(data, "", "state")
    for name, shape, dtype in meta.get("seeded", []):
        state[name] = RecordedValue(seeded_array(name, shape, dtype, 0.05, 0.0))
    fetches = tuple(meta["fetch"])
    step = RecordedStep("main", _values(data, "", "feed"), fetches, _values(data, "", "fetch"))
    return Recording(
        path.with_suffix("").name,
        {"main": Program.parse_from_string(data["program"].tobytes())},
        state,
        [step],
        {0: _values(data, "", "stateout")},
        random=bool(meta.get("random")),
        parallel=meta.get("parallel"),
    )


def _load_training(path: Path) -> Recording:
    meta = json.loads((path / "meta.json").read_text())
    with np.load(path / "steps.npz", allow_pickle=False) as archive:
        data = dict(archive)
    with np.load(path / "state.npz", allow_pickle=False) as archive:
        state = _values(dict(archive), "", "state")
    for name, shape, dtype, value in meta["const"]:
        state[name] = RecordedValue(np.full(shape, value, dtype))
    for name, shape, dtype, std, mean in meta["seeded"]:
        state[name] = RecordedValue(seeded_array(name, shape, dtype, std, mean))
    programs = dict(_programs(path))
    steps = [
        RecordedStep(
            run["program"],
            _values(data, f"r{index}.", "feed"),
            tuple(run["fetch"]),
            _values(data, f"r{index}.", "fetch"),
        )
        for index, run in enumerate(meta["runs"])
    ]
    runs_of_one_step = len(steps) // len(meta["losses"])
    with np.load(path / "digest.npz", allow_pickle=False) as archive:
        digests = {
            run: dict(zip(meta["digest_names"], archive[key], strict=True))
            for run, key in ((runs_of_one_step - 1, "first"), (len(steps) - 1, "last"))
        }
    live = bool(meta.get("random_live"))
    return Recording(
        path.name,
        programs,
        state,
        steps,
        digests=digests,
        random=live,
        training=True,
        spreads=dict(_spreads(path / "spread.json")),
    )


def _spreads(path: Path) -> Iterator[tuple[tuple[int, str], float]]:
    if not path.is_file():
        return
    for key, spread in json.loads(path.read_text()).items():
        step, label = key.split(" ", 1)
        if label.startswith("fetch."):
            label = label.replace(".", " ", 1)
        yield (int(step), label), float(spread)


def _programs(path: Path) -> Iterator[tuple[str, Program]]:
    for file in sorted(path.glob("main*.pb*")):
        data = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
        tag = file.name.split(".")[0].removeprefix("main_")
        yield tag, _without_readers(Program.parse_from_string(data))


def _without_readers(program: Program) -> Program:
    """The program without its reader operators: what these read was recorded as feeds."""
    for block in program.blocks:
        for index in reversed(range(len(block.ops))):
            op = block.ops[index]
            names = op.input_arg_names + op.output_arg_names
            variables = [block.find_var_recursive(name) for name in names]
            if any(var is not None and var.type == VarType.READER for var in variables):
                block._remove_op(index)
    return program
