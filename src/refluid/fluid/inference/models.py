"""Saved models, read for a predictor: the program, its ends, and the parameters in a scope."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from refluid.core.errors import EnforceNotMet
from refluid.core.files import decode_combined, decode_combined_file, decode_file
from refluid.core.folders import file_of
from refluid.core.lod_tensor import LoDTensor
from refluid.core.scope import Scope
from refluid.fluid.inference.config import AnalysisConfig
from refluid.fluid.saving.inference_model import ends, read_program
from refluid.fluid.saving.persistence import is_persistable
from refluid.fluid.saving.storing import Loaded, store
from refluid.ir.program import Program


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
    program, values, origin = _source(config)
    kept = [var for var in program.list_vars() if is_persistable(var)]
    names = sorted(var.name for var in kept)
    found, scope = values(names), Scope()
    store([Loaded(var, found[var.name], origin) for var in kept], device, scope)
    inputs = tuple(var.name for var in ends(program, "feed"))
    return Model(program, inputs, tuple(var.name for var in ends(program, "fetch")), scope)


ValueSource = Callable[[list[str]], dict[str, LoDTensor]]


def _source(config: AnalysisConfig) -> tuple[Program, ValueSource, object]:
    """The program, what reads the values of names, and what to call the place in errors."""
    if config._buffers is not None:
        data, params = config._buffers
        origin = "the buffer of parameters"
        program = Program.parse_from_string(data)
        return program, lambda names: decode_combined(params, names, origin), origin
    if config.prog_file() and config.params_file():
        path = Path(config.params_file())
        program = read_program(Path(config.prog_file()))
        return program, lambda names: decode_combined_file(path, names), path
    if config.model_dir():
        folder = Path(config.model_dir())
        program = read_program(folder / "__model__")
        return program, lambda names: _of_folder(folder, names), folder
    raise EnforceNotMet(
        "the configuration names no model: AnalysisConfig(folder), AnalysisConfig(program file, "
        "file of parameters), or set_model_buffer"
    )


def _of_folder(folder: Path, names: list[str]) -> dict[str, LoDTensor]:
    return {name: decode_file(file_of(folder, name)) for name in names}
