"""Converts the network of every recorded model and says which agree, in docs/convert.md.

    python -m scripts.convert_recordings FOLDER [--record]

FOLDER holds recordings of training (`zoo/MODEL`). Each program's first run is converted as in a
test and compared on the recorded inputs. Exit status 1 where outputs differ.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

from benchmarks.report import record
from refluid.convert import folder as folders
from refluid.convert.opening import fed
from refluid.convert.source import Source, from_training
from refluid.convert.table import NoCounterpart
from refluid.verify.recordings import load_recording

PAGE = Path(__file__).resolve().parent.parent / "docs" / "convert.md"
BOUND = 1e-5
# What counts equal scores may count others.
_COUNTS = frozenset(("accuracy",))


def networks(path: Path) -> Iterator[tuple[Source, dict[str, object]]]:
    """The network of each program of a recording, with what its first run was fed."""
    recording = load_recording(path)
    values = {name: torch.from_numpy(np.array(one.array)) for name, one in recording.state.items()}
    seen = set()
    for step in recording.steps:
        if step.program in seen:
            continue
        seen.add(step.program)
        program = recording.programs[step.program]
        counts = {
            name
            for op in program.global_block().ops
            if op.type in _COUNTS
            for name in op.output_arg_names
        }
        wanted = [one for one in step.fetches if one not in counts] or list(step.fetches)
        source = from_training(path.name, program, values, wanted, test=True)
        feeds = {name: fed(one.array, one.lengths) for name, one in step.feeds.items()}
        unknown = [name for name in source.feeds if name not in feeds]
        if unknown:
            raise NoCounterpart(f"variables that the network doesn't compute: {_kinds(unknown)}")
        yield source, {name: feeds[name] for name in source.feeds}


def _kinds(names: list[str]) -> str:
    """`a_0, a_1, b@GRAD` -> `gradients, a`."""
    kinds = {"gradients" if one.endswith("@GRAD") else one.rstrip("0123456789_") for one in names}
    return ", ".join(sorted(kinds))


def error_of(path: Path) -> float:
    """The largest difference over a model's programs. Raises NoCounterpart."""
    found = [folders.check(folders.convert(source), feeds) for source, feeds in networks(path)]
    return max(found, default=0.0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--record", action="store_true", help="write docs/convert.md")
    arguments = parser.parse_args()
    good, wrong, refused = [], [], {}
    for path in sorted(arguments.folder.iterdir()):
        if not (path / "steps.npz").exists():
            continue
        try:
            error = error_of(path)
        except NoCounterpart as reason:
            refused[path.name] = str(reason)
            print(f"{path.name}: {reason}", flush=True)
            continue
        (good if error <= BOUND else wrong).append(path.name)
        print(f"{path.name}: {error:.1e}", flush=True)
    if arguments.record:
        record(PAGE, "convert", "\n".join(_page(good, wrong, refused)))
    return 1 if wrong else 0


def _page(good: list[str], wrong: list[str], refused: dict[str, str]) -> Iterator[str]:
    total = len(good) + len(wrong) + len(refused)
    yield f"Of {total} recorded models {len(good)} convert, with outputs that agree at {BOUND:g}:"
    yield f"{', '.join(f'`{one}`' for one in good)}."
    yield ""
    if wrong:
        yield f"Outputs of {', '.join(f'`{one}`' for one in wrong)} differ."
        yield ""
    reasons = Counter(
        one
        for text in refused.values()
        for one in (text.split(": ", 1)[1].split(", ") if text.startswith("no PyTorch") else [text])
    )
    yield "| no counterpart | models |"
    yield "|---|---|"
    for reason, count in sorted(reasons.items(), key=lambda item: (-item[1], item[0])):
        yield f"| {reason} | {count} |"


if __name__ == "__main__":
    sys.exit(main())
