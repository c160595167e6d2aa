"""The `refluid` command. Each subcommand has a module of its name, imported when it is called."""

from __future__ import annotations

import importlib
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from refluid import __version__

# What follows SCRIPT belongs to the script.
_PASS_ON = {"ignore_unknown_options": True, "allow_interspersed_args": False}

# In the order of the help, each with click's settings for its arguments.
COMMANDS: dict[str, dict[str, Any]] = {
    "run": _PASS_ON,
    "launch": _PASS_ON,
    "check": {},
    "inspect": {},
    "verify": {},
    "timeline": {},
    "record": _PASS_ON,
    "convert": {},
    "tables": {"ignore_unknown_options": True},
    "servers": {},
    "certs": {},
    "doctor": {},
    "prepare": {},
    "tune": _PASS_ON,
}


class _Commands(TyperGroup):
    def list_commands(self, _ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, _ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        function = getattr(importlib.import_module(f"refluid.cli.{cmd_name}"), cmd_name)
        alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        alone.command(cmd_name, context_settings=COMMANDS[cmd_name])(function)
        return typer.main.get_command(alone)


app = typer.Typer(
    name="refluid",
    cls=_Commands,
    help="Runs PaddlePaddle Fluid programs on PyTorch's kernels.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


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
