"""The folder that a conversion writes, and the way back to Fluid's files."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from refluid.convert.checking import build, compare, sample_feeds
from refluid.convert.members import Written
from refluid.convert.optional import require
from refluid.convert.printer import print_module
from refluid.convert.source import Source
from refluid.convert.training import print_optimizer
from refluid.convert.weights import Origin, Weight, to_variable
from refluid.convert.writer import write
from refluid.core.codec import write_lod_tensor
from refluid.core.errors import EnforceNotMet
from refluid.core.folders import file_to_write
from refluid.core.writing import Write, write_files

CODE, WEIGHTS, NAMES, PROGRAM = "model.py", "model.pt", "names.json", "fluid_program"


@dataclass
class Converted:
    """A network as PyTorch: its text, what it was written of, and the module for inference."""

    source: Source
    written: Written
    text: str
    model: torch.nn.Module


def convert(source: Source) -> Converted:
    """Writes the PyTorch of a network; NoCounterpart says what can't be."""
    written = write(source)
    text = print_module(source, written)
    if source.whole is not None:
        text += print_optimizer(source, written)
    return Converted(source, written, text, build(text, written))


def check(converted: Converted, feeds: dict[str, object] | None = None) -> float:
    """The largest relative difference of the outputs, on random feeds where none are given."""
    source = converted.source
    given = sample_feeds(source) if feeds is None else feeds
    return compare(converted.model, converted.written, source, given)


def save(converted: Converted, folder: Path) -> None:
    """Writes the code, the state_dict, and what the way back to Fluid needs."""
    state, origins = converted.written.state, converted.written.origins
    names = {key: origin.to_json() for key, origin in origins.items()}
    program = converted.source.whole or converted.source.program
    write_files(
        [
            (folder / CODE, lambda file: file.write(converted.text.encode("utf-8"))),
            (folder / WEIGHTS, lambda file: torch.save(_complete(converted, state), file)),
            (folder / NAMES, lambda file: file.write(json.dumps(names, indent=1).encode("utf-8"))),
            (folder / PROGRAM, lambda file: file.write(program.serialize_to_string())),
        ]
    )


def _complete(converted: Converted, state: dict[str, Tensor]) -> dict[str, Tensor]:
    """With the counters of batch normalisations, so that `load_state_dict` is content."""
    return {key: state.get(key, value) for key, value in converted.model.state_dict().items()}


def back_to_fluid(folder: Path, out: Path) -> list[str]:
    """Writes a conversion's present state_dict as Fluid's files, one per variable; their names.

    Raises EnforceNotMet where the folder is no conversion or the values have other shapes.
    """
    try:
        names = json.loads((folder / NAMES).read_text(encoding="utf-8"))
        program = (folder / PROGRAM).read_bytes()
        state = read_state(folder)
    except (OSError, ValueError) as error:
        raise EnforceNotMet(
            f"{folder} is no folder of `refluid convert --to torch`: {error}"
        ) from error
    parts: dict[str, list[tuple[Weight, Tensor]]] = defaultdict(list)
    shapes: dict[str, tuple[int, ...]] = {}
    for key, saved in names.items():
        origin, value = Origin.of_json(saved), state[key].detach().cpu()
        weight = origin.weight
        wanted = weight.shape or (origin.whole[::-1] if weight.turned else origin.whole)
        if value.numel() != torch.Size(wanted).numel():
            raise EnforceNotMet(f"{key} has shape {list(value.shape)}, not {list(wanted)}")
        parts[weight.name].append((weight, value))
        shapes[weight.name] = origin.whole
    files: dict[str, tuple[Path, Write]] = {}
    for name, found in parts.items():
        files[name] = file_to_write(out, name), _writing(to_variable(found, shapes[name]))
    write_files([*files.values(), (out / "__model__", lambda file: file.write(program))])
    return sorted(files)


def _writing(value: Tensor) -> Write:
    return lambda file: write_lod_tensor(file, value)


def read_state(folder: Path) -> dict[str, Tensor]:
    """The state_dict of a conversion: model.safetensors where that is newer, else model.pt."""
    safe, plain = folder / "model.safetensors", folder / WEIGHTS
    newer = safe.exists() and (not plain.exists() or safe.stat().st_mtime > plain.stat().st_mtime)
    if newer:
        found: dict[str, Tensor] = require("safetensors.torch").load_file(str(safe))
        return found
    state: dict[str, Tensor] = torch.load(plain, weights_only=True)
    return state
