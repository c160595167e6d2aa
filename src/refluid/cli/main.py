"""The `refluid` command. Each subcommand has its own module; `COMMANDS` lists them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any

import typer

from refluid import __version__
from refluid.cli.inspect import inspect
from refluid.cli.run import run
from refluid.cli.timeline import timeline
from refluid.cli.verify import verify

app = typer.Typer(
    name="refluid",
    help="Runs PaddlePaddle Fluid programs on PyTorch's kernels.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@dataclass(frozen=True)
class Command:
    """A subcommand: its function, and click's settings for its arguments."""

    function: Callable[..., None]
    settings: dict[str, Any] = field(default_factory=dict)


# What follows SCRIPT belongs to the script.
_PASS_ON = {"ignore_unknown_options": True, "allow_interspersed_args": False}

COMMANDS: dict[str, Command] = {
    "run": Command(run, _PASS_ON),
    "inspect": Command(inspect),
    "verify": Command(verify),
    "timeline": Command(timeline),
}

for _name, _command in COMMANDS.items():
    app.command(_name, context_settings=_command.settings)(_command.function)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"refluid {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Runs PaddlePaddle Fluid programs on PyTorch's kernels."""


if __name__ == "__main__":
    app()
