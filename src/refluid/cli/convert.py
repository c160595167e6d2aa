"""`refluid convert`: a saved model as PyTorch source and as files of other formats."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from refluid.cli.console import refuse

FORMATS = ("torch", "safetensors", "torch.export", "onnx", "fluid")
_AGREE = 1e-5


def convert(
    model: Annotated[
        Path,
        typer.Argument(help="A saved inference model, MODEL.pdmodel of fluid.save, a recording."),
    ],
    params: Annotated[
        Path | None, typer.Argument(help="The file of all parameters, where MODEL is a file.")
    ] = None,
    to: Annotated[str, typer.Option(help=f"One of {', '.join(FORMATS)}.")] = "torch",
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where to write.")] = Path(
        "converted"
    ),
    fetch: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="What a training program is to compute (its loss)."),
    ] = None,
) -> None:
    """Write a model as a PyTorch module (model.py, model.pt), run both and compare.

    --to fluid takes a folder of --to torch back to Fluid's files. Exit status 1 where the outputs
    differ, or an operator has no counterpart.
    """
    from refluid.core.errors import EnforceNotMet

    if to not in FORMATS:
        raise typer.BadParameter(f"{to!r}; the formats are {', '.join(FORMATS)}", param_hint="--to")
    try:
        error = _convert(model, params, to, out, fetch or [])
    except EnforceNotMet as failure:
        refuse(str(failure))
    if error > _AGREE:
        typer.echo(f"the outputs differ by {error:.1e} of the largest", err=True)
        raise typer.Exit(1)


def _convert(model: Path, params: Path | None, to: str, out: Path, fetch: list[str]) -> float:
    from refluid.convert import folder, opening

    if to == "fluid":
        names = folder.back_to_fluid(model, out)
        typer.echo(f"{out}: {len(names)} variables and __model__")
        return 0.0
    source, feeds = opening.open_model(model, params, fetch)
    converted = folder.convert(source)
    error = folder.check(converted, feeds)
    folder.save(converted, out)
    typer.echo(f"{out / folder.CODE}: outputs agree within {error:.1e} of the largest")
    if to != "torch":
        from refluid.convert import exports

        if to == "onnx":
            path, other = exports.to_onnx(converted, out)
            typer.echo(f"{path}: agrees within {other:.1e}")
            error = max(error, other)
        else:
            write = exports.to_safetensors if to == "safetensors" else exports.to_torch_export
            typer.echo(str(write(converted, out)))
    return error
