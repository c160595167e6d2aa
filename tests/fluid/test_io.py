"""`fluid.io` on files that real Fluid wrote, and on its own."""

import json
from pathlib import Path

import numpy as np
import pytest

import refluid.fluid as fluid
from refluid.fluid import core
from tests.golden import GOLDEN, needs_golden

FORMATS = GOLDEN / "formats"
EXPECTED = json.loads((FORMATS / "expected.json").read_text()) if FORMATS.is_dir() else {}


@pytest.fixture
def exe():
    with fluid.scope_guard(fluid.Scope()):
        yield fluid.Executor(fluid.CPUPlace())


def recorded_program() -> fluid.Program:
    return fluid.Program.parse_from_string((FORMATS / "main_program.pb").read_bytes())


def values(names) -> dict[str, np.ndarray]:
    return {name: np.array(fluid.global_scope().find_var(name).get_tensor()) for name in names}


def check(names) -> None:
    for name, array in values(names).items():
        want = EXPECTED["vars"][name]
        assert list(array.shape) == want["shape"]
        assert str(array.dtype) == want["dtype"]
        np.testing.assert_array_equal(array.ravel().astype("f8"), want["values"])


@needs_golden
@pytest.mark.parametrize(
    ("folder", "filename"), [("persistables", None), ("persistables_combined", "all")]
)
def test_persistables_load_and_are_written_back_byte_for_byte(exe, tmp_path, folder, filename):
    program = recorded_program()
    fluid.io.load_persistables(exe, FORMATS / folder, program, filename=filename)
    check(EXPECTED["vars"])
    fluid.io.save_persistables(exe, tmp_path, program, filename=filename)
    for path in (FORMATS / folder).iterdir():
        assert (tmp_path / path.name).read_bytes() == path.read_bytes(), path.name


@needs_golden
def test_fluid_save_and_load(exe, tmp_path):
    program = recorded_program()
    for name in [var.name for var in program.list_vars()]:
        if name in EXPECTED["vars"] and EXPECTED["vars"][name]["is_parameter"]:
            var = program.global_block().vars[name]
            parameter = fluid.framework.Parameter(
                program.global_block(), var.shape, var.dtype, name=name
            )
            program.global_block().vars[name] = parameter
    saved = set(EXPECTED["vars"])
    fluid.load(program, FORMATS / "fluid_save" / "model", exe)
    check(saved)
    fluid.save(program, str(tmp_path / "model"))
    state = fluid.io.load_program_state(str(tmp_path / "model"))
    assert state.keys() == saved
    again = fluid.Program.parse_from_string((tmp_path / "model.pdmodel").read_bytes())
    assert {var.name for var in again.list_vars()} == {var.name for var in program.list_vars()}


@needs_golden
@pytest.mark.parametrize(
    ("folder", "model", "params"), [("infer", None, None), ("infer_combined", "model", "params")]
)
def test_inference_models_of_fluid_predict_the_recorded_values(exe, folder, model, params):
    program, feeds, fetches = fluid.io.load_inference_model(FORMATS / folder, exe, model, params)
    feed = {
        name: np.array(EXPECTED["feed"][name], "float32" if name == "x" else "int64")
        for name in feeds
    }
    (prediction,) = exe.run(program, feed, fetches)
    np.testing.assert_allclose(prediction, EXPECTED["pred"], rtol=1e-5)


def small_model() -> tuple[fluid.Program, fluid.Program, list]:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x = fluid.data("x", [-1, 4])
        hidden = fluid.layers.batch_norm(fluid.layers.fc(x, 3, act="relu"))
        out = fluid.layers.softmax(fluid.layers.fc(hidden, 2))
        loss = fluid.layers.mean(fluid.layers.reduce_sum(out * out, dim=1))
        fluid.optimizer.Adam(0.01).minimize(loss)
    return main, startup, [out]


@pytest.mark.parametrize("filename", [None, "all"])
def test_an_inference_model_survives(exe, tmp_path: Path, filename) -> None:
    main, startup, targets = small_model()
    exe.run(startup)
    feed = {"x": np.random.RandomState(0).rand(5, 4).astype("float32")}
    exe.run(main, feed)
    operators = len(main.global_block().ops)
    names = fluid.io.save_inference_model(
        tmp_path, ["x"], targets, exe, main, params_filename=filename
    )
    assert names == ["save_infer_model/scale_0.tmp_0"]
    assert len(main.global_block().ops) == operators
    (want,) = exe.run(main.clone(for_test=True), feed, targets)
    with fluid.scope_guard(fluid.Scope()):
        program, feeds, fetches = fluid.io.load_inference_model(
            tmp_path, exe, params_filename=filename
        )
        (got,) = exe.run(program, feed, fetches)
        assert feeds == ["x"]
        assert not any("moment" in name for name in fluid.global_scope().local_var_names())
    np.testing.assert_array_equal(got, want)


def test_a_model_is_loaded_from_what_its_files_hold(exe, tmp_path: Path) -> None:
    main, startup, targets = small_model()
    exe.run(startup)
    fluid.io.save_inference_model(tmp_path, ["x"], targets, exe, main, "model", "all")
    model, params = ((tmp_path / name).read_bytes() for name in ("model", "all"))
    feed = {"x": np.random.RandomState(0).rand(5, 4).astype("float32")}
    (want,) = exe.run(main.clone(for_test=True), feed, targets)
    with fluid.scope_guard(fluid.Scope()):
        program, _, fetches = fluid.io.load_inference_model(None, exe, model, params)
        (got,) = exe.run(program, feed, fetches)
        np.testing.assert_array_equal(got, want)
        with pytest.raises(ValueError, match="content of a file is needed"):
            fluid.io.load_inference_model(None, exe, "model", "all")
        with pytest.raises(ValueError, match="content of a file is needed"):
            fluid.io.load_inference_model(None, exe, model)
        with pytest.raises(core.EnforceNotMet, match="the bytes given"):
            fluid.io.load_inference_model(None, exe, model, params[:-1])


def test_what_was_compiled_is_saved_as_its_program(exe, tmp_path: Path) -> None:
    """PaddleHelix saves the program that it trains on all devices."""
    main, startup, targets = small_model()
    exe.run(startup)
    compiled = fluid.CompiledProgram(main)

    def files_of(folder: Path, program) -> dict[Path, bytes]:
        fluid.io.save_params(exe, folder / "params", program)
        fluid.io.save_vars(exe, folder / "vars", program, vars=["fc_0.w_0"])
        fluid.io.save_inference_model(folder / "m", ["x"], targets, exe, program)
        found = [path for path in folder.rglob("*") if path.is_file()]
        described = "__model__"  # with the line that saved it
        return {
            path.relative_to(folder): path.name == described or path.read_bytes() for path in found
        }

    want = files_of(tmp_path / "plain", main)
    with pytest.warns(UserWarning, match="not recommended") as notices:
        assert files_of(tmp_path / "compiled", compiled) == want
    assert len(notices) == 3
    with pytest.raises(TypeError, match="type of input main_program is invalid"):
        fluid.io.load_params(exe, tmp_path / "plain" / "params", compiled)


@pytest.mark.parametrize("suffix", ["", ".pdparams", ".pdopt", ".pdmodel"])
def test_training_resumes_from_a_checkpoint(exe, tmp_path: Path, suffix: str) -> None:
    main, startup, targets = small_model()
    exe.run(startup)
    feed = {"x": np.random.RandomState(0).rand(5, 4).astype("float32")}
    exe.run(main, feed)
    fluid.save(main, str(tmp_path / "step1"))
    (want,) = exe.run(main, feed, targets)
    with fluid.scope_guard(fluid.Scope()):
        fluid.load(main, str(tmp_path / f"step1{suffix}"), exe)
        (got,) = exe.run(main, feed, targets)
        second = exe.run(main, feed, targets)[0]
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(second, exe.run(main, feed, targets)[0])


def test_a_folder_is_loaded_as_far_as_it_has_the_programs_variables(exe, tmp_path: Path) -> None:
    """As Paddle 2.6.2 does, which says only what it didn't use."""
    main, startup, _ = small_model()
    exe.run(startup)
    names = [var.name for var in main.list_vars() if fluid.io.is_persistable(var)]
    saved = values(names)
    fluid.io.save_persistables(exe, tmp_path, main)
    fluid.load(main, str(tmp_path), exe)  # with -W error: says nothing
    (tmp_path / ".success").touch()
    (tmp_path / "model.yml").write_text("status: Normal")
    (tmp_path / "fc_0.b_0").unlink()
    ones = {name: np.ones_like(value) for name, value in saved.items()}
    fluid.io.set_program_state(main, ones)
    with pytest.warns(RuntimeWarning) as told:
        fluid.load(main, str(tmp_path), exe)
    (said,) = [str(one.message) for one in told]
    assert "no file of fc_0.b_0, which keep their values" in said
    assert said.endswith("files not used: .success, model.yml") and told[0].filename == __file__
    for name, value in values(names).items():
        np.testing.assert_array_equal(value, ones[name] if name == "fc_0.b_0" else saved[name])

    with pytest.warns(RuntimeWarning) as told:
        state = fluid.io.load_program_state(str(tmp_path))
    assert sorted(state) == sorted(set(names) - {"fc_0.b_0"})
    left = [str(one.message).split(": cannot be read")[0] for one in told]
    where = [f"{tmp_path}/{name}" for name in (".success", "model.yml")]
    assert left == [f"left out, as it is no variable: {file}" for file in where]
    (tmp_path / "fc_0.b_0").write_bytes(b"abc")
    with pytest.raises(core.EnforceNotMet, match=r"fc_0\.b_0"):
        fluid.load(main, str(tmp_path), exe)


def test_a_folder_of_files_that_save_wrote_loads_nothing(exe, tmp_path: Path) -> None:
    """PaddleSeg's HumanSeg loads the folder in which `fluid.save` wrote `model.pdparams`."""
    main, startup, _ = small_model()
    exe.run(startup)
    fluid.save(main, str(tmp_path / "model"))
    before = values(["fc_0.w_0"])["fc_0.w_0"] + 1
    fluid.io.set_program_state(main, {"fc_0.w_0": before})
    with pytest.warns(RuntimeWarning, match=r"no file of .*fc_0\.w_0.*not used") as told:
        fluid.load(main, str(tmp_path), exe)
    assert str(told[0].message).endswith(f"what fluid.save wrote is loaded as {tmp_path}/model")
    np.testing.assert_array_equal(values(["fc_0.w_0"])["fc_0.w_0"], before)


def test_errors_say_what_is_wrong(exe, tmp_path: Path) -> None:
    main, startup, targets = small_model()
    with pytest.raises(core.EnforceNotMet, match=r"has no value\. Run the startup program"):
        fluid.io.save_persistables(exe, tmp_path, main)
    exe.run(startup)
    fluid.io.save_params(exe, tmp_path / "params", main)
    weight = tmp_path / "params" / "fc_0.w_0"
    weight.write_bytes(weight.read_bytes()[:-1])
    with pytest.raises(core.EnforceNotMet, match=r"fc_0.w_0"):
        fluid.io.load_params(exe, tmp_path / "params", main)
    weight.unlink()
    with pytest.raises(core.EnforceNotMet, match=r"fc_0.w_0"):
        fluid.io.load_params(exe, tmp_path / "params", main)
    with pytest.raises(ValueError, match="no directory named"):
        fluid.io.load_inference_model(tmp_path / "absent", exe)
    with pytest.raises(ValueError, match="doesn't exist in pruned inference program"):
        fluid.io.save_inference_model(tmp_path / "m", ["z"], targets, exe, main)


def test_a_parameter_of_another_shape_is_refused(exe, tmp_path: Path) -> None:
    main, startup, _ = small_model()
    exe.run(startup)
    fluid.global_scope().find_var("fc_0.w_0").get_tensor().set(
        np.zeros((2, 2), "float32"), fluid.CPUPlace()
    )
    fluid.io.save_params(exe, tmp_path, main)
    with pytest.raises(core.EnforceNotMet, match=r"fc_0.w_0 has shape \[4, 3\] in the program"):
        fluid.io.load_params(exe, tmp_path, main)


def test_what_is_no_program_name_or_variable_is_said(exe, tmp_path: Path) -> None:
    main, folder = fluid.Program(), str(tmp_path)
    with fluid.program_guard(main, fluid.Program()):
        x = fluid.data("x", [2, 3])
        y = fluid.layers.relu(x)
    with pytest.raises(AssertionError, match="MUST be format of dirname/filename"):
        fluid.save(main, f"{folder}/")
    with pytest.raises(TypeError, match=r"expected type is fluid\.Program"):
        fluid.save("main", f"{folder}/model")
    for feeds, targets in (([x], [y]), (["x"], ["y"]), (["x"], [])):
        with pytest.raises(ValueError, match="should be a list of"):
            fluid.io.save_inference_model(folder, feeds, targets, exe, main)
    assert not list(tmp_path.iterdir())
