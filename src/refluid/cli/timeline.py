"""`refluid timeline`: a profile file as a Chrome trace, for Perfetto and chrome://tracing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from google.protobuf.message import DecodeError

from refluid.cli.console import messages, refuse
from refluid.core.profiler_pb2 import Profile
from refluid.core.writing import write_whole
from refluid.fluid.profiling.trace import chrome_trace


def timeline(
    profile: Annotated[
        str | None, typer.Argument(help="A profile file, or name=file,name=file,... of several.")
    ] = None,
    out: Annotated[Path | None, typer.Argument(help="The trace to write.")] = None,
    profile_path: Annotated[
        str | None, typer.Option("--profile_path", help="PROFILE, as tools/timeline.py has it.")
    ] = None,
    timeline_path: Annotated[
        Path | None, typer.Option("--timeline_path", help="OUT, as tools/timeline.py has it.")
    ] = None,
) -> None:
    """Convert a profile file to a Chrome trace (JSON).

    Operators, communication, readers, what the user recorded, GPU kernels and memory are tracks
    of their own, one row per thread or stream.
    """
    source, target = profile_path or profile, timeline_path or out
    if source is None or target is None:
        refuse("give PROFILE and OUT.json (or --profile_path and --timeline_path)")
    trace = chrome_trace({name: load_profile(path) for name, path in named(source).items()})
    write_whole(target, json.dumps(trace))
    count = sum(entry["ph"] == "X" for entry in trace["traceEvents"])
    messages().print(f"refluid: {count} events in {target}; open it in ui.perfetto.dev")


def named(text: str) -> dict[str, Path]:
    """`trainer1=a,trainer2=b` as a mapping; one file alone has the name `trainer`."""
    if "=" not in text:
        return {"trainer": Path(text)}
    return {name: Path(path) for name, path in (part.split("=", 1) for part in text.split(","))}


def load_profile(path: Path) -> Profile:
    """Reads a profile file; refuses what is none."""
    if not path.is_file():
        refuse(f"no such profile file: {path}")
    found = Profile()
    try:
        found.ParseFromString(path.read_bytes())
    except DecodeError as error:
        refuse(f"{path} is no profile file: {error}")
    return found
