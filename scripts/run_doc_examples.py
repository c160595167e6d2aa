"""Runs the code examples of Fluid's API documentation, each in a process of its own.

    git clone -b release/1.8 https://github.com/PaddlePaddle/docs
    python scripts/run_doc_examples.py docs/doc/fluid/api_cn
    python scripts/run_doc_examples.py docs/doc/fluid/api_cn --only fluid.layers. --status FILE

An example belongs to the last function, class or method that its page declared above it. With
`--status` (a list of `{"id", "status"}`), those that Fluid itself ran are counted apart. With
`--repaired`, as Fluid's were: imports that an example forgot are there, and GPUs are the processor.
"""

from __future__ import annotations

import argparse
import io
import json
import multiprocessing
import os
import re
import sys
import tempfile
import textwrap
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

_DIRECTIVE = re.compile(r"^(\s*)\.\.\s*py:(\w+)::\s*([\w.]+)")
_CODE = re.compile(r"^(\s*)\.\.\s*code-block::\s*(\w*)")
_DYGRAPH = re.compile(r"dygraph|imperative|to_variable|in_dygraph_mode")


@dataclass
class Example:
    """Code of a documentation page. id: the name of what it shows, and its number there."""

    id: str
    page: str
    line: int
    code: str

    @property
    def is_static(self) -> bool:
        """Whether it builds programs rather than running operators at once."""
        return not _DYGRAPH.search(self.id + self.code)


@dataclass
class Outcome:
    """What became of an example: `ok`, `error` or `timeout`, and the last line of its error."""

    id: str
    status: str
    seconds: float
    static: bool
    said: str = ""


def examples(folder: Path) -> Iterator[Example]:
    """The Python examples of all pages below a folder."""
    counts: Counter[str] = Counter()
    for page in sorted(folder.rglob("*.rst")):
        for name, line, code in _blocks(page.read_text(encoding="utf-8").splitlines()):
            shown = name or page.stem
            yield Example(f"{shown}-{counts[shown]}", str(page.relative_to(folder)), line, code)
            counts[shown] += 1


def _blocks(lines: Sequence[str]) -> Iterator[tuple[str, int, str]]:
    """What each block of Python shows, its first line and its code."""
    scope, shown, number = "", "", 0
    while number < len(lines):
        declared, code = _DIRECTIVE.match(lines[number]), _CODE.match(lines[number])
        number += 1
        if declared:
            kind, name = declared[2], declared[3]
            inside = kind in ("method", "attribute", "staticmethod") and scope and "." not in name
            shown = f"{scope}.{name}" if inside else name
            scope = name if kind == "class" else scope
        if code and code[2] in ("python", "py", ""):
            first = number
            while number < len(lines) and _belongs(lines[number], len(code[1])):
                number += 1
            block = [one for one in lines[first:number] if not re.match(r"\s*:\w+:", one)]
            if any(map(str.strip, block)) and is_python(mended := tidy(block)):
                yield shown, first + 1, mended


def _belongs(line: str, indent: int) -> bool:
    return not line.strip() or _indent(line) > indent


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def tidy(block: Sequence[str]) -> str:
    """The code without the indent that pages give it.

    A line that stands deeper than it may, as some pages have it, is put where the last one stands.
    """
    lines = textwrap.dedent("\n".join(one.expandtabs(4) for one in block)).strip("\n").split("\n")
    for _ in lines:
        try:
            compile("\n".join(lines), "example", "exec")
        except IndentationError as error:
            number = (error.lineno or 1) - 1
            before = next((one for one in reversed(lines[:number]) if one.strip()), "")
            if not 0 <= number < len(lines) or "unexpected" not in error.msg:
                break
            lines[number] = " " * _indent(before) + lines[number].lstrip()
        except SyntaxError:
            break
    return "\n".join(lines) + "\n"


def is_python(code: str) -> bool:
    """Whether it is a program, rather than a drawing of a tensor or Python 2."""
    try:
        compile(code, "example", "exec")
    except SyntaxError:
        return False
    return True


def run(example: Example, patience: float, repaired: bool = False) -> Outcome:
    """Runs an example in a fork of this process, in an empty folder."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    begun = time.monotonic()
    child = context.Process(target=_child, args=(example, theirs, repaired), daemon=False)
    child.start()
    theirs.close()
    status, said = "timeout", f"not over after {patience:.0f} s"
    if ours.poll(patience):
        try:
            status, said = ours.recv()
        except EOFError:
            status, said = "error", "the process died"
    child.kill()
    child.join()
    return Outcome(example.id, status, time.monotonic() - begun, example.is_static, said)


def _child(example: Example, answer: Any, repaired: bool) -> None:
    shown = io.StringIO()
    given = _forgotten_imports() if repaired else {}
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(shown), redirect_stderr(shown):
        os.chdir(folder)
        try:
            path = Path(folder) / "example.py"
            path.write_text(example.code, encoding="utf-8")
            sys.argv = [str(path)]
            exec(compile(example.code, str(path), "exec"), given | {"__name__": "__main__"})
        except SystemExit as error:
            found = ("ok", "") if not error.code else ("error", f"exit {error.code}")
        except BaseException as error:
            found = "error", "".join(traceback.format_exception_only(error)).strip()[:2000]
        else:
            found = "ok", ""
        os.chdir("/")
    answer.send(found)
    answer.close()
    os._exit(0)


def _forgotten_imports() -> dict[str, Any]:
    """Modules by the names that examples use without importing them; no GPU from now on."""
    import math

    import numpy

    import refluid.paddle
    from refluid.core.places import stay_on_cpu

    refluid.paddle.install()
    stay_on_cpu()
    import paddle
    import paddle.fluid

    return {
        "fluid": paddle.fluid,
        "layers": paddle.fluid.layers,
        "math": math,
        "np": numpy,
        "numpy": numpy,
        "paddle": paddle,
    }


def main() -> int:
    """Prints each that fails, and how many ran."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="doc/fluid/api_cn of a checkout")
    parser.add_argument("--only", default="", help="examples whose id contains this")
    parser.add_argument("--repaired", action="store_true", help="forgotten imports, no GPU")
    parser.add_argument("--static", action="store_true", help="leave dygraph's out")
    parser.add_argument("--status", type=Path, help="what Fluid made of them: docs_status.json")
    parser.add_argument("--seconds", type=float, default=120, help="for each example (120)")
    parser.add_argument("--jobs", type=int, default=2, help="at the same time (2)")
    parser.add_argument("--json", type=Path, help="file for the outcomes")
    options = parser.parse_args()
    chosen = [one for one in examples(options.folder) if options.only in one.id]
    if options.static:
        chosen = [one for one in chosen if one.is_static]
    if not chosen:
        parser.error(f"no examples of {options.only!r} below {options.folder}")
    _warm_up()
    known = {}
    if options.status:
        known = {one["id"]: one["status"] for one in json.loads(options.status.read_text())}
    with ThreadPoolExecutor(options.jobs) as pool:
        outcomes = []
        for outcome in pool.map(lambda one: run(one, options.seconds, options.repaired), chosen):
            outcomes.append(outcome)
            if outcome.status != "ok":
                fluid = f" (Fluid: {known[outcome.id]})" if outcome.id in known else ""
                print(f"{outcome.id}: {outcome.status}{fluid}: {_brief(outcome.said)}", flush=True)
    _summary(outcomes, known)
    if options.json:
        options.json.write_text(json.dumps([asdict(one) for one in outcomes], indent=1))
    return int(any(one.status != "ok" for one in outcomes))


def _warm_up() -> None:
    """Imports what examples need before they are forked off."""
    import torch

    import refluid.paddle

    refluid.paddle.install()
    torch.set_num_threads(1)
    import paddle.fluid

    paddle.fluid.layers  # noqa: B018


def _brief(said: str) -> str:
    lines = said.splitlines()
    return lines[0][:160] if lines else ""


def _summary(outcomes: Sequence[Outcome], known: dict[str, str]) -> None:
    for kind, wanted in (("static", True), ("dygraph", False)):
        of_kind = [one for one in outcomes if one.static is wanted]
        ran = sum(one.status == "ok" for one in of_kind)
        print(f"{kind}: {ran} of {len(of_kind)} run")
        both = [one for one in of_kind if known.get(one.id) == "ok"]
        if both:
            also = sum(one.status == "ok" for one in both)
            print(f"{kind}, of those that Fluid runs: {also} of {len(both)}")


if __name__ == "__main__":
    sys.exit(main())
