"""Fused layers of `paddle.incubate.nn` against unfused ones: steps in turns, and memory.

    python -m benchmarks.fused_layers [--blocks 7] [--threads 1]

Prints a row for each way to run: the median processor time of a step of both, how many times as
fast the fused one is, and the most memory that a step of each holds beyond what it began with.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from refluid import paddle
from refluid.core import names
from refluid.core.scope import Scope
from refluid.measure.peak import peak_bytes
from refluid.measure.timing import Feed, TrainStep, alternate, ratio

WIDTH, HEADS, WIDE, BATCH, LENGTH = 128, 4, 512, 8, 64


def layers(dropout: float) -> dict[str, Callable[[], Any]]:
    """How each is made."""
    unfused, fused = paddle.nn.TransformerEncoderLayer, paddle.incubate.nn
    return {
        "fused": lambda: fused.FusedTransformerEncoderLayer(WIDTH, HEADS, WIDE, dropout),
        "unfused": lambda: unfused(WIDTH, HEADS, WIDE, dropout),
    }


def at_once(make: Callable[[], Any]) -> TrainStep:
    """A step of dygraph."""
    with names.guard():
        net = make()
        adam = paddle.optimizer.Adam(0.001, parameters=net.parameters())

    def step(feed: Feed) -> float:
        loss = (net(paddle.to_tensor(feed["x"])) ** 2).mean()
        loss.backward()
        adam.step()
        adam.clear_grad()
        return float(loss)

    return step


def in_a_program(make: Callable[[], Any]) -> TrainStep:
    """A step of a program."""
    main, startup, scope = paddle.static.Program(), paddle.static.Program(), Scope()
    with paddle.static.program_guard(main, startup), names.guard():
        x = paddle.static.data("x", [BATCH, LENGTH, WIDTH])
        loss = (make()(x) ** 2).mean()
        paddle.optimizer.Adam(0.001).minimize(loss)
    exe = paddle.static.Executor("cpu")
    exe.run(startup, scope=scope)

    def step(feed: Feed) -> float:
        return float(exe.run(main, feed, [loss], scope=scope)[0])

    return step


def row(title: str, build: Callable[[Callable[[], Any]], TrainStep], dropout: float, n: int) -> str:
    """A row of the table."""
    random = np.random.default_rng(0)
    feeds = [{"x": random.standard_normal((BATCH, LENGTH, WIDTH), np.float32)} for _ in range(2)]
    rivals = {name: build(make) for name, make in layers(dropout).items()}
    times = alternate(rivals, feeds, blocks=n, steps=8, warmup=6, clock=time.process_time)
    faster = ratio(times["fused"], times["unfused"])
    memory = {name: peak_bytes(lambda step=step: step(feeds[0])) for name, step in rivals.items()}
    shown = [f"{1e3 * times[name].median:.2f} ms" for name in rivals]
    shown.append(f"{faster.value:.2f} ({faster.low:.2f} to {faster.high:.2f})")
    shown += [f"{memory[name] / 1e6:.1f} MB" for name in rivals]
    return f"| {title} | " + " | ".join(shown) + " |"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--blocks", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    print("| step | fused | unfused | times as fast | memory, fused | unfused |")
    print("|---|---|---|---|---|---|")
    for dropout in (0.0, 0.1):
        paddle.disable_static()
        print(row(f"at once, dropout {dropout}", at_once, dropout, given.blocks), flush=True)
        paddle.enable_static()
        print(row(f"program, dropout {dropout}", in_a_program, dropout, given.blocks), flush=True)


if __name__ == "__main__":
    main()
