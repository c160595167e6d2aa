"""A small `paddle.Model` for the tests, at once or as programs, alone or in several processes."""

from __future__ import annotations

from typing import Any

import numpy as np

import refluid.paddle as paddle
from refluid.core import names
from refluid.core.scope import Scope
from refluid.fluid import Program, program_guard
from refluid.fluid.executor import scope_guard


class Points(paddle.io.Dataset):
    """`count` points of four numbers, with a class each."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, place: int) -> tuple[Any, Any]:
        x = np.random.RandomState(place).rand(4).astype("float32")
        return x, np.array([int(x.sum() * 10) % 3])


def model(rate: Any = 0.1, metrics: Any = None, width: int = 8, optimizer: str = "SGD") -> Any:
    """A prepared model, its numbers set."""
    net = paddle.nn.Sequential(
        paddle.nn.Linear(4, width), paddle.nn.Tanh(), paddle.nn.Linear(width, 3)
    )
    spec = paddle.static.InputSpec
    made = paddle.Model(net, spec([None, 4], "float32", "x"), spec([None, 1], "int64", "y"))
    kind = getattr(paddle.optimizer, optimizer)
    loss = paddle.nn.CrossEntropyLoss()
    made.prepare(kind(rate, parameters=made.parameters()), loss, metrics)
    values = {
        name: np.random.RandomState(number).randn(*one.shape).astype("float32")
        for number, (name, one) in enumerate(net.state_dict().items())
    }
    net.set_state_dict(values)
    return made


def trained(at_once: bool, batch_size: int, count: int = 4, **settings: Any) -> list[Any]:
    """Parameters after a fit, and what the model says of its data after it."""
    with program_guard(Program(), Program()), names.guard(), scope_guard(Scope()):
        (paddle.disable_static if at_once else paddle.enable_static)()
        try:
            made = model(metrics=paddle.metric.Accuracy())
            made.fit(
                Points(count), epochs=3, batch_size=batch_size, shuffle=False, verbose=0, **settings
            )
            said = made.evaluate(Points(6), batch_size=6, verbose=0)
            return [*made.predict_batch(_all(6)[0]), *said["loss"], said["acc"]]
        finally:
            paddle.enable_static()


def _all(count: int) -> tuple[Any, Any]:
    points = [Points(count)[place] for place in range(count)]
    return np.stack([x for x, _ in points]), np.stack([y for _, y in points])
