"""What users name on the command line, as a source to convert."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from refluid.convert.source import Source, from_training, read_model
from refluid.core.errors import EnforceNotMet
from refluid.core.lod_tensor import LoDTensor
from refluid.core.pickles import load_arrays
from refluid.core.values import lengths_to_offsets
from refluid.fluid.saving.inference_model import read_program
from refluid.ir.attributes import OpRole
from refluid.ir.program import Program

Feeds = dict[str, Any]


def open_model(
    path: Path, params: Path | None = None, fetches: Sequence[str] = ()
) -> tuple[Source, Feeds | None]:
    """A saved inference model, a training program of `fluid.save`, or a recording.

    The feeds are a recording's, to check with. Raises EnforceNotMet for what is none of them.
    """
    if path.suffix == ".pdmodel":
        return _saved_training(path, fetches), None
    if (path / "steps.npz").is_file():
        return _recorded(path, fetches)
    if not path.exists():
        raise EnforceNotMet(f"{path} does not exist")
    return read_model(path, params), None


def _saved_training(path: Path, fetches: Sequence[str]) -> Source:
    program = read_program(path)
    values: dict[str, Tensor] = {}
    for suffix in (".pdparams", ".pdopt"):
        file = path.with_suffix(suffix)
        if file.exists():
            values |= {name: torch.from_numpy(one) for name, one in load_arrays(file).items()}
    return from_training(path.stem, program, values, fetches or losses_of(program))


def _recorded(path: Path, fetches: Sequence[str]) -> tuple[Source, Feeds]:
    from refluid.verify.recordings import load_recording

    recording = load_recording(path)
    step = recording.steps[0]
    program = recording.programs[step.program]
    values = {name: torch.from_numpy(np.array(one.array)) for name, one in recording.state.items()}
    feeds = {name: fed(one.array, one.lengths) for name, one in step.feeds.items()}
    wanted = fetches or step.fetches
    return from_training(recording.name, program, values, wanted, test=True), feeds


def fed(array: Any, lengths: Any) -> Any:
    """A recorded feed, with its sequences."""
    return LoDTensor(torch.from_numpy(array), lengths_to_offsets(lengths)) if lengths else array


def losses_of(program: Program) -> list[str]:
    """What the program trains: the results of operators that are marked as the loss."""
    ops = program.global_block().ops
    found = [op.output_arg_names[0] for op in ops if op.role == OpRole.LOSS]
    if not found:
        raise EnforceNotMet("the program has no loss; name what it is to compute with --fetch")
    return found[-1:]
