"""Saved models, read for a predictor: the program, its ends, and the parameters in a scope."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch

from refluid.core.codec import Buffer
from refluid.core.errors import EnforceNotMet
from refluid.core.files import decode_combined, map_file
from refluid.core.folders import file_of
from refluid.core.scope import Scope
from refluid.fluid.inference.config import AnalysisConfig
from refluid.fluid.saving.inference_model import ends, read_program
from refluid.fluid.saving.persistence import is_persistable, read_variable, rows_of
from refluid.fluid.saving.storing import Loaded, store
from refluid.ir.program import Program
from refluid.ir.variable import Variable


@dataclass
class Model:
    """A program, the names of what is fed and fetched, and a scope with its parameters."""

    program: Program
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    scope: Scope


def load(config: AnalysisConfig, device: torch.device) -> Model:
    """Reads the model that a configuration names.

    Raises EnforceNotMet where none is named, and for missing or damaged files.
    """
    program, values = _source(config)
    kept = [var for var in program.list_vars() if is_persistable(var)]
    kept, scope = sorted(kept, key=lambda var: var.name), Scope()
    store(values(kept), device, scope)
    inputs = tuple(var.name for var in ends(program, "feed"))
    return Model(program, inputs, tuple(var.name for var in ends(program, "fetch")), scope)


ValueSource = Callable[[list[Variable]], list[Loaded]]


def _source(config: AnalysisConfig) -> tuple[Program, ValueSource]:
    """The program, and what reads the values of variables, which come by name."""
    if config._buffers is not None:
        data, params = config._buffers
        program = Program.parse_from_string(data)
        return program, partial(_combined, params, "the buffer of parameters")
    if config.prog_file() and config.params_file():
        path = Path(config.params_file())
        program = read_program(Path(config.prog_file()))
        return program, lambda kept: _combined(map_file(path), path, kept)
    if config.model_dir():
        folder = Path(config.model_dir())
        program = read_program(folder / "__model__")
        return program, lambda kept: [read_variable(file_of(folder, one.name), one) for one in kept]
    raise EnforceNotMet(
        "the configuration names no model: AnalysisConfig(folder), AnalysisConfig(program file, "
        "file of parameters), or set_model_buffer"
    )


def _combined(data: Buffer, origin: str | Path, kept: list[Variable]) -> list[Loaded]:
    """The values that follow each other in bytes. origin: what errors call them."""
    found = decode_combined(data, [one.name for one in kept], origin, rows_of(kept))
    return [Loaded(one, found[one.name], origin) for one in kept]
