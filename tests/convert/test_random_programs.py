"""Random small programs: what converts gives the program's outputs; what doesn't says why."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
import torch

from refluid import fluid
from refluid.convert import folder as folders
from refluid.convert.checking import largest_error, run_module, run_program
from refluid.convert.source import from_training
from refluid.convert.table import NoCounterpart
from refluid.core.errors import EnforceNotMet
from tests.fuzzing import values
from tests.fuzzing.programs import build, draw_spec, feed_of
from tests.fuzzing.running import initial

SEEDS = range(120)
_TOO_LARGE = "too small|smaller than kernel|half of effective kernel|greater than actual input"


def error_of(seed: int) -> float | None:
    """How far the module is from the program; None where it isn't converted."""
    spec = replace(draw_spec(seed), trains=False)
    built = build(spec)
    start = {name: torch.from_numpy(one) for name, one in initial(built).items()}
    try:
        source = from_training(f"seed {seed}", built.main, start, built.fetches[:1], test=True)
        converted = folders.convert(source)
    except NoCounterpart:
        return None
    step = replace(spec.steps[0], kind=values.ORDINARY, layout=values.LAYOUTS[0])
    feeds = feed_of(spec, step)
    given = {name: feeds[name] for name in source.feeds}
    try:
        expected = run_program(source, given)
    except EnforceNotMet:  # what the program itself refuses
        return None
    try:
        return largest_error(run_module(converted.model, source, given), expected)
    except RuntimeError as error:  # of windows that are larger than the image
        if not re.search(_TOO_LARGE, str(error)):
            raise
        return None


@pytest.mark.filterwarnings("ignore")
def test_random_programs() -> None:
    errors = {seed: error_of(seed) for seed in SEEDS}
    converted = {seed: one for seed, one in errors.items() if one is not None}
    assert len(converted) > len(SEEDS) / 6, "hardly any is converted"
    assert {seed: one for seed, one in converted.items() if one > 1e-5} == {}


@pytest.mark.parametrize("dtype", ["int64", "int32", "float32"])
def test_remainders_have_the_sign_that_fluid_gives_them(dtype: str) -> None:
    main = fluid.Program()
    with fluid.unique_name.guard(), fluid.program_guard(main, fluid.Program()):
        x, y = (fluid.data(name, [None], dtype) for name in "xy")
        out = fluid.layers.elementwise_mod(x, y)
    source = from_training("remainders", main, {}, [out.name], test=True)
    numbers = np.array([7, -7, 7, -7, 0]), np.array([3, 3, -3, -3, 3])
    given = {name: value.astype(dtype) for name, value in zip("xy", numbers, strict=True)}
    found = run_module(folders.convert(source).model, source, given)
    assert largest_error(found, run_program(source, given)) == 0
