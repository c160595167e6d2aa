"""Where refluid's own words go: stderr, so that a script's output stays the script's."""

from __future__ import annotations

import sys
from typing import NoReturn

import typer
from rich.console import Console


def messages() -> Console:
    """The console for messages."""
    return Console(stderr=True, highlight=False)


def results() -> Console:
    """The console for what a command was asked for. Lines aren't cut where it is no terminal."""
    console = Console(highlight=False)
    if not sys.stdout.isatty():
        console.width = 160
    return console


def refuse(message: str) -> NoReturn:
    """Says what is wrong with the command line and ends with status 2."""
    messages().print(f"refluid: {message}", style="red", markup=False, soft_wrap=True)
    raise typer.Exit(2)
