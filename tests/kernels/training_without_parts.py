"""Trains small networks without some of torch's private names, each group of them in a process.

Given groups of names as JSON, prints for each what was trained, or the error. Processes are forked
from one that has imported torch and nothing of refluid.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np
import torch

STEPS = 6


def leave_out(names: list[str]) -> set[str]:
    """Has refluid find no such names, and torch have no oneDNN; names that are asked for."""
    from refluid.kernels import parts

    parts.left_out.update(names)
    if any(name.startswith("torch.ops.mkldnn.") for name in names):
        vars(torch.ops)["mkldnn"] = object()
    asked: set[str] = set()
    find = parts.part

    def part(name: str, otherwise: Any) -> Any:
        asked.add(name)
        return find(name, otherwise)

    parts.part = part
    return asked


def convolutions(fluid: Any) -> Any:
    layers = fluid.layers
    image, label = fluid.data("image", [None, 3, 8, 8]), fluid.data("label", [None, 1], "int64")
    hidden = layers.conv2d(image, 8, 3, padding=1, bias_attr=False)
    hidden = layers.batch_norm(hidden, act="relu")
    hidden = layers.elementwise_add(layers.conv2d(hidden, 8, 3, padding=1), hidden, act="relu")
    hidden = layers.fc(layers.pool2d(hidden, 2, "max", 2), 64, act="tanh")
    return layers.cross_entropy(layers.softmax(layers.fc(hidden, 4)), label)


def embeddings(fluid: Any) -> Any:
    layers = fluid.layers
    ids, label = fluid.data("ids", [None, 5], "int64"), fluid.data("label", [None, 1], "int64")
    rows = fluid.embedding(ids, [50, 6], is_sparse=True)
    return layers.softmax_with_cross_entropy(layers.fc(rows, 4), label)


def alignments(fluid: Any) -> Any:
    layers = fluid.layers
    x = fluid.data("x", [6, None, 7])
    label, length = fluid.data("labels", [None, 2], "int64"), fluid.data("lengths", [None], "int64")
    short = fluid.data("short", [None], "int64")
    logits = layers.fc(x, 5, num_flatten_dims=2)
    return layers.warpctc(logits, label, 4, input_length=length, label_length=short)


def attending(fluid: Any) -> Any:
    layers = fluid.layers
    rows, label = fluid.data("rows", [None, 5, 8]), fluid.data("label", [None, 1], "int64")
    parted = layers.reshape(layers.fc(rows, 8, num_flatten_dims=2), [0, 0, 2, 4])
    heads = layers.transpose(parted, [0, 2, 1, 3])
    weights = layers.softmax(layers.matmul(heads, heads, transpose_y=True, alpha=0.5))
    return layers.softmax_with_cross_entropy(layers.fc(layers.matmul(weights, heads), 4), label)


def feeds() -> dict[str, Any]:
    draws = np.random.default_rng(5)
    return {
        "image": draws.standard_normal((64, 3, 8, 8)).astype(np.float32),
        "label": draws.integers(0, 4, (64, 1)),
        "ids": draws.integers(0, 50, (64, 5)),
        "x": draws.standard_normal((6, 64, 7)).astype(np.float32),
        "rows": draws.standard_normal((64, 5, 8)).astype(np.float32),
        "labels": draws.integers(0, 4, (64, 2)),
        "lengths": np.full(64, 6),
        "short": np.full(64, 2),
    }


def runs(fluid: Any) -> Iterator[tuple[str, Callable[[Any], Any], Any]]:
    """Networks and optimizers that need every part together."""
    chosen = fluid.optimizer
    yield "momentum", convolutions, chosen.Momentum(0.05, 0.9)
    yield "nesterov", convolutions, chosen.Momentum(0.05, 0.9, use_nesterov=True)
    yield "adam", convolutions, chosen.Adam(0.01)
    scaled = fluid.contrib.mixed_precision.decorate(chosen.SGD(0.01))
    yield "half", convolutions, scaled
    yield "lazy adam", embeddings, chosen.Adam(0.01, lazy_mode=True)
    yield "sgd", embeddings, chosen.SGD(0.5)
    yield "attention", attending, chosen.SGD(0.5)
    yield "adagrad", alignments, chosen.Adagrad(0.05)
    for name in ("Adadelta", "Adamax", "RMSProp", "Lamb", "Ftrl"):
        yield name, embeddings, getattr(chosen, name)(0.05)
    yield "lars", embeddings, chosen.LarsMomentum(0.05, 0.9)
    yield "proximal", embeddings, chosen.Ftrl(0.05, l1=0.001, l2=0.001, lr_power=-0.4)


def trained(fluid: Any, network: Callable[[Any], Any], optimizer: Any) -> list[float]:
    main, startup = fluid.Program(), fluid.Program()
    main.random_seed = startup.random_seed = 3
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        loss = fluid.layers.mean(network(fluid))
        optimizer.minimize(loss)
    exe, scope = fluid.Executor(fluid.CPUPlace()), fluid.Scope()
    exe.run(startup, scope=scope)
    given = {name: one for name, one in feeds().items() if main.global_block().has_var(name)}
    return [exe.run(main, given, [loss], scope=scope)[0].item() for _ in range(STEPS)]


def replicated(fluid: Any) -> list[float]:
    """Four places: the first two replicas may run as one."""
    main, startup = fluid.Program(), fluid.Program()
    main.random_seed = startup.random_seed = 3
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        loss = fluid.layers.mean(convolutions(fluid))
        fluid.optimizer.SGD(0.05).minimize(loss)
    exe, scope = fluid.Executor(fluid.CPUPlace()), fluid.Scope()
    exe.run(startup, scope=scope)
    ready = fluid.CompiledProgram(main).with_data_parallel(loss.name, places=fluid.cpu_places(4))
    given = {name: feeds()[name] for name in ("image", "label")}
    return [exe.run(ready, given, [loss], scope=scope)[0].mean().item() for _ in range(STEPS)]


def at_once(fluid: Any) -> list[float]:
    """A network whose operators run at once."""
    found = []
    with fluid.dygraph.guard():
        draws = np.random.default_rng(7)
        net, given = fluid.dygraph.Linear(7, 4), fluid.dygraph.to_variable(feeds()["x"])
        for one in net.parameters():
            one.set_value(draws.standard_normal(one.shape).astype(np.float32))
        adam = fluid.optimizer.Adam(0.05, parameter_list=net.parameters())
        for _ in range(STEPS):
            loss = fluid.layers.mean(fluid.layers.square(net(given)))
            loss.backward()
            adam.minimize(loss)
            net.clear_gradients()
            found.append(loss.numpy().item())
    return found


def work(names: list[str]) -> dict[str, Any]:
    asked = leave_out(names)
    import refluid.paddle

    refluid.paddle.install()
    import paddle.fluid as fluid  # type: ignore[import-not-found]

    from refluid.kernels import inductor, onednn

    fluid.set_flags({"FLAGS_check_nan_inf": False})
    found: dict[str, Any] = {name: trained(fluid, *rest) for name, *rest in runs(fluid)}
    found["replicas"], found["at once"] = replicated(fluid), at_once(fluid)
    onednn.has_bfloat16()
    if "torch._subclasses.fake_tensor.FakeTensorMode" in names:
        with inductor.without_memory():
            torch.empty(2)
    inductor._entered(None)
    inductor._gives_list(torch.ops.aten._foreach_norm.Scalar)
    list(inductor._laid_otherwise(None, []))
    with suppress(RuntimeError):
        inductor.in_order()
    if "torch._inductor.compile_fx.compile_fx" in names:
        try:
            inductor.compile_graph(torch.fx.GraphModule({}, torch.fx.Graph()), [])
        except RuntimeError as error:
            assert "this torch has no" in str(error)
    alone()
    return {"losses": found, "asked": sorted(asked)}


def alone() -> None:
    """A group of one process."""
    from refluid.kernels.process_groups import gloo, serve_store

    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        store = serve_store("127.0.0.1", port, os.dup(listener.fileno()))
        one = torch.ones(2)
        gloo(store, "alone", 0, 1, "127.0.0.1", 10.0).allreduce([one]).wait()
    assert one.tolist() == [1.0, 1.0]


def in_a_process(names: list[str]) -> dict[str, Any]:
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            result = work(names)
        except BaseException:
            result = {"error": traceback.format_exc()}
        with os.fdopen(writing, "w") as out:
            json.dump(result, out)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as source:
        found: dict[str, Any] = json.loads(source.read() or '{"error": "it ended"}')
    os.waitpid(child, 0)
    return found


if __name__ == "__main__":
    import numba  # noqa: F401

    print(json.dumps([in_a_process(names) for names in json.loads(sys.argv[1])]))
