"""Distillation, quantisation and searches, each by the Compressor."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import refluid.fluid as fluid
from refluid.core.errors import EnforceNotMet
from refluid.fluid.contrib.slim import Strategy
from refluid.fluid.contrib.slim.graph import GraphWrapper
from refluid.fluid.contrib.slim.nas import ControllerServer, SearchAgent, SearchSpace
from refluid.fluid.contrib.slim.searcher import SAController
from tests.fluid.slim.networks import CLASSES, batches, build, compressor, convolution, student

layers = fluid.layers
CPU = fluid.CPUPlace()

DISTILLERS = {
    "L2Distiller": "teacher_feature_map: {teacher}, student_feature_map: {guess}",
    "SoftLabelDistiller": "teacher_feature_map: {teacher}, student_feature_map: {guess}, "
    "student_temperature: 2.0, teacher_temperature: 2.0",
    "FSPDistiller": "teacher_pairs: [[t0, t1]], student_pairs: [[s0, s1]]",
}


class Watching(Strategy):
    """Notes what is fetched in training by epoch."""

    def __init__(self) -> None:
        super().__init__()
        self.titles: list[list[str]] = []

    def on_epoch_end(self, context: Any) -> None:
        self.titles.append(list(context.optimize_graph.out_nodes))


def teacher(scope: fluid.Scope) -> tuple[fluid.Program, str]:
    """A teacher that knows the brightness, in the student's scope."""
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard("teacher_"):
        image = layers.data("image", [1, 8, 8])
        first = convolution(image, "t_conv", 4, 3)
        first.block.rename_var(first.name, "t0")
        last = convolution(first, "t_conv2", 6, 3)
        last.block.rename_var(last.name, "t1")
        guess = layers.fc(layers.pool2d(last, global_pooling=True), CLASSES, act="softmax")
    fluid.Executor(CPU).run(startup, scope=scope)
    return main.clone(for_test=True), guess.name


def named_student(image: Any) -> Any:
    first = convolution(image, "conv1", 4, 3)
    first.block.rename_var(first.name, "s0")
    last = convolution(first, "conv2", 6, 3)
    last.block.rename_var(last.name, "s1")
    return layers.fc(layers.pool2d(last, global_pooling=True), CLASSES, act="softmax")


@pytest.mark.parametrize("kind", DISTILLERS)
def test_a_student_learns_from_a_teacher_for_some_epochs(tmp_path: Path, kind: str) -> None:
    net = build(named_student)
    program, knows = teacher(net.scope)
    before = np.array(net.scope.find_var("t_conv_weights").get_tensor())
    given = DISTILLERS[kind].format(teacher=knows, guess=net.guess)
    config = f"""
distillers:
    one: {{class: {kind}, distillation_loss_weight: 0.5, {given}}}
strategies:
    distil: {{class: DistillationStrategy, distillers: [one], start_epoch: 1, end_epoch: 3}}
compressor: {{epoch: 4, strategies: [distil]}}
"""
    options = {"teacher_programs": [program], "distiller_optimizer": net.optimizer}
    made = compressor(net, tmp_path, config, **options)
    watching = Watching()
    made.strategies.append(watching)
    made.run()
    alone, together = watching.titles[0], watching.titles[1]
    assert alone == ["loss"] and len(together) == 2
    assert watching.titles == [alone, together, alone, alone]
    np.testing.assert_array_equal(net.scope.find_var("t_conv_weights").get_tensor(), before)


def test_the_losses_of_a_distiller_are_added() -> None:
    """The merged graph's loss is the student's and the difference of the maps, by hand."""
    from refluid.fluid.contrib.slim.distillation import L2Distiller

    net = build(named_student)
    program, knows = teacher(net.scope)
    graph = GraphWrapper(net.test, {"image": "image", "label": "label"}, {"loss": net.loss}).clone()
    graph.merge(GraphWrapper(program))
    graph = L2Distiller(net.guess, knows, 3.0).distiller_loss(graph)
    (batch,) = batches(1)()
    feed = {
        "image": np.stack([one for one, _ in batch]),
        "label": np.array([[k] for _, k in batch], "int64"),
    }
    names = [graph.out_nodes["loss"], net.loss, net.guess, knows]
    exe = fluid.Executor(CPU)
    total, own, mine, other = exe.run(graph.program, feed, names, scope=net.scope)
    np.testing.assert_allclose(total, own + 3 * np.mean((mine - other) ** 2), rtol=1e-5)


def test_quantisation_trains_and_saves_three_models(tmp_path: Path) -> None:
    net = build()
    paths = {kind: tmp_path / kind for kind in ("float", "int8", "mobile")}
    saved = "".join(f"        {kind}_model_save_path: '{path}'\n" for kind, path in paths.items())
    config = f"""
strategies:
    quantise:
        class: QuantizationStrategy
        start_epoch: 1
        end_epoch: 2
{saved}        save_in_nodes: [image]
        save_out_nodes: ['{net.guess}']
compressor: {{epoch: 8, strategies: [quantise]}}
"""
    made = compressor(net, tmp_path, config)
    made.run()
    accuracies = made.context.eval_results["acc"]
    assert max(accuracies[4:]) > 0.7  # from 0.45; epochs differ by rounding
    types = {op.type() for op in made.context.optimize_graph.ops()}
    assert types == {op._op.type for op in made.context.optimize_graph.ops()}  # scripts count so
    assert any(kind.startswith("fake_quantize") for kind in types)
    sizes = {kind: (path / "weights").stat().st_size for kind, path in paths.items()}
    assert sizes["int8"] < 0.6 * sizes["float"] and sizes["mobile"] < 0.6 * sizes["float"]
    right = []
    exe, scope = fluid.Executor(CPU), fluid.Scope()
    with fluid.scope_guard(scope):
        program, feeds, fetches = fluid.io.load_inference_model(
            str(paths["float"]), exe, "model", "weights"
        )
        for batch in batches(4, 2)():
            pictures = np.stack([one for one, _ in batch])
            (found,) = exe.run(program, {feeds[0]: pictures}, fetches)
            right += list(found.argmax(1) == [k for _, k in batch])
    assert abs(np.mean(right) - accuracies[2]) < 0.1


class Space(SearchSpace):
    """Networks of one or two convolutions of some filters."""

    def init_tokens(self) -> list[int]:
        return [0, 0]

    def range_table(self) -> list[int]:
        return [4, 2]

    def create_net(self, tokens: list[int]) -> Any:
        def network(image: Any) -> Any:
            made = convolution(image, "conv1", 2 + 2 * tokens[0], 3)
            if tokens[1]:
                made = convolution(made, "conv2", 4, 3)
            return layers.fc(layers.pool2d(made, global_pooling=True), CLASSES, act="softmax")

        main, startup, test = fluid.Program(), fluid.Program(), fluid.Program()
        fetched = []
        for program in (main, test):
            with fluid.program_guard(program, startup), fluid.unique_name.guard():
                image, label = layers.data("image", [1, 8, 8]), layers.data("label", [1], "int64")
                label.dtype = "int64"
                guess = network(image)
                loss = layers.mean(layers.cross_entropy(guess, label))
                fetched.append((loss, layers.accuracy(guess, label)))
                if program is main:
                    fluid.optimizer.SGD(0.1).minimize(loss)
        test = test.clone(for_test=True)
        return startup, main, test, *fetched, batches(3), batches(2, 2)


@pytest.mark.slow
def test_a_search_tries_small_networks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    net = build(student)
    config = """
controllers:
    annealing: {class: SAController, init_temperature: 1.0}
strategies:
    search: {class: LightNASStrategy, controller: annealing, end_epoch: 6, retrain_epoch: 2,
             target_flops: 30000, metric_name: acc, is_server: True, search_steps: 10}
compressor: {epoch: 6, strategies: [search]}
"""
    made = compressor(net, tmp_path, config, search_space=Space(), train_optimizer=None)
    graph = made.run()
    controller = made.strategies[0].controller  # type: ignore[attr-defined]
    assert graph is not None and graph.flops() <= 30000
    assert 0 < controller.max_reward <= 1 and len(controller.best_tokens) == 2
    assert not list(tmp_path.glob("*.socket"))


def test_annealing_finds_the_best_and_keeps_to_what_is_allowed() -> None:
    np.random.seed(3)
    controller = SAController(reduce_rate=0.7, init_temperature=10.0, max_iter_number=200)
    controller.reset([6] * 4, [0, 0, 0, 0], lambda tokens: sum(tokens) <= 12)
    tokens = [0, 0, 0, 0]
    for _ in range(400):
        assert sum(tokens) <= 12 and all(0 <= one < 6 for one in tokens)
        controller.update(tokens, -abs(sum(tokens) - 12) - abs(tokens[0] - 5))
        tokens = controller.next_tokens()
    assert controller.max_reward == 0 and controller.best_tokens[0] == 5
    controller.reset([2], [0], lambda _: False)
    with pytest.raises(RuntimeError, match="loosen the limit"):
        controller.next_tokens()
    with pytest.raises(ValueError, match="2 tokens, but ranges of 1"):
        controller.reset([2], [0, 0])


def test_a_server_refuses_other_searches_and_what_is_no_message() -> None:
    controller = SAController()
    controller.reset([5, 5], [1, 1])
    server = ControllerServer(controller, ("127.0.0.1", 0), search_steps=2, key="mine")
    server.start()
    try:
        agent = SearchAgent("127.0.0.1", server.port(), "mine")
        assert len(agent.next_tokens()) == 2
        with pytest.raises(EnforceNotMet, match="another search's key"):
            SearchAgent("127.0.0.1", server.port(), "other").next_tokens()
        with socket.create_connection(("127.0.0.1", server.port())) as link:
            link.sendall(b"\x80nothing\n")
            assert b"error" in link.recv(1000)
        agent.update([2, 2], 0.5)
        assert agent.update([3, 3], 0.1) == [2, 2]
    finally:
        server.close()
    with pytest.raises(EnforceNotMet, match="does not answer"):
        agent.next_tokens()
