"""Options of a fleet together: the numbers of one process, or an error that names both."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refluid.paddle.distributed import fleet
from refluid.paddle.distributed.fleet.base.excluding import why_not
from tests.choices import often
from tests.collective import combining
from tests.collective.combining import Combination
from tests.collective.jobs import as_trainers

# What one process can be asked for as well, and where workers differ from each other.
ALIKE = ("amp", "recompute", "merge", "lars", "lamb", "dgc")
LOCAL = ("localsgd", "adaptive")


def plain(names: Sequence[str]) -> tuple[str, ...]:
    """Those options that change numbers beyond rounding."""
    return tuple(one for one in combining.OPTIONS if one in names and one in (*ALIKE, *LOCAL))


def assert_alike(name: str, found: list[Any], wanted: list[Any], loose: float) -> None:
    """Losses, and parameters as they were saved, of some workers and of others or of one."""
    losses, others = (np.mean([one[0] for one in several], 0) for several in (found, wanted))
    np.testing.assert_allclose(losses, others, rtol=max(loose / 2, 1e-5), err_msg=name)
    for rank, (_, _, saved) in enumerate(found):
        for parameter, value in wanted[rank % len(wanted)][2].items():
            if parameter in saved and ".w_" in parameter and "_0_" not in parameter:
                bounds = {"rtol": max(loose, 1e-5), "atol": max(loose, 1e-6)}
                np.testing.assert_allclose(saved[parameter], value, err_msg=name, **bounds)


def check(combinations: list[Combination], folder: Path) -> None:
    """Trains by each of the combinations with two workers."""
    local = {(by, plain(names)): None for by, names in combinations if {*LOCAL} & {*names}}
    asked = [*combinations, *local]
    trained = as_trainers(2, combining.outcomes, asked, folder=folder)
    assert all(isinstance(one, list) for one in trained), trained
    by_key = {key: [one[asked.index(key)] for one in trained] for key in local}
    fleet.init(is_collective=True)
    for number, (optimizer, names) in enumerate(combinations):
        found, key = [one[number] for one in trained], (optimizer, plain(names))
        told = f"{optimizer} with {', '.join(names)}"
        apart = combining.excluded(names)
        if apart:
            text = found[0]
            assert isinstance(text, str) and text.startswith("ValueError"), (told, found)
            assert all(field_of(one) in text for one in apart[0]), (told, text)
            continue
        assert not any(isinstance(one, str) for one in found), (told, found)
        if key not in by_key:
            by_key[key] = [combining.outcome(*key)]
        # bfloat16 has 8 bits, sums of 16 bits on the wire 11, of every step.
        loose = 2e-2 if {"amp", "16 bits"} & {*names} else 0.0
        assert_alike(told, found, by_key[key], loose)


def field_of(name: str) -> str:
    """The switch of the strategy by which an option is set."""
    return next(iter(combining.OPTIONS[name][1]))


@pytest.mark.parametrize("pair", [*itertools.combinations(combining.OPTIONS, 2)], ids=" and ".join)
def test_what_excludes_what(pair: tuple[str, str]) -> None:
    fields = [field_of(one) for one in pair]
    if fields[0] != fields[1]:
        assert bool(why_not(fields)) == bool(combining.excluded(pair)), why_not(fields)
        assert all(one in why_not(fields) for one in fields) or not why_not(fields)


def test_what_local_steps_do_without(caplog: pytest.LogCaptureFixture) -> None:
    fleet.init(is_collective=True)
    combining.outcome("momentum", ("localsgd", "16 bits", "reduce", "sync norm"))
    said = [line for line in caplog.messages if "has no effect with LocalSGD" in line]
    assert len(said) == 3 and "sync_batch_norm" in said[0]


@pytest.mark.parametrize("count", often([3, 10], [3]))
def test_some_options_together(count: int, tmp_path: Path) -> None:
    known: list[Combination] = [
        ("adam", ("amp", "merge", "stage 1")),
        ("clipped", ("amp", "merge", "stage 3")),
    ]
    check([*known, *combining.draws(5, count)], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(6))
def test_all_pairs(part: int, tmp_path: Path) -> None:
    check(combining.pairs()[part::6], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_many_options_together(seed: int, tmp_path: Path) -> None:
    check(combining.draws(seed, 20), tmp_path)
