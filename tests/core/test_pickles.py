"""Pickled arrays: Fluid's files read and written byte for byte, hostile ones never executed."""

from __future__ import annotations

import builtins
import json
import os
import pickle
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refluid.core.errors import EnforceNotMet
from refluid.core.pickles import dump_arrays, load_arrays, load_state, load_state_bytes
from tests.golden import GOLDEN, needs_golden

SAVED = GOLDEN / "formats" / "fluid_save"
OLD, NEW = b"numpy.core.multiarray", b"numpy._core.multiarray"
KINDS = ["?", "i1", "u1", "i2", "i4", "i8", "f2", "f4", "f8", "c8"]


@needs_golden
@pytest.mark.parametrize("kind", ["pdparams", "pdopt"])
def test_files_of_fluid(tmp_path: Path, kind: str) -> None:
    facts = json.loads((GOLDEN / "formats" / "expected.json").read_text())["vars"]
    arrays = load_arrays(SAVED / f"model.{kind}")
    for name, array in arrays.items():
        assert array.dtype == facts[name]["dtype"]
        assert list(array.shape) == facts[name]["shape"]
        assert array.ravel().astype("f8").tolist() == facts[name]["values"]
        assert array.flags.writeable
        assert array.flags.c_contiguous
    dump_arrays(tmp_path / "w", arrays)
    assert (tmp_path / "w").read_bytes() == (SAVED / f"model.{kind}").read_bytes()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(), (0,), (1,), (2, 3), (2, 1, 3, 1)])
def test_there_and_back(tmp_path: Path, kind: str, shape: tuple[int, ...]) -> None:
    array = np.arange(np.prod(shape)).reshape(shape).astype(kind)
    dump_arrays(tmp_path / "w", {"a": array, "b": array.T})
    assert NEW not in (tmp_path / "w").read_bytes()
    for loaded in (
        load_arrays(tmp_path / "w"),
        load_state_bytes((tmp_path / "w").read_bytes().replace(OLD, NEW)).arrays,
    ):
        assert np.array_equal(loaded["a"], array)
        assert np.array_equal(loaded["b"], array.T)
        assert loaded["a"].dtype == array.dtype


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4])
def test_protocols_and_layouts(protocol: int) -> None:
    given: dict[str, Any] = {
        "f": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "big": np.arange(3, dtype=">i4"),
        "scalar": np.float32(2.5),
        "StructuredToParameterName@@": OrderedDict({"fc.weight": "fc_0.w_0"}),
        "LR_Scheduler": {"last_epoch": 3, "values": [0.1, (1, None)], "on": True},
    }
    state = load_state_bytes(pickle.dumps(given, protocol))
    for name in ("f", "big", "scalar"):
        assert np.array_equal(state.arrays[name], given[name])
        assert state.arrays[name].dtype.isnative
    assert state.others == {name: given[name] for name in list(given)[3:]}


def test_only_numbers_are_written(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="bad: only arrays of numbers"):
        dump_arrays(tmp_path / "w", {"bad": np.array(["text"])})
    dump_arrays(tmp_path / "w", {})
    assert load_state(tmp_path / "w") == ({}, {})


class Calls:
    """Pickles as a call of `function`."""

    def __init__(self, function: Any, *args: Any) -> None:
        self.call = (function, args)

    def __reduce__(self) -> Any:
        return self.call


MARK = "executed"
HOSTILE: dict[str, Any] = {
    "os.system": {"w": Calls(os.system, f"touch {MARK}")},
    "builtins.eval": {"w": Calls(eval, f"open('{MARK}', 'w')")},
    "as a name": {Calls(os.system, f"touch {MARK}"): np.zeros(1)},
    "nested": {"w": [np.zeros(1), {"x": (Calls(getattr, Calls(eval, "1"), "real"),)}]},
    "open": Calls(builtins.open, MARK, "w"),
    "array class": {"w": Calls(np.ndarray, (1 << 40,))},
    "numpy.load": {"w": Calls(np.load, MARK)},
    "object array": {"w": np.array([Calls(os.system, f"touch {MARK}")], dtype=object)},
    "record array": {"w": np.zeros(2, [("a", "i4")])},
    "dates": {"w": np.zeros(2, "M8[s]")},
    "no dict": [np.zeros(1)],
    "number as name": {1: np.zeros(1)},
    "function": {"w": np.ndarray},
}


@pytest.mark.parametrize("protocol", [0, 2, 4])
@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_content_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: Any, protocol: int
) -> None:
    monkeypatch.chdir(tmp_path)
    data = pickle.dumps(content, protocol)
    Path("model.pdparams").write_bytes(data)
    with pytest.raises(EnforceNotMet, match=r"model\.pdparams: cannot be loaded"):
        load_arrays("model.pdparams")
    assert os.listdir() == ["model.pdparams"]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x80\x02cos\nsystem\n.", "os.system"),
        (b"\x80\x02cnumpy\nndarray\n}X\x01\x00\x00\x00aK\x01sb.", "changes a function"),
        (b"\x80\x02cnumpy\nndarray\n)\x81.", "NEWOBJ"),
        (b"\x80\x02c_codecs\nencode\nX\x01\x00\x00\x00aX\x05\x00\x00\x00utf-8\x86R.", "utf-8"),
        (b"\x80\x02}.}", "1 bytes follow"),
        (b"\x80\x02P0\n.", "cannot be loaded"),
        (b"\x80\x02\x82\x01.", "cannot be loaded"),
        (b"\x80\x02}X\x01\x00\x00\x00ah\x07s.", "cannot be loaded"),
        (b"\x80\x02}q\x00X\x01\x00\x00\x00ah\x00s.", "cannot be loaded"),
    ],
)
def test_hostile_opcodes(data: bytes, message: str) -> None:
    with pytest.raises(EnforceNotMet, match=message):
        load_state_bytes(data)


@pytest.mark.parametrize(
    "state",
    [
        (1, (1 << 50,), "f4", False, b"\0" * 4),
        (1, (-1, -1), "f4", False, b"\0" * 4),
        (1, (1,), None, False, b"\0" * 4),
        (1, (1,), "f4", False, [1.0]),
        (1, ("1",), "f4", False, b"\0" * 4),
        (1, (1,)),
    ],
)
def test_damaged_array_states(state: tuple[Any, ...]) -> None:
    class Damaged:
        def __reduce__(self) -> Any:
            build = np.zeros(1).__reduce__()
            fixed = tuple(np.dtype(part) if part == "f4" else part for part in state)
            return build[0], build[1], fixed

    with pytest.raises(EnforceNotMet, match="cannot be loaded"):
        load_state_bytes(pickle.dumps({"w": Damaged()}, 2))


def test_every_truncation_is_refused(tmp_path: Path) -> None:
    dump_arrays(tmp_path / "w", {"a": np.zeros(3), "b": np.ones((1, 2), "f4")})
    whole = (tmp_path / "w").read_bytes()
    for size in range(len(whole)):
        with pytest.raises(EnforceNotMet):
            load_state_bytes(whole[:size])


def test_a_place_in_the_memo_that_would_take_all_memory() -> None:
    data = b"\x80\x02}r\xff\xff\xff\x3f."  # an empty dict, kept at place 2**30 - 1
    with pytest.raises(EnforceNotMet, match="numbers a value 1073741823 in 9 bytes"):
        load_state_bytes(data)
