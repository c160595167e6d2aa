"""Models for inference: a pruned program in one file, all its parameters in another."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from refluid.core.files import decode_combined
from refluid.core.writing import write_file
from refluid.fluid.saving import checkpoint
from refluid.fluid.saving import inference_model as fluid
from refluid.fluid.saving.persistence import (
    initialized_cell,
    is_persistable,
    rows_of,
    write_cells,
)
from refluid.fluid.saving.storing import Loaded, store
from refluid.ir.defaults import default_main_program
from refluid.ir.program import Program
from refluid.ir.variable import Variable

Vars = Sequence[Variable] | Variable


def _listed(given: Vars, what: str) -> list[Variable]:
    found: list[Any] = list(given) if isinstance(given, list | tuple) else [given]
    if not found or not all(isinstance(one, Variable) for one in found):
        raise ValueError(f"{what} must be a variable, or a list of at least one")
    return found


def _files(path_prefix: str) -> tuple[Path, str]:
    path = Path(path_prefix)
    if not path.name or str(path_prefix).endswith("/"):
        raise ValueError(f"path_prefix is a folder and the begin of a name, not {path_prefix!r}")
    return path.parent, path.name


def save_inference_model(
    path_prefix: str, feed_vars: Vars, fetch_vars: Vars, executor: Any, **kwargs: Any
) -> None:
    """Writes `path_prefix`.pdmodel and .pdiparams: what computes `fetch_vars` from `feed_vars`.

    program=...: instead of the default main program. Errors as of `fluid.io.save_inference_model`.
    """
    folder, stem = _files(path_prefix)
    folder.mkdir(parents=True, exist_ok=True)
    fluid.save_inference_model(
        folder,
        [one.name for one in _listed(feed_vars, "feed_vars")],
        _listed(fetch_vars, "fetch_vars"),
        executor,
        kwargs.get("program") or default_main_program(),
        f"{stem}.pdmodel",
        f"{stem}.pdiparams",
    )


def save(program: Program, model_path: str, protocol: int = 4, **configs: Any) -> None:
    """Writes `model_path`.pdparams, .pdopt and .pdmodel, as `fluid.save`.

    protocol: taken, but files are written in the one that Fluid and Paddle 2 both read.
    """
    checkpoint.save(program, model_path)


def load_inference_model(path_prefix: str | None, executor: Any, **kwargs: Any) -> list[Any]:
    """[program, names of what is fed, variables to fetch] of what `save_inference_model` wrote.

    A folder as `path_prefix` has the files that model_filename=... and params_filename=... name;
    where it is None they are the files' contents. Errors as of `fluid.io.load_inference_model`.
    """
    model, params = kwargs.get("model_filename"), kwargs.get("params_filename")
    if path_prefix is None or model is not None or Path(path_prefix).is_dir():
        return fluid.load_inference_model(path_prefix, executor, model, params)
    folder, stem = _files(path_prefix)
    files = f"{stem}.pdmodel", f"{stem}.pdiparams"
    return fluid.load_inference_model(folder, executor, *files)


def normalize_program(
    program: Program, feed_vars: Vars, fetch_vars: Vars, **kwargs: Any
) -> Program:
    """The part of a program that computes `fetch_vars`, as `save_inference_model` saves it."""
    if not isinstance(program, Program):
        raise TypeError(
            f"program type must be `fluid.Program`, but received `{type(program).__name__}`"
        )
    feeds = [one.name for one in _listed(feed_vars, "feed_vars")]
    targets = [one.name for one in _listed(fetch_vars, "fetch_vars")]
    return fluid.inference_program(program, feeds, targets)[0]


def serialize_program(feed_vars: Vars, fetch_vars: Vars, **kwargs: Any) -> bytes:
    """That part as the bytes of a file."""
    program = kwargs.get("program") or default_main_program()
    return normalize_program(program, feed_vars, fetch_vars).serialize_to_string()


def serialize_persistables(
    feed_vars: Vars, fetch_vars: Vars, executor: Any, **kwargs: Any
) -> bytes | None:
    """The parameters of that part as the bytes of a file, None where it has none."""
    program = kwargs.get("program") or default_main_program()
    kept = _kept(normalize_program(program, feed_vars, fetch_vars))
    if not kept:
        return None
    buffer = io.BytesIO()
    write_cells([initialized_cell(var.name) for var in kept], buffer)
    return buffer.getvalue()


def _kept(program: Program) -> list[Variable]:
    """What a file of parameters has, in its order."""
    found = (var for var in program.list_vars() if is_persistable(var))
    return sorted(found, key=lambda var: var.name)


def save_to_file(path: str, content: bytes) -> None:
    """Writes bytes to a file, whole or not at all."""
    if not isinstance(content, bytes):
        raise ValueError("'content' type should be bytes.")
    write_file(path, lambda file: file.write(content))


def load_from_file(path: str) -> bytes:
    """The bytes of a file."""
    return Path(path).read_bytes()


def deserialize_program(data: bytes) -> Program:
    """The program of what `serialize_program` gave."""
    return Program.parse_from_string(data)


def deserialize_persistables(program: Program, data: bytes, executor: Any) -> None:
    """Puts the parameters of what `serialize_persistables` gave into the current scope."""
    kept = _kept(program)
    names, rows = [var.name for var in kept], rows_of(kept)
    values = decode_combined(data, names, "the bytes given", rows)
    device = getattr(getattr(executor, "place", None), "device", "cpu")
    store([Loaded(var, values[var.name], "the bytes given") for var in kept], device)
