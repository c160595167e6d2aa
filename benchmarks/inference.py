"""How fast a predictor answers, beside `Executor.run` on the same saved model.

    python -m benchmarks.inference            # exit status 1 where it is slower by a tenth
    python -m benchmarks.inference --record   # writes the table of docs/benchmarks.md

All rivals share one process and alternate in blocks. Their outputs must agree at 1e-4.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.machine import facts
from benchmarks.report import record
from benchmarks.suite.networks import fluid_vision
from refluid import fluid
from refluid.fluid.core import AnalysisConfig, PaddleTensor, create_paddle_predictor
from refluid.measure.timing import alternate, ratio

PAGE = Path(__file__).resolve().parent.parent / "docs" / "benchmarks.md"
NETWORKS: Mapping[str, tuple[Callable[[Any, Any], Any], tuple[int, ...], int]] = {
    "MLP 784-128-64-10": (fluid_vision.mlp, (784,), 10),
    "MobileNet, 224 x 224": (fluid_vision.mobilenet, (3, 224, 224), 1000),
    "ResNet-50, 224 x 224": (fluid_vision.resnet50, (3, 224, 224), 1000),
}
_EXECUTOR, _RUN, _ZERO_COPY = "exe.run", "predictor.run", "zero_copy_run"
_SLOWER = 0.9
Step = Callable[[Any], float]


def save(folder: str, network: Callable[[Any, Any], Any], shape: tuple[int, ...]) -> None:
    """Saves the network's loss as an inference model: its forward pass."""
    main, startup = fluid.Program(), fluid.Program()
    startup.random_seed = 1
    with fluid.program_guard(main, startup), fluid.scope_guard(fluid.Scope()):
        image = fluid.data("image", [None, *shape])
        label = fluid.data("label", [None, 1], "int64")
        loss = network(fluid, {"image": image, "label": label})
        executor = fluid.Executor()
        executor.run(startup)
        fluid.io.save_inference_model(folder, ["image", "label"], [loss], executor, main)


def rivals(folder: str) -> dict[str, Step]:
    """One step of each way, which gives the loss."""
    scope, executor = fluid.Scope(), fluid.Executor()
    with fluid.scope_guard(scope):
        program, _, targets = fluid.io.load_inference_model(folder, executor)
    predictor = create_paddle_predictor(AnalysisConfig(folder))
    other = predictor.clone()
    inputs = [other.get_input_tensor(name) for name in other.get_input_names()]
    (output,) = (other.get_output_tensor(name) for name in other.get_output_names())

    def by_executor(feed: Any) -> float:
        return float(executor.run(program, feed, targets, scope=scope)[0].item())

    def by_run(feed: Any) -> float:
        tensors = [PaddleTensor(feed["image"]), PaddleTensor(feed["label"])]
        return float(predictor.run(tensors)[0].as_ndarray().item())

    def by_zero_copy(feed: Any) -> float:
        for tensor, array in zip(inputs, (feed["image"], feed["label"]), strict=True):
            tensor.copy_from_cpu(array)
        other.zero_copy_run()
        return float(output.copy_to_cpu().item())

    return {_EXECUTOR: by_executor, _RUN: by_run, _ZERO_COPY: by_zero_copy}


def compare(title: str, batch: int) -> tuple[str, bool]:
    """A row of the table, and whether no way of the predictor is slower than the executor."""
    network, shape, classes = NETWORKS[title]
    draw = np.random.default_rng(0)
    feed = {
        "image": draw.random((batch, *shape), dtype=np.float32),
        "label": draw.integers(0, classes, (batch, 1)),
    }
    with tempfile.TemporaryDirectory() as folder:
        save(folder, network, shape)
        steps = rivals(folder)
        values = [step(feed) for step in steps.values()]
        np.testing.assert_allclose(values, values[0], rtol=1e-4)
        count = 200 if len(shape) == 1 else 10
        times = alternate(steps, [feed], blocks=7, steps=count, warmup=max(10, count // 5))
    base = times[_EXECUTOR]
    cells = [f"{title}, batch {batch}", f"{base.median * 1e3:.3f}"]
    good = True
    for name in (_RUN, _ZERO_COPY):
        found = ratio(times[name], base)
        good &= found.value >= _SLOWER
        cells.append(f"{found.value:.2f} ({found.low:.2f}–{found.high:.2f})")
    return f"| {' | '.join(cells)} |", good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--record", action="store_true", help="write docs/benchmarks.md")
    arguments = parser.parse_args()
    head = f"| saved model | {_EXECUTOR} ms | {_RUN} | {_ZERO_COPY} |\n| --- | --- | --- | --- |"
    lines, good = [head], True
    for title in NETWORKS:
        for batch in (1, 8):
            line, one = compare(title, batch)
            lines, good = [*lines, line], good and one
            print(line, flush=True)
    measured = ", ".join(f"{name} {value}" for name, value in facts("cpu").items())
    lines.append(f"\nMeasured: {measured}.")
    if arguments.record:
        record(PAGE, "inference", "\n".join(lines))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
