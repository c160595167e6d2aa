"""CompiledProgram and ParallelExecutor: replicas compute what one place computes."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from refluid import fluid
from refluid.core.errors import EnforceNotMet
from tests.choices import crossed

ROWS = 12
Reduce = fluid.BuildStrategy.ReduceStrategy
Scale = fluid.BuildStrategy.GradientScaleStrategy


class Net:
    """A small classifier with an embedding, in a scope of its own."""

    def __init__(self, sparse: bool = False, train: bool = True) -> None:
        self.main, self.startup, self.scope = fluid.Program(), fluid.Program(), fluid.Scope()
        with fluid.program_guard(self.main, self.startup), fluid.unique_name.guard():
            ids = fluid.data("ids", [None, 1], dtype="int64")
            x = fluid.data("x", [None, 4])
            word = fluid.layers.reshape(
                fluid.embedding(ids, [20, 8], is_sparse=sparse), shape=[-1, 8]
            )
            hidden = fluid.layers.fc([word, x], 16, act="tanh")
            self.out = fluid.layers.fc(hidden, 1)
            self.loss = fluid.layers.mean(fluid.layers.square(self.out))
            if train:
                fluid.optimizer.SGD(0.1).minimize(self.loss)
        self.executor = fluid.Executor(fluid.CPUPlace())
        with self.here():
            self.executor.run(self.startup)
            for index, param in enumerate(self.main.all_parameters()):
                values = np.random.RandomState(index).randn(*param.shape) * 0.3
                tensor = self.scope.find_var(param.name).get_tensor()
                tensor.set(values.astype("float32"), fluid.CPUPlace())

    @contextmanager
    def here(self) -> Iterator[None]:
        with fluid.scope_guard(self.scope):
            yield

    def compiled(self, places: int = 2, **options: object) -> fluid.CompiledProgram:
        build = fluid.BuildStrategy()
        for name, value in options.items():
            setattr(build, name, value)
        return fluid.CompiledProgram(self.main).with_data_parallel(
            loss_name=self.loss.name, build_strategy=build, places=fluid.cpu_places(places)
        )

    def run(self, program: object, feed: object = None, fetch: object = None, **options: object):
        with self.here():
            return self.executor.run(
                program,
                feed=batch() if feed is None else feed,
                fetch_list=[self.loss] if fetch is None else fetch,
                **options,
            )

    def weights(self) -> dict[str, np.ndarray]:
        return {
            param.name: np.array(self.scope.find_var(param.name).get_tensor())
            for param in self.main.all_parameters()
        }


def batch(rows: int = ROWS) -> dict[str, np.ndarray]:
    draw = np.random.RandomState(3)
    return {
        "ids": draw.randint(0, 20, (rows, 1)),
        "x": draw.randn(rows, 4).astype("float32"),
    }


@pytest.mark.parametrize(
    ("sparse", "reduce", "fused"),
    crossed(
        [False, True],
        Reduce,
        [False, True],
        fast=[
            (False, Reduce.AllReduce, True),
            (True, Reduce.AllReduce, False),
            (False, Reduce.Reduce, False),
            (True, Reduce.Reduce, True),
        ],
    ),
)
def test_replicas_train_as_one_place(sparse: bool, reduce: Reduce, fused: bool) -> None:
    alone, many = Net(sparse), Net(sparse)
    program = many.compiled(3, reduce_strategy=reduce, fuse_all_reduce_ops=fused)
    for _ in range(4):
        (expected,) = alone.run(alone.main)
        (losses,) = many.run(program)
        assert losses.shape == (3,)
        np.testing.assert_allclose(losses.mean(), expected[0], rtol=1e-5)
    for name, value in alone.weights().items():
        np.testing.assert_allclose(many.weights()[name], value, rtol=1e-4, atol=1e-6)


def test_scale_one_adds_the_gradients_of_all_places() -> None:
    alone, many = Net(), Net()
    before = many.weights()
    alone.run(alone.main)
    many.run(many.compiled(2, gradient_scale_strategy=Scale.One))
    for name, start in before.items():
        step, twice = alone.weights()[name] - start, many.weights()[name] - start
        np.testing.assert_allclose(twice, 2 * step, rtol=1e-3, atol=1e-6)


def test_customized_scale_is_fed() -> None:
    alone, many = Net(), Net()
    alone.run(alone.main)
    program = many.compiled(2, gradient_scale_strategy=Scale.Customized)
    grad = {f"{many.loss.name}@GRAD": np.full(2, 0.5, "float32")}
    many.run(program, feed=batch() | grad)
    for name, value in alone.weights().items():
        np.testing.assert_allclose(many.weights()[name], value, rtol=1e-4, atol=1e-6)
    with pytest.raises(EnforceNotMet, match=f"'{many.loss.name}@GRAD' must be fed"):
        many.run(program)
    test = Net(train=False)
    test.run(test.compiled(2, gradient_scale_strategy=Scale.Customized))


def test_the_first_places_get_the_remainder() -> None:
    net = Net()
    merged = net.run(net.compiled(2), batch(7), [net.out])
    assert merged[0].shape == (7, 1)
    other = Net()
    parts = other.run(other.compiled(2), batch(7), [other.out], return_merged=False)
    assert [part.shape for part in parts[0]] == [(4, 1), (3, 1)]


def test_a_list_feeds_each_place() -> None:
    net = Net()
    found = net.run(net.compiled(2), [batch(2), batch(5)], [net.out], return_merged=False)
    assert [part.shape for part in found[0]] == [(2, 1), (5, 1)]


def test_a_fetched_parameter_comes_from_all_places() -> None:
    net = Net()
    name = net.main.all_parameters()[1].name
    shape = net.weights()[name].shape
    (value,) = net.run(net.compiled(2), fetch=[name])
    assert value.shape == (2 * shape[0], *shape[1:])


def test_test_program_shares_variables() -> None:
    net = Net()
    train = net.compiled(2)
    test = fluid.CompiledProgram(net.main.clone(for_test=True)).with_data_parallel(
        share_vars_from=train, places=fluid.cpu_places(2)
    )
    net.run(train)
    (first,) = net.run(test)
    net.run(train)
    (second,) = net.run(test)
    assert first.mean() != second.mean()


def test_sequences_are_parted_whole() -> None:
    main, startup, scope = fluid.Program(), fluid.Program(), fluid.Scope()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x = fluid.data("x", [None, 2], lod_level=1)
        out = fluid.layers.scale(x, 2.0)
    program = fluid.CompiledProgram(main).with_data_parallel(places=fluid.cpu_places(2))
    data = fluid.create_lod_tensor(
        np.arange(12, dtype="float32").reshape(6, 2), [[1, 2, 3]], fluid.CPUPlace()
    )
    executor = fluid.Executor(fluid.CPUPlace())
    options = {"feed": {"x": data}, "fetch_list": [out], "scope": scope, "return_numpy": False}
    (merged,) = executor.run(program, **options)
    assert merged.recursive_sequence_lengths() == [[1, 2, 3]]
    (parts,) = executor.run(program, **options, return_merged=False)
    assert [part.recursive_sequence_lengths() for part in parts] == [[[1, 2]], [[3]]]


def test_parallel_executor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CPU_NUM", "2")
    net = Net()
    with net.here():
        train = fluid.ParallelExecutor(False, loss_name=net.loss.name, main_program=net.main)
        assert train.device_count == 2
        (losses,) = train.run([net.loss.name], feed=batch())
        assert losses.shape == (2,)
        train.drop_local_exe_scopes()


def test_mistakes() -> None:
    net = Net()
    with pytest.raises(AssertionError, match="The loss name of CompiledProgram is None"):
        fluid.CompiledProgram(net.main).with_data_parallel()
    with pytest.raises(TypeError, match="loss_name is one name, not \\["):
        fluid.ParallelExecutor(False, loss_name=[net.loss.name], main_program=net.main)
    program = net.compiled(2)
    with pytest.raises(AssertionError, match="Already compiled with parallel"):
        program.with_data_parallel(loss_name=net.loss.name)
    with pytest.raises(EnforceNotMet, match="has 1 rows, fewer than the 2 devices"):
        net.run(program, batch(1))
    with pytest.raises(EnforceNotMet, match="The feed data number 1 does not match"):
        net.run(program, [batch()])
    with pytest.raises(ValueError, match="'y', which the program doesn't have"):
        net.run(program, batch() | {"y": np.zeros(ROWS)})
    with pytest.raises(TypeError):
        net.run(program, 5)


@pytest.mark.parametrize("seed", range(4))
def test_fewer_feeds_than_places_where_nothing_is_trained(seed: int) -> None:
    """As many results as feeds, as from a DataLoader with drop_last=False."""
    draw = np.random.default_rng(seed)
    net = Net(train=False)
    program = net.compiled(3)
    for count in draw.integers(1, 4, 6):
        rows = [int(one) for one in draw.integers(1, 9, count)]
        feeds = [batch(one) for one in rows]
        one, mean = net.run(program, feeds, [net.out, net.loss])
        alone = [net.run(net.main, feed, [net.out, net.loss]) for feed in feeds]
        np.testing.assert_allclose(one, np.concatenate([a for a, _ in alone]), rtol=1e-6)
        np.testing.assert_allclose(mean, np.concatenate([b for _, b in alone]), rtol=1e-6)
    for wrong in ([], [batch()] * 4):
        with pytest.raises(EnforceNotMet, match=f"number {len(wrong)} does not match the device"):
            net.run(program, wrong)


def test_an_error_in_a_replica_names_the_operator_and_leaves_it_usable() -> None:
    net = Net()
    program = net.compiled(2)
    bad = batch()
    bad["ids"][-1] = 400
    with pytest.raises(EnforceNotMet, match="lookup_table"):
        net.run(program, bad)
    (losses,) = net.run(program)
    assert np.isfinite(losses).all()


def test_strategies_check_what_they_are_told() -> None:
    build = fluid.BuildStrategy()
    with pytest.raises(AttributeError, match="no option 'fuse_everything'"):
        build.fuse_everything = True
    with pytest.raises(TypeError, match="must be bool"):
        build.fuse_all_reduce_ops = 3
    run = fluid.ExecutionStrategy()
    assert run.num_threads == 0
    net = Net()
    program = fluid.CompiledProgram(net.main).with_data_parallel(
        net.loss.name, build, run, places=fluid.cpu_places(2)
    )
    net.run(program)
    assert run.num_threads == 4
    with pytest.raises(EnforceNotMet, match="finlaized"):
        build.fuse_all_reduce_ops = False


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_synchronised_batch_norm_sees_the_whole_batch(layout: str) -> None:
    """Replicas with it train as one place does with the whole batch, parted unevenly or not."""
    results = []
    for places in (1, 3):
        main, startup, scope = fluid.Program(), fluid.Program(), fluid.Scope()
        main.random_seed = startup.random_seed = 3
        with fluid.program_guard(main, startup), fluid.unique_name.guard():
            x = fluid.data("x", [None, 4, 4, 4])
            hidden = fluid.layers.batch_norm(x, act="relu", data_layout=layout)
            loss = fluid.layers.mean(fluid.layers.square(fluid.layers.fc(hidden, 1)))
            fluid.optimizer.SGD(0.05).minimize(loss)
        build = fluid.BuildStrategy()
        build.sync_batch_norm = True
        program = fluid.CompiledProgram(main).with_data_parallel(
            loss_name=loss.name, build_strategy=build, places=fluid.cpu_places(places)
        )
        executor = fluid.Executor(fluid.CPUPlace())
        executor.run(startup, scope=scope)
        for index, param in enumerate(main.all_parameters()):
            values = np.random.RandomState(index).rand(*param.shape).astype("float32")
            scope.find_var(param.name).get_tensor().set(values, fluid.CPUPlace())
        data = np.random.RandomState(5).randn(9, 4, 4, 4).astype("float32")
        losses = [
            executor.run(program, feed={"x": data}, fetch_list=[loss], scope=scope)[0].mean()
            for _ in range(4)
        ]
        state = {
            var.name: np.array(scope.find_var(var.name).get_tensor())
            for var in main.list_vars()
            if var.persistable
        }
        results.append((losses, state))
    (one, alone), (many, parted) = results
    np.testing.assert_allclose(many, one, rtol=1e-5)
    for name, value in alone.items():
        np.testing.assert_allclose(parted[name], value, rtol=1e-4, atol=1e-6, err_msg=name)
