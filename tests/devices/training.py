"""Trains on the device made for tests, of the type named first, and on the processor.

    python training.py npu NPUPlace FOLDER     # the folder has the built extension

Prints what was trained and the losses by both.
"""

from __future__ import annotations

import json
import sys
import tempfile
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

STEPS = 8


def register(name: str, folder: str) -> Any:
    """Has torch know the device by that name, as a plugin does when torch is imported."""
    sys.path.insert(0, folder)
    torch.utils.rename_privateuse1_backend(name)
    import refluid_test_device as device  # type: ignore[import-not-found]

    module: Any = types.ModuleType(f"torch.{name}")
    module.is_available = lambda: True
    module.device_count = device.device_count
    module.current_device = device.current_device
    module._is_in_bad_fork = lambda: False
    module.manual_seed_all = lambda seed: None
    torch._register_device_module(name, module)
    torch.utils.generate_methods_for_privateuse1_backend(for_storage=True)
    return device


def pictures(fluid: Any) -> Any:
    layers = fluid.layers
    image, label = fluid.data("image", [None, 1, 8, 8]), fluid.data("label", [None, 1], "int64")
    hidden = layers.batch_norm(layers.conv2d(image, 4, 3, padding=1), act="relu")
    hidden = layers.flatten(layers.pool2d(hidden, 2, "max", 2))
    return layers.cross_entropy(layers.fc(hidden, 4, act="softmax"), label)


def sentences(fluid: Any) -> Any:
    layers = fluid.layers
    words = fluid.data("words", [None, 1], "int64", lod_level=1)
    label = fluid.data("label", [None, 1], "int64")
    rows = fluid.embedding(words, [20, 8], is_sparse=True)
    hidden, _ = layers.dynamic_lstm(layers.fc(rows, 32), 32)
    last = layers.sequence_pool(hidden, "last")
    return layers.softmax_with_cross_entropy(layers.fc(last, 4), label)


def feeds(fluid: Any, name: str) -> list[dict[str, Any]]:
    draws = np.random.default_rng(3)
    found = []
    for _ in range(STEPS):
        labels = draws.integers(0, 4, (6, 1))
        if name == "pictures":
            fed = draws.random((6, 1, 8, 8), np.float32)
            found.append({"image": fed, "label": labels})
        else:
            words = fluid.create_lod_tensor(
                draws.integers(0, 20, (15, 1)), [[1, 2, 3, 4, 3, 2]], fluid.CPUPlace()
            )
            found.append({"words": words, "label": labels})
    return found


def trained(fluid: Any, network: Callable[[Any], Any], optimizer: Any, places: list[Any]) -> Any:
    """Losses by the first place, or by all as replicas; saved and loaded half way."""
    main, startup = fluid.Program(), fluid.Program()
    main.random_seed = startup.random_seed = 3
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        loss = fluid.layers.mean(network(fluid))
        optimizer().minimize(loss)
    exe, scope, losses = fluid.Executor(places[0]), fluid.Scope(), []
    with fluid.scope_guard(scope), tempfile.TemporaryDirectory() as folder:
        exe.run(startup)
        ready = main
        if len(places) > 1:
            ready = fluid.CompiledProgram(main).with_data_parallel(loss.name, places=places)
        for step, feed in enumerate(feeds(fluid, network.__name__)):
            losses.append(exe.run(ready, feed, [loss])[0].mean().item())
            if step == STEPS // 2:
                fluid.io.save_persistables(exe, folder, main)
                fluid.io.load_persistables(exe, folder, main)
    return losses


def imperative(fluid: Any, place: Any) -> Any:
    losses = []
    with fluid.dygraph.guard(place):
        net = fluid.dygraph.Linear(8, 4)
        net.set_dict(
            {name: np.full(one.shape, 0.1, "float32") for name, one in net.state_dict().items()}
        )
        sgd = fluid.optimizer.Momentum(0.001, 0.9, parameter_list=net.parameters())
        for step in range(STEPS):
            x = fluid.dygraph.to_variable(np.full((3, 8), step + 1, "float32"))
            loss = fluid.layers.mean(fluid.layers.square(net(x) - 1.0))
            loss.backward()
            sgd.minimize(loss)
            net.clear_gradients()
            losses.append(loss.numpy().item())
    return losses


def main(name: str, kind: str, folder: str) -> None:
    device = register(name, folder)
    import refluid.fluid as fluid
    from refluid.core.places import place_of

    made = getattr(fluid, kind)
    numbered = (lambda id: made(name, id)) if kind == "CustomPlace" else made
    assert str(place_of(torch.device(name, 1))) == str(numbered(1))
    assert fluid.core.is_compiled_with_custom_device(name)
    host, one, other = fluid.CPUPlace(), numbered(0), numbered(1)
    before = device.calls()
    found = {
        "pictures": [
            trained(fluid, pictures, lambda: fluid.optimizer.Adam(0.01), [place])
            for place in (host, other)
        ],
        "sentences": [
            trained(fluid, sentences, lambda: fluid.optimizer.Adagrad(0.05), [place])
            for place in (host, one)
        ],
        "replicas": [
            trained(fluid, pictures, lambda: fluid.optimizer.SGD(0.05), places)
            for places in ([host, host], [one, other])
        ],
        "dygraph": [imperative(fluid, place) for place in (host, one)],
    }
    assert device.calls() > before
    try:
        fluid.Executor(numbered(2))
    except fluid.core.EnforceNotMet as error:
        assert "2 such device(s)" in str(error)
    else:
        raise AssertionError("there are two devices")
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
