"""What can be fed, and what is said of the rest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from refluid import fluid
from refluid.core.arrays import NoTensorElements
from refluid.core.errors import EnforceNotMet
from refluid.core.lod_tensor import LoDTensor

SIX = np.arange(6).reshape(3, 2)


def _run(value: Any, shape: Any, dtype: str = "float32", *, checked: bool = True) -> Any:
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()):
        if checked:
            x = fluid.data("x", list(shape), dtype)
        else:
            x = fluid.layers.data("x", list(shape), append_batch_size=False, dtype=dtype)
        out = fluid.layers.scale(x, 1.0)
    return fluid.Executor().run(main, {"x": value}, [out], return_numpy=False)[0]


@pytest.mark.parametrize("checked", [True, False])
@pytest.mark.parametrize(
    "value, says",
    [
        (None, "give an array, not NoneType"),
        ("text", "give an array, not str"),
        (np.array(["a", "b"]), "Text has to become numbers"),
        (np.array([1, None], object), r"Python objects \(NoneType, int\)"),
        (SIX.astype("uint16"), r"an array of uint16 .*astype\('int64'\)"),
        (SIX.astype("uint32"), "an array of uint32"),
        (SIX.astype("uint64"), "an array of uint64"),
        (SIX.astype("clongdouble"), "complex64 and complex128"),
        (SIX.astype("complex64"), "real and imaginary parts"),
        (torch.ones(3, 2, dtype=torch.complex64), "real and imaginary parts"),
        (SIX.astype("M8[s]"), "Tensors hold bool, int8"),
        (torch.ones(3, 2, dtype=torch.uint16), "no torch.uint16"),
    ],
)
def test_what_is_no_tensor_is_refused_by_name(value: Any, says: str, checked: bool) -> None:
    with pytest.raises(TypeError, match=f"feed of 'x': .*{says}"):
        _run(value, [None, 2], checked=checked)


def test_shape_and_type_count_for_fluid_data_only() -> None:
    """`fluid.layers.data` takes what it is given, as Fluid documents."""
    other = SIX.astype("int64").reshape(6, 1)
    found = np.array(_run(other, [-1, 2], checked=False))
    assert found.dtype == np.int64
    assert np.array_equal(found, other)
    with pytest.raises(ValueError, match="The data type of fed Variable 'x'"):
        _run(other, [None, 2])
    with pytest.raises(ValueError, match="should have dimensions = 2"):
        _run(other.astype("float32"), [None, 2])
    wide = SIX.astype("float32") * np.sqrt(2)  # which NumPy 1 had left as narrow as it was
    if wide.dtype == np.float64:
        with pytest.raises(ValueError, match=r"NumPy 2 .* feed value.astype\('float32'\)"):
            _run(wide, [None, 2])


def test_an_empty_tensor_is_refused_by_name() -> None:
    with pytest.raises(EnforceNotMet, match="feed of 'x': the LoDTensor holds no data"):
        _run(LoDTensor(), [None, 2])


def test_big_endian_arrays_are_fed() -> None:
    for kind, dtype in ((">f4", "float32"), (">i8", "int64")):
        found = np.array(_run(SIX.astype(kind), [None, 2], dtype))
        assert found.dtype == dtype
        assert np.array_equal(found, SIX)


def _sequences(lengths: list[list[int]]) -> LoDTensor:
    return fluid.create_lod_tensor(SIX.astype("float32"), lengths, fluid.CPUPlace())


def test_rows_of_sequences_may_be_others_than_declared() -> None:
    """As recorded of Fluid (`faults/follow/lod_feed_with_fixed_rows`)."""
    for lengths in ([[1, 2]], [[2], [1, 2]]):
        found = _run(_sequences(lengths), [4, 2])
        assert found.recursive_sequence_lengths() == lengths
    with pytest.raises(ValueError, match="fed Variable 'x' should have dimensions = 2"):
        _run(_sequences([[1, 2]]), [4, 3])
    with pytest.raises(ValueError, match="fed Variable 'x' should have dimensions = 2"):
        _run(SIX.astype("float32"), [4, 2])


Set = Callable[[Any], Any]
SETS: dict[str, Set] = {
    "LoDTensor.set": lambda value: LoDTensor().set(value, fluid.CPUPlace()),
    "create_lod_tensor": lambda value: fluid.create_lod_tensor(value, [[3]], fluid.CPUPlace()),
}


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("kind", ["uint16", "uint32", "uint64", "clongdouble", "object", "U3"])
def test_tensors_of_what_is_none(name: str, kind: str) -> None:
    with pytest.raises(NoTensorElements, match=r"LoDTensor.set: an array of .* is no tensor"):
        SETS[name](SIX.astype(kind))


def test_big_endian_tensors() -> None:
    tensor = LoDTensor()
    tensor.set(SIX.astype(">i4"), fluid.CPUPlace())
    assert np.array(tensor).dtype == np.int32
    assert np.array_equal(np.array(tensor), SIX)


@pytest.mark.parametrize("sample", [("a", 1), ({}, 1), (1.0, None), (1.0, "a")])
def test_samples_that_are_no_numbers_name_the_variable(sample: Any) -> None:
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        x = fluid.data("x", [None, 1], "float32")
        y = fluid.data("y", [None, 1], "int64")
    name = "x" if sample[0] != 1.0 else "y"
    with pytest.raises(ValueError, match=rf"samples for '{name}' hold .*, which are no numbers"):
        fluid.DataFeeder([x, y], fluid.CPUPlace()).feed([sample, (1.0, 2)])


@pytest.mark.parametrize("value", [None, "text", SIX.astype("uint32")])
def test_batches_of_a_generator_name_the_variable(value: Any) -> None:
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()):
        x = fluid.data("x", [None, 2], "float32")
        loader = fluid.io.DataLoader.from_generator([x], capacity=2)
    loader.set_batch_generator(lambda: iter([[value]]), places=fluid.CPUPlace())
    with pytest.raises(Exception, match="what the generator gave for 'x'"):
        list(loader())


def _parallel(feed: Any) -> Any:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup):
        x, y = (fluid.data(one, [None, 2], "float32") for one in "xy")
        loss = fluid.layers.mean(fluid.layers.fc(x + y, 1))
        fluid.optimizer.SGD(0.1).minimize(loss)
    executor = fluid.Executor()
    with fluid.scope_guard(fluid.core.Scope()):
        executor.run(startup)
        program = fluid.CompiledProgram(main).with_data_parallel(
            loss_name=loss.name, places=[fluid.CPUPlace()] * 2
        )
        return executor.run(program, feed, [loss])


def test_compiled_programs_take_lists_of_rows() -> None:
    """Fluid's plain executor refuses them."""
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()):
        out = fluid.layers.scale(fluid.data("x", [None, 1], "int64"), 2.0)
    executor, feed = fluid.Executor(), {"x": [[1], [2]]}
    places = [fluid.CPUPlace()]
    compiled = fluid.CompiledProgram(main).with_data_parallel(places=places)
    assert executor.run(compiled, feed, [out])[0].tolist() == [[2], [4]]
    with pytest.raises(RuntimeError, match="Some of your feed data hold LoD information"):
        executor.run(main, feed, [out])


def test_lists_of_feeds_have_to_name_the_same_variables() -> None:
    one, other = ({name: np.ones((2, 2), "float32") for name in names} for names in ("xy", "x"))
    _parallel([one, one])
    with pytest.raises(ValueError, match=r"feed\[1\] lacks 'y', which feed\[0\] has"):
        _parallel([one, other])
    with pytest.raises(ValueError, match=r"feed\[0\] lacks 'y', which feed\[1\] has"):
        _parallel([other, one])
    with pytest.raises(TypeError, match=r"feed\[1\] must be a dict, not NoneType"):
        _parallel([one, None])


def test_what_layers_data_declares_is_not_checked() -> None:
    """As the documentation of `fluid.data` says of `fluid.layers.data`."""
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()):
        x = fluid.layers.data("x", [3], dtype="float32")
        y = fluid.layers.data("y", [3], dtype="float32")
        out = fluid.layers.elementwise_add(x, y)
    feed = {"x": np.array([2, 3, 4]), "y": np.array([1, 5, 2])}
    (found,) = fluid.Executor().run(main, feed, [out])
    assert (found.tolist(), found.dtype) == ([3, 8, 6], np.int64)
    with fluid.program_guard(main, fluid.Program()):
        fluid.data("z", [None, 3], "float32")
    with pytest.raises(ValueError, match="fed Variable 'z' should have dimensions = 2"):
        fluid.Executor().run(main, feed | {"z": np.ones(3, "float32")}, [out])


def test_the_declared_type_is_named_where_an_unchecked_feed_fails() -> None:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup):
        out = fluid.layers.fc(fluid.layers.data("x", [4]), 3)
    exe = fluid.Executor()
    exe.run(startup)
    with pytest.raises(EnforceNotMet, match="feed the declared type"):
        exe.run(main, {"x": np.ones((2, 4))}, [out])


@pytest.mark.parametrize("kind", ["cross_entropy", "softmax_with_cross_entropy"])
def test_a_label_declared_without_a_type_is_fed_as_integers(kind: str) -> None:
    """As in Fluid's guides: nothing looks at types before kernels run."""
    losses = []
    for dtype in ("float32", "int64"):
        main, startup = fluid.Program(), fluid.Program()
        with fluid.program_guard(main, startup), fluid.unique_name.guard():
            x, label = fluid.layers.data("x", [4]), fluid.layers.data("label", [1], dtype=dtype)
            weight = fluid.ParamAttr(initializer=fluid.initializer.Constant(0.1))
            out = fluid.layers.fc(x, 3, act="softmax", param_attr=weight)
            loss = fluid.layers.mean(getattr(fluid.layers, kind)(out, label))
            fluid.optimizer.SGD(0.5).minimize(loss)
        feed = {"x": np.ones((2, 4), "float32"), "label": np.array([[1], [2]])}
        with fluid.scope_guard(fluid.Scope()):
            exe = fluid.Executor()
            exe.run(startup)
            found = [exe.run(main, feed, [loss])[0].item() for _ in range(8)]
            losses.append(found)
            feed["label"] = np.array([[1], [2]], "float32")
            with pytest.raises(EnforceNotMet, match=rf"(?s){kind}.*dtype='int64'"):
                exe.run(main, feed, [loss])
    assert losses[0] == losses[1] and losses[0][-1] < losses[0][0]
