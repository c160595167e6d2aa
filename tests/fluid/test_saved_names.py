"""Variables are saved inside the folder whatever their names, and only what fits is loaded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import refluid.fluid as fluid
from refluid.core.codec import encode_lod_tensor
from refluid.core.folders import file_of
from refluid.fluid.core import EnforceNotMet
from refluid.ir.program import Program

EXE = fluid.Executor()
OUTSIDE = ["../x", "../../x", "a/../../x", "/abs", "//abs", "..", ".", "", "a/..", "n\0l", "./../x"]


@pytest.fixture(autouse=True)
def scope() -> Iterator[fluid.Scope]:
    with fluid.scope_guard(fluid.Scope()):
        yield fluid.global_scope()


def program(name: str, shape: tuple[int, ...] = (2, 3), dtype: str = "float32") -> fluid.Program:
    """A program as read from a file, with a variable of that name, which has a value."""
    main = fluid.Program()
    block = main.global_block()
    block.create_var(name=name, shape=shape, dtype=dtype, persistable=True)
    block.create_var(name="out", shape=shape, dtype=dtype)
    block.append_op(type="scale", inputs={"X": [name]}, outputs={"Out": ["out"]})
    value = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    fluid.global_scope().var(name).get_tensor().set(value, fluid.CPUPlace())
    return Program.parse_from_string(main.serialize_to_string())


def tree(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


def save_inference(main: fluid.Program, folder: Path) -> None:
    fluid.io.save_inference_model(folder, [], [main.global_block().var("out")], EXE, main)


USES: dict[str, Callable[[fluid.Program, Path], Any]] = {
    "save_persistables": lambda main, at: fluid.io.save_persistables(EXE, at, main),
    "save_vars": lambda main, at: fluid.io.save_vars(EXE, at, main, predicate=lambda var: True),
    "save_inference_model": save_inference,
    "load_persistables": lambda main, at: fluid.io.load_persistables(EXE, at, main),
    "load_vars": lambda main, at: fluid.io.load_vars(
        EXE, at, main, predicate=fluid.io.is_persistable
    ),
    "load": lambda main, at: fluid.load(main, str(at), EXE, list(main.list_vars())),
    "load_program_state": lambda main, at: fluid.io.load_program_state(
        str(at), list(main.list_vars())
    ),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("name", OUTSIDE)
def test_a_name_that_leaves_the_folder_is_refused(tmp_path: Path, use: str, name: str) -> None:
    folder = tmp_path / "deep" / "er"
    folder.mkdir(parents=True)
    fluid.global_scope().var("out").get_tensor().set(np.zeros((2, 3), "f4"), fluid.CPUPlace())
    main, before = program(name), tree(tmp_path)
    with pytest.raises(EnforceNotMet, match="can't be kept in a file of the folder"):
        USES[use](main, folder)
    assert tree(tmp_path) == before


def test_a_hostile_model_reads_no_other_file(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(encode_lod_tensor(torch.zeros(2, 3)))
    save_inference(program("in/inside"), tmp_path / "model")
    model = tmp_path / "model" / "__model__"
    model.write_bytes(model.read_bytes().replace(b"in/inside", b"../secret"))
    with pytest.raises(EnforceNotMet, match=r"'\.\./secret' can't be kept in a file of the folder"):
        fluid.io.load_inference_model(tmp_path / "model", EXE)


@pytest.mark.parametrize(
    "name", ["w", "a/b.w_0", "a/b/c", "..w", "w..", "@LR@", "ä", "a b", "a\\b"]
)
def test_other_names_are_kept_as_they_are(tmp_path: Path, name: str) -> None:
    main = program(name)
    save_inference(main, tmp_path)
    assert (tmp_path / name).is_file()
    fluid.global_scope().var(name).value = None
    loaded, _, fetches = fluid.io.load_inference_model(tmp_path, EXE)
    np.testing.assert_array_equal(EXE.run(loaded, fetch_list=fetches)[0].ravel(), np.arange(6))
    assert list(fluid.io.load_program_state(str(tmp_path))) == [name]


def test_no_link_leads_a_saved_variable_out_of_the_folder(tmp_path: Path) -> None:
    folder, other = tmp_path / "model", tmp_path / "other"
    folder.mkdir(), other.mkdir()
    (folder / "sub").symlink_to(other)
    (folder / "w").symlink_to(other / "w")
    for name in ("sub/w", "w"):
        with pytest.raises(EnforceNotMet, match="a link out of the folder"):
            fluid.io.save_persistables(EXE, folder, program(name))
    assert tree(other) == []
    (tmp_path / "way").symlink_to(other)  # the user's own way to a folder
    fluid.io.save_persistables(EXE, tmp_path / "way", program("v"))
    assert tree(other) == ["v"]


def test_a_variable_has_not_the_models_name(tmp_path: Path) -> None:
    with pytest.raises(EnforceNotMet, match="__model__ would be written twice"):
        save_inference(program("__model__"), tmp_path)
    assert tree(tmp_path) == []


def test_long_names_and_names_of_folders(tmp_path: Path) -> None:
    with pytest.raises(EnforceNotMet, match=r"cannot be written: File name too long|can't be"):
        fluid.io.save_persistables(EXE, tmp_path, program("w" * 300))
    main = program("a")
    main.global_block().create_var(name="a/b", shape=[2, 3], dtype="float32", persistable=True)
    program("a/b")
    with pytest.raises(EnforceNotMet, match="cannot be written"):
        fluid.io.save_persistables(EXE, tmp_path, main)


def test_file_of_is_inside(tmp_path: Path) -> None:
    assert file_of(tmp_path, "a//./b") == tmp_path / "a" / "b"
    assert file_of(tmp_path, "a/../b") == tmp_path / "b"


WRONG = {
    "shape": ((3, 2), "float32", r"shape \[2, 3\] in the program and shape \[3, 2\] in the file"),
    "size": ((2, 3, 1), "float32", r"shape \[2, 3\] in .* and shape \[2, 3, 1\]"),
    "type": ((2, 3), "float64", "type float32 in the program and type float64 in the file"),
    "whole": ((2, 3), "int64", "type float32 in the program and type int64 in the file"),
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("filename", [None, "all"])
def test_values_of_another_shape_or_type_are_refused(
    tmp_path: Path, wrong: str, filename: str | None
) -> None:
    shape, dtype, message = WRONG[wrong]
    main = program("w")
    out = [main.global_block().var("out")]
    fluid.io.save_inference_model(tmp_path, [], out, EXE, main, params_filename=filename)
    fluid.io.save_persistables(EXE, tmp_path, program("w", shape, dtype), filename)
    program("w")
    where = rf"{filename or 'w'}: variable w has {message}"
    for load in (
        lambda: fluid.io.load_inference_model(tmp_path, EXE, params_filename=filename),
        lambda: fluid.io.load_persistables(EXE, tmp_path, main, filename),
    ):
        with pytest.raises(EnforceNotMet, match=where):
            load()
    kept = np.array(fluid.global_scope().find_var("w").get_tensor())
    assert kept.shape == (2, 3) and kept.dtype == np.float32
    state = {"w": np.zeros(shape, dtype)}
    with pytest.raises(EnforceNotMet, match=f"variable w has {message}"):
        fluid.io.set_program_state(main, state)


def test_state_that_operators_shape_is_loaded(tmp_path: Path) -> None:
    """`auc` keeps its buckets in whatever shape it needs, as real Fluid's files have them."""
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        guess, label = fluid.data("x", [None, 2]), fluid.data("y", [None, 1], "int64")
        fluid.layers.auc(guess, label, num_thresholds=7, slide_steps=0)
    EXE.run(startup)
    name = next(
        name
        for op in main.global_block().ops
        if op.type == "auc"
        for name in op.output("StatPosOut")
    )
    fluid.io.save_persistables(EXE, tmp_path, main)
    declared = main.global_block().var(name).shape
    longer = np.zeros(int(np.prod(declared)) + 1, "int64")
    fluid.global_scope().find_var(name).get_tensor().set(longer, fluid.CPUPlace())
    fluid.io.save_persistables(EXE, tmp_path, main)
    fluid.io.load_persistables(EXE, tmp_path, main)
    assert np.array(fluid.global_scope().find_var(name).get_tensor()).shape == longer.shape


def test_what_has_no_file_format_is_refused(tmp_path: Path) -> None:
    main = program("w")
    fluid.global_scope().find_var("w").get_lod_tensor_array()
    with pytest.raises(EnforceNotMet, match="w to be saved is a LoDTensorArray"):
        fluid.io.save_persistables(EXE, tmp_path, main)
