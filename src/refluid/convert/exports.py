"""Other formats: safetensors, torch.export and ONNX, each by its own well-kept library."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from refluid.convert.checking import (
    largest_error,
    lengths_of,
    run_module,
    sample_feeds,
    tensor_of,
)
from refluid.convert.folder import Converted
from refluid.convert.optional import require
from refluid.core.errors import EnforceNotMet

OPSET = 18


def to_safetensors(converted: Converted, folder: Path) -> Path:
    """The state_dict as model.safetensors."""
    path = folder / "model.safetensors"
    state = {key: value.contiguous() for key, value in converted.model.state_dict().items()}
    require("safetensors.torch").save_file(state, str(path))
    return path


def exported(converted: Converted) -> Any:
    """The module as `torch.export` has it; unknown first dimensions stay unknown.

    Raises EnforceNotMet where the module's Python depends on values.
    """
    arguments, dynamic = _example(converted)
    try:
        return torch.export.export(converted.model, arguments, dynamic_shapes=dynamic)
    except Exception:  # some dimensions are tied to others: then all are as in the example
        try:
            return torch.export.export(converted.model, arguments)
        except Exception as error:
            raise EnforceNotMet(f"torch.export can't follow the module: {error}") from error


def to_torch_export(converted: Converted, folder: Path) -> Path:
    """The module as model.pt2."""
    path = folder / "model.pt2"
    torch.export.save(exported(converted), path)
    return path


def to_onnx(converted: Converted, folder: Path) -> tuple[Path, float]:
    """The module as model.onnx, and how far its outputs are from the module's.

    Raises EnforceNotMet with the operators that ONNX lacks.
    """
    require("onnx")
    require("onnxscript")
    runtime = require("onnxruntime")
    path = folder / "model.onnx"
    names = list(converted.written.arguments.values())
    try:
        torch.onnx.export(
            exported(converted),
            (),
            str(path),
            input_names=names,
            opset_version=OPSET,
            dynamo=True,
            verbose=False,
        )
    except Exception as error:
        raise EnforceNotMet(f"ONNX has no counterpart: {str(error).splitlines()[0]}") from error
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    arguments, _ = _example(converted)
    given = {
        one.name: value.numpy() for one, value in zip(session.get_inputs(), arguments, strict=True)
    }
    found = [torch.from_numpy(one) for one in session.run(None, given)]
    feeds = sample_feeds(converted.source)
    return path, largest_error(found, run_module(converted.model, converted.source, feeds))


def _example(converted: Converted) -> tuple[tuple[torch.Tensor, ...], Any]:
    """Arguments of the module, and which of their first dimensions are unknown."""
    source = converted.source
    feeds = sample_feeds(source)
    arguments = [tensor_of(feeds[name]) for name in source.feeds]
    arguments += [lengths_of(feeds[name]) for name in source.sequences()]
    batch = torch.export.Dim("batch")
    unknown = [source.var(name).shape[:1] == (-1,) for name in source.feeds]
    dynamic = [{0: batch} if one else None for one in unknown]
    dynamic += [{0: batch}] * len(source.sequences())
    return tuple(arguments), tuple(dynamic)
