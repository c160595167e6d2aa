"""Loops give the same as machine code that was kept, as numba's in the process, and as Python."""

from __future__ import annotations

import ctypes
import importlib
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from refluid.core import flags
from refluid.kernels import machine_code
from refluid.kernels.argument_kinds import address_of
from refluid.kernels.compiled import CompiledLoop, bound

_SOURCE = """
import numpy as np
from refluid.kernels.compiled import compiled

FACTOR = {factor}
STEPS = np.array([1, 2, {factor}])

@compiled
def part(numbers, place):
    return numbers[place % len(numbers)] * FACTOR

@compiled
def weigh(table, index, both, count, scale, wide, flag):
    low, high = both
    total = 0
    for i in range(count):
        for column in range(table.shape[1]):
            value = table[index[i], column]
            if flag or low[i] <= value:
                high[i] += scale * value + part(STEPS, i) + float(wide % np.uint64(7))
                total += 1
    return total
"""
KINDS = (np.float32, np.float64)

pytestmark = pytest.mark.skipif(not machine_code.linker(), reason="no linker, or not Linux")


def loop_of(factor: int = 3) -> CompiledLoop:
    names: dict[str, Any] = {"__name__": "loops"}
    exec(compile(_SOURCE.format(factor=factor), "<loops>", "exec"), names)
    found = names["weigh"]
    assert isinstance(found, CompiledLoop)
    return found


def drawn(seed: int) -> list[Any]:
    draws = np.random.default_rng(seed)
    kind = KINDS[seed % 2]
    height, width, count = (int(n) for n in draws.integers(1, 30, 3))
    table = draws.standard_normal((height, width)).astype(kind)
    index = draws.integers(0, height, count)
    both = draws.standard_normal(count).astype(kind), np.zeros(count, kind)
    wide = np.uint64(draws.integers(0, 2**63)) * np.uint64(2)
    return [table, index, both, count, float(draws.random()), wide, bool(seed % 3)]


def in_python(loop: CompiledLoop, given: list[Any]) -> tuple[int, Any]:
    table, index, (low, high), *rest = given
    found = high.copy()
    known = loop.function.__globals__
    plain = {"part": known["part"].function}
    before = {name: known[name] for name in plain}
    known.update(plain)
    try:
        return loop.function(table, index, (low, found), *rest), found
    finally:
        known.update(before)


def by_loop(loop: CompiledLoop, given: list[Any], of_torch: bool) -> tuple[int, Any]:
    table, index, (low, high), *rest = given
    high = high.copy()
    change = torch.from_numpy if of_torch else lambda one: one
    both = change(low), change(high)
    return loop(change(table), change(index), both, *rest), high


@pytest.mark.parametrize("kept", [True, False])
def test_all_give_the_same(folder: Path, kept: bool) -> None:
    with flags.override({"FLAGS_refluid_kept_loops": kept}):
        loop = loop_of()
        for seed in range(24):
            given = drawn(seed)
            wanted, sums = in_python(loop, given)
            for of_torch in (True, False):
                found, high = by_loop(loop, given, of_torch)
                assert int(found) == wanted
                np.testing.assert_allclose(high, sums, rtol=1e-6 if seed % 2 else 1e-4)
    assert bool(list(folder.glob("weigh-*.so"))) is kept


def test_arrays_with_gaps(folder: Path) -> None:
    loop, (table, index, both, *rest) = loop_of(), drawn(4)
    wanted, sums = in_python(loop, [table, index, both, *rest])
    gaps = np.repeat(table, 2, axis=1)[:, ::2]
    assert by_loop(loop, [table, index, both, *rest], True)[0] == wanted  # what comes first
    found, high = by_loop(loop, [gaps, index, both, *rest], True)
    assert found == wanted
    np.testing.assert_allclose(high, sums, rtol=1e-4)


def test_a_changed_constant_or_callee_is_other_code(folder: Path) -> None:
    given = drawn(1)
    for factor in (3, 5):
        loop = loop_of(factor)
        np.testing.assert_allclose(by_loop(loop, given, True)[1], in_python(loop, given)[1])
    assert len(list(folder.glob("weigh-*.so"))) == 2


_WRITTEN = """
from refluid.kernels.by_numba import intrinsic
from refluid.kernels.compiled import compiled

MORE = {more}

def _adding():
    def write(ir, numba):
        def generate(context, builder, signature, given):
            return builder.add(given[0], ir.IntType(64)(MORE))

        return lambda _typing, number: (numba.types.int64(number), generate)

    return intrinsic(write)

more_than = _adding()

@compiled
def risen(numbers):
    return more_than(numbers[0])
"""


def test_changed_code_of_llvm_is_other_code(folder: Path, tmp_path: Path) -> None:
    for more in (3, 5):
        path = tmp_path / f"written{more}.py"
        path.write_text(_WRITTEN.format(more=more))
        names: dict[str, Any] = {"__name__": "written"}
        exec(compile(path.read_text(), str(path), "exec"), names)
        assert names["risen"](np.array([4])) == 4 + more
    assert len(list(folder.glob("risen-*.so"))) == 2


def test_changed_code_that_it_uses_of_its_package_is_other_code(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "written_apart"
    package.mkdir()
    text = _WRITTEN.replace("MORE = {more}", "from written_apart.by_how_much import how_much")
    (package / "adding.py").write_text(text.replace("(MORE)", "(how_much())"))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # both are as old
    for more in (3, 5):
        (package / "by_how_much.py").write_text(f"def how_much():\n    return {more}\n")
        adding = importlib.import_module("written_apart.adding")
        assert adding.risen(np.array([4])) == 4 + more
        for name in [one for one in sys.modules if one.startswith("written_apart")]:
            monkeypatch.delitem(sys.modules, name)
    assert len(list(folder.glob("risen-*.so"))) == 2


def test_what_is_there_is_taken(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = drawn(2)
    by_loop(loop_of(), given, True)
    monkeypatch.setattr(machine_code, "_make", lambda *_: pytest.fail("made again"))
    loop = loop_of()
    assert by_loop(loop, given, True)[0] == in_python(loop, given)[0]


def test_damaged_code_is_replaced(folder: Path) -> None:
    given = drawn(2)
    by_loop(loop_of(), given, True)
    (library,) = folder.glob("weigh-*.so")
    fresh = folder / "fresh.so"
    library.rename(fresh)
    library.write_bytes(fresh.read_bytes()[:100])
    loop = loop_of()
    assert by_loop(loop, given, True)[0] == in_python(loop, given)[0]
    ctypes.CDLL(str(library))


def test_where_nothing_can_be_written(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(machine_code, "_folders", lambda *_, **__: iter([Path("/proc/nowhere")]))
    loop, given = loop_of(), drawn(5)
    with caplog.at_level(logging.DEBUG, "refluid"):
        assert by_loop(loop, given, True)[0] == in_python(loop, given)[0]
    assert "no folder takes it" in caplog.text


def test_a_loop_that_makes_arrays(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    names: dict[str, Any] = {"np": np}
    exec("def count(n):\n    return len(np.zeros(n))", names)
    with caplog.at_level(logging.DEBUG, "refluid"):
        assert CompiledLoop(names["count"])(7) == 7
    assert "it needs NRT" in caplog.text and not list(folder.glob("*.so"))


_STEP = """
import sys, torch
from refluid.kernels.rows.lookup import look_up
from refluid.kernels.rows.updates import descend_rows
table, rows = torch.ones(5, 3), torch.tensor([1, 4])
descend_rows(table, rows, look_up(table, rows), 0.5)
assert table.sum() == 12, table
print("numba" in sys.modules)
"""


def test_numba_is_not_imported_where_code_is_kept() -> None:
    said = [
        subprocess.run([sys.executable, "-c", _STEP], capture_output=True, text=True, check=True)
        for _ in range(2)
    ]
    assert said[-1].stdout.strip() == "False", said[-1].stderr


def test_addresses_are_those_of_the_arrays() -> None:
    whole = np.arange(12.0)
    fixed = whole.copy()
    fixed.flags.writeable = False
    for one in (whole, whole[3:], whole.reshape(3, 4), fixed, np.empty(0), np.array(3.5)):
        assert address_of(one) == one.ctypes.data


def test_arguments_may_be_an_empty_tuple(folder: Path) -> None:
    names: dict[str, Any] = {"__name__": "loops"}
    source = "@compiled\ndef first(numbers, none):\n    return numbers[0] + len(none)\n"
    exec("from refluid.kernels.compiled import compiled\n" + source, names)
    assert names["first"](np.array([7, 8]), ()) == 7
    assert [one.suffix for one in folder.iterdir()] == [".so"]


_COUNTING = """
from refluid.kernels.compiled import compiled

@compiled
def note(pair, factor, number):
    places, found = pair
    found[number] += factor * places[number] + number
    return number + len(found)

@compiled
def plain(found, factor):
    found[0] = factor
"""


@pytest.mark.parametrize("kept", [True, False])
def test_bound_arguments(folder: Path, kept: bool) -> None:
    """A call with the last number is a call with all, and what was bound isn't freed."""
    names: dict[str, Any] = {"__name__": "loops"}
    exec(compile(_COUNTING, "<counting>", "exec"), names)
    with flags.override({"FLAGS_refluid_kept_loops": kept}):
        found = torch.zeros(1000)
        run = bound(names["note"], (torch.arange(1000.0) / 8, found), 3.0)
        holders = [torch.full((1000,), float(one)) for one in range(50)]  # in memory let go
        draws = np.random.default_rng(1)
        for number in draws.permutation(1000):
            assert run(int(number)) == number + 1000
        np.testing.assert_allclose(found, 3 * np.arange(1000) / 8 + np.arange(1000))
        assert len(holders) == 50
        other = torch.zeros(4, dtype=torch.float64)
        bound(names["note"], (torch.ones(4, dtype=torch.float64), other), 2.0)(3)
        assert other.tolist() == [0, 0, 0, 5]
        names["plain"](other, 1.5)
        assert other[0] == 1.5
