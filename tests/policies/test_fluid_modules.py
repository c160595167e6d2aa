"""What stands in `fluid/` itself are Fluid's modules; what these are made of has folders."""

from __future__ import annotations

import json
from pathlib import Path

from tests.golden import GOLDEN, needs_golden

FLUID = Path(__file__).resolve().parents[2] / "src" / "refluid" / "fluid"
# The names of `fluid` itself, and modules of earlier Fluid 1.x.
OWN = {"__init__", "public"} | {"async_executor", "data_generator"} | {"dygraph_grad_clip"}
# What Fluid's modules are made of here.
FOLDERS = {"clipping", "datasets", "functions", "graphs", "inference", "profiling", "saving"}


@needs_golden
def test_modules_are_fluids() -> None:
    surface = json.loads((GOLDEN / "api_surface.json").read_text())
    known = {name.removeprefix("paddle.fluid.") for name in surface["modules"]}
    known |= {name.removeprefix("paddle.fluid.") for name in surface["failed_imports"]}
    modules = {path.stem for path in FLUID.glob("*.py")}
    assert modules - known == OWN, "a module that Fluid lacks belongs into a folder"
    folders = {path.parent.name for path in FLUID.glob("*/__init__.py")}
    assert folders - known == FOLDERS
