"""`Executor.run`: results, caching, and the errors of Fluid for each kind of wrong use."""

import warnings

import numpy as np
import pytest

import refluid.fluid as fluid
from refluid.fluid import core


@pytest.fixture
def net():
    """A linear regression with SGD, in programs and a scope of its own."""
    main, startup = fluid.Program(), fluid.Program()
    scope = fluid.Scope()
    with (
        fluid.program_guard(main, startup),
        fluid.unique_name.guard(),
        fluid.scope_guard(scope),
    ):
        x = fluid.data("x", [-1, 4])
        y = fluid.data("y", [-1, 1])
        prediction = fluid.layers.fc(x, 1)
        loss = fluid.layers.mean(fluid.layers.square_error_cost(prediction, y))
        fluid.optimizer.SGD(0.1).minimize(loss)
        yield main, startup, loss, prediction


def batch(rows: int = 8) -> dict[str, np.ndarray]:
    draw = np.random.RandomState(rows)
    x = draw.rand(rows, 4).astype("float32")
    return {"x": x, "y": x.sum(1, keepdims=True)}


def test_training_lowers_the_loss_for_any_batch_size(net) -> None:
    main, startup, loss, _ = net
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(startup)
    first = exe.run(main, batch(), [loss])[0]
    for rows in (8, 3, 1, 8) * 20:
        last = exe.run(main, batch(rows), [loss.name])[0]
    assert first.shape == (1,)
    assert last < first / 10


def test_fetched_values_do_not_change_afterwards(net) -> None:
    main, startup, _, _ = net
    exe = fluid.Executor()
    exe.run(startup)
    weight = main.all_parameters()[0]
    before = exe.run(main, batch(), [weight])[0]
    copy = before.copy()
    exe.run(main, batch(), [])
    np.testing.assert_array_equal(before, copy)


def test_fed_arrays_are_never_written_to(net) -> None:
    main, startup, loss, _ = net
    exe = fluid.Executor()
    exe.run(startup)
    feed = batch()
    copies = {name: array.copy() for name, array in feed.items()}
    exe.run(main, feed, [loss])
    for name, array in feed.items():
        np.testing.assert_array_equal(array, copies[name])


def test_a_changed_program_is_run_as_it_now_is(net) -> None:
    main, startup, loss, _ = net
    exe = fluid.Executor()
    exe.run(startup)
    exe.run(main, batch(), [loss])
    with fluid.program_guard(main, startup):
        twice = fluid.layers.scale(loss, 2.0)
    one, two = exe.run(main, batch(), [loss, twice])
    np.testing.assert_allclose(two, 2 * one)


def test_return_numpy_false_gives_lod_tensors(net) -> None:
    main, startup, loss, _ = net
    exe = fluid.Executor()
    exe.run(startup)
    (value,) = exe.run(main, batch(), [loss], return_numpy=False)
    assert isinstance(value, fluid.LoDTensor)
    assert value.shape() == [1]


def test_missing_feed(net) -> None:
    main, startup, loss, _ = net
    exe = fluid.Executor()
    exe.run(startup)
    with pytest.raises(
        core.EnforceNotMet, match=r"mul Op's Input Variable X\(x\) is not init"
    ) as e:
        exe.run(main, {"y": batch()["y"]}, [loss])
    assert __file__ in str(e.value), "the message shows the user's line"


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (np.ones((4, 5), "float32"), r"'x' should have dimensions = 2, shape = \(-1, 4\), but"),
        (
            np.ones((4, 4)),
            "data type of fed Variable 'x' must be 'float32', but received 'float64'",
        ),
    ],
)
def test_wrong_shape_or_type(net, x, message) -> None:
    main, startup, loss, _ = net
    exe = fluid.Executor()
    exe.run(startup)
    with pytest.raises(ValueError, match=message):
        exe.run(main, {"x": x, "y": np.ones((4, 1), "float32")}, [loss])


def test_nested_list_feed(net) -> None:
    main, startup, loss, _ = net
    exe = fluid.Executor()
    exe.run(startup)
    with pytest.raises(RuntimeError, match="Some of your feed data hold LoD information"):
        exe.run(main, {"x": [[1.0, 2.0], [3.0]], "y": batch()["y"]}, [loss])


def test_unknown_feed_name_warns_and_runs(net) -> None:
    main, startup, loss, _ = net
    exe = fluid.Executor()
    exe.run(startup)
    with pytest.warns(UserWarning, match="variable z is not found in program"):
        exe.run(main, batch() | {"z": np.ones(1)}, [loss])


def test_unknown_fetch(net) -> None:
    main, startup, _, _ = net
    exe = fluid.Executor()
    exe.run(startup)
    with pytest.raises(core.EnforceNotMet, match="cannot be found"):
        exe.run(main, batch(), ["nothing"])


@pytest.mark.parametrize("replicas", [0, 1, 2])
def test_a_variable_that_nothing_computes_is_fetched_empty(net, replicas: int) -> None:
    """As scripts do that count by `create_tensor` and leave the counting out."""
    main, startup, loss, _ = net
    with fluid.program_guard(main):
        unused = fluid.layers.create_tensor("int64")
    exe = fluid.Executor()
    exe.run(startup)
    program = main
    if replicas:
        places = fluid.cpu_places(replicas)
        program = fluid.CompiledProgram(main).with_data_parallel(loss.name, places=places)
    for _ in range(2):
        found = exe.run(program, batch(), [loss, unused])
        assert [each.size for each in found] == [max(replicas, 1), 0]


def test_what_is_fed_is_not_fetched_empty(net) -> None:
    main, startup, _, _ = net
    with fluid.program_guard(main):
        fluid.data("missing", [None, 1])
    exe = fluid.Executor()
    exe.run(startup)
    with pytest.raises(core.EnforceNotMet, match="cannot be found"):
        exe.run(main, batch(), ["missing"])


@pytest.mark.parametrize("ragged", [False, True])
def test_what_another_program_left_in_the_scope_is_fetched_by_name(net, ragged: bool) -> None:
    """As scripts do that look at averages of parameters while they run the test program."""
    _, startup, _, _ = net
    exe = fluid.Executor()
    exe.run(startup)
    other = fluid.Program()
    with fluid.program_guard(other):
        fed = fluid.data("fed", [None, 2], lod_level=int(ragged))
        fluid.layers.relu(fed)
    given = {"fed": np.ones((1, 2), "float32")}
    if ragged:
        given["fed"] = fluid.create_lod_tensor(given["fed"], [[1]], fluid.CPUPlace())
    held = np.array(fluid.global_scope().find_var("fc_0.w_0").get_tensor())
    for times in (1, 2):
        (weight,) = exe.run(other, given, ["fc_0.w_0"])
        np.testing.assert_array_equal(weight, held * times)
        fluid.global_scope().find_var("fc_0.w_0").get_tensor().set(held * 2, fluid.CPUPlace())
    with pytest.raises(core.EnforceNotMet, match=r"fetch 'fc_9.w_0'.*in the scope"):
        exe.run(other, given, ["fc_9.w_0"])


def test_without_startup(net) -> None:
    main, _, loss, _ = net
    with pytest.raises(core.EnforceNotMet, match=r"fc_0.w_0 has not been initialized.*startup"):
        fluid.Executor().run(main, batch(), [loss])


def test_closed_executor(net) -> None:
    main, _, loss, _ = net
    exe = fluid.Executor()
    exe.close()
    exe.close()
    with pytest.raises(RuntimeError, match="Attempted to use a closed Executor"):
        exe.run(main, batch(), [loss])


def test_wrong_kinds_of_arguments(net) -> None:
    main, _, _, _ = net
    exe = fluid.Executor()
    with pytest.raises(TypeError, match="feed requires dict"):
        exe.run(main, feed=5)
    with pytest.raises(TypeError, match=r"requires Program.* But got <class 'tuple'>$"):
        exe.run((main, None))
    with pytest.raises(TypeError, match="fetch_list"):
        exe.run(main, batch(), [5])
    with pytest.raises(TypeError, match=r"a scope is a fluid.Scope\(\).* not str"):
        exe.run(main, batch(), scope="a")


def test_a_failing_operator_names_shapes_and_the_users_line(net) -> None:
    main, startup, loss, _ = net
    exe = fluid.Executor()
    exe.run(startup)
    fluid.global_scope().find_var("fc_0.w_0").get_tensor().set(
        np.ones((5, 1), "float32"), fluid.CPUPlace()
    )
    with pytest.raises(core.EnforceNotMet, match=r"operator mul failed") as error:
        exe.run(main, batch(), [loss])
    assert "Y(fc_0.w_0): float32[5, 1]" in str(error.value)
    assert __file__ in str(error.value)
    exe.run(startup)
    exe.run(main, batch(), [loss])


def test_evaluation_changes_nothing(net) -> None:
    main, startup, loss, prediction = net
    test = main.clone(for_test=True)
    exe = fluid.Executor()
    exe.run(startup)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        first = exe.run(test, batch(), [loss, prediction])
        second = exe.run(test, batch(), [loss, prediction])
    for one, two in zip(first, second, strict=True):
        np.testing.assert_array_equal(one, two)
