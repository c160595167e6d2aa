"""What layers on sequences declare, and what they refuse when a program is built."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from refluid import fluid
from refluid.core.errors import EnforceNotMet

layers = fluid.layers


@pytest.fixture(autouse=True)
def _in_a_program() -> Iterator[None]:
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        yield


def _rows(name: str, *sizes: int | None, level: int = 0, kind: str = "float32") -> Any:
    return fluid.data(name, list(sizes), kind, lod_level=level)


RECURRENT: dict[str, Callable[[Any, Any], Any]] = {
    "dynamic_lstm h_0": lambda x, h: layers.dynamic_lstm(x, 12, h_0=h, c_0=_rows("c", None, 3)),
    "dynamic_lstm c_0": lambda x, h: layers.dynamic_lstm(x, 12, h_0=_rows("c", None, 3), c_0=h),
    "dynamic_lstmp h_0": lambda x, h: layers.dynamic_lstmp(x, 12, 3, h_0=h),
    "dynamic_gru h_0": lambda x, h: layers.dynamic_gru(x, 3, h_0=h),
}


@pytest.mark.parametrize("name", RECURRENT)
def test_initial_states_declare_as_many_rows_as_the_input(name: str) -> None:
    columns = 9 if "gru" in name else 12
    x = _rows("x", None, columns, level=1)
    RECURRENT[name](x, _rows("right", None, 3))
    for number, sizes in enumerate([(3, 3), (None, 4)]):
        with pytest.raises(AssertionError, match=r"should be \(batch_size, 3\)"):
            RECURRENT[name](x, _rows(f"wrong{number}", *sizes))


def test_lengths_for_edit_distance_declare_as_many_rows_as_the_ids() -> None:
    ids = [_rows(name, None, size, kind="int64") for name, size in (("x", 4), ("y", 5))]
    lengths = [_rows(name, 3, kind="int64") for name in ("a", "b")]
    with pytest.raises(EnforceNotMet, match="must declare the same first size"):
        layers.edit_distance(*ids, input_length=lengths[0], label_length=lengths[1])
    lengths = [_rows(name, None, kind="int64") for name in ("c", "d")]
    out, number = layers.edit_distance(*ids, input_length=lengths[0], label_length=lengths[1])
    assert (out.shape, number.shape) == ((-1, 5), (1,))


def test_declared_levels() -> None:
    x = _rows("x", None, 4, level=2)
    place = _rows("place", None, 1, kind="int64")
    assert layers.sequence_reshape(x, 2).lod_level == 1
    assert layers.sequence_slice(x, place, place).lod_level == 0
    assert layers.sequence_softmax(x).lod_level == 2


def test_lengths_of_decoded_batches_are_as_many_as_the_batch() -> None:
    steps = _rows("steps", None, 5, 5)
    _, length = layers.ctc_greedy_decoder(steps, 0, input_length=_rows("n", 2, 1, kind="int64"))
    assert length.shape == (-1, 1)


def test_bidirectional_lstms_reshape_one_state_after_the_other() -> None:
    x = _rows("x", 2, 4, 5)
    fluid.contrib.layers.basic_lstm(x, None, None, 3, num_layers=2, bidirectional=True)
    made = [op.type for op in fluid.default_main_program().global_block().ops]
    assert made[-6:] == ["concat", "concat", "reshape2", "concat", "reshape2", "transpose2"]
