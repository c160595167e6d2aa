"""Recognise handwritten digits by several processes, which train one network together.

    refluid run examples/digits_together.py                # one process
    refluid launch -n 2 examples/digits_together.py        # two, each with half of every batch

All processes together take the same steps as one, so what they learn is the same. The first one
tests the network, compares with what one process has reached where that was run before, and draws
`together.png`: when each of the last steps computed, and when it exchanged gradients.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import digits_data
import numpy as np
import paddle.fluid as fluid
from paddle.fluid.incubate.fleet.base import role_maker
from paddle.fluid.incubate.fleet.collective import DistributedStrategy, fleet
from recognize_digits import Network, accuracy_of, build_network, positive, predict

from refluid.comm.spans import TimeSpan, recording

SHOWN = 4


def build() -> Network:
    """The network of `recognize_digits`, whose gradients the fleet exchanges in small buckets."""
    fluid.set_flags({"FLAGS_fuse_parameter_memory_size": 0.05})
    usual = fluid.optimizer.Adam

    def together(**settings: Any) -> Any:
        return fleet.distributed_optimizer(usual(**settings), DistributedStrategy())

    fluid.optimizer.Adam = together
    try:
        return build_network()
    finally:
        fluid.optimizer.Adam = usual


def train(
    exe: Any, net: Network, digits: digits_data.Digits, options: argparse.Namespace
) -> tuple[list[float], list[TimeSpan]]:
    """The mean loss of this process's part in each step, and the spans of the last steps."""
    rank, size = fleet.worker_index(), fleet.worker_num()
    exe.run(net.startup)
    losses: list[float] = []
    last: deque[list[TimeSpan]] = deque(maxlen=SHOWN)
    for epoch in range(1, options.epochs + 1):
        for batch in digits_data.batches(digits, options.batch_size, shuffle_seed=epoch):
            part = {name: np.array_split(value, size)[rank] for name, value in batch.items()}
            with recording() as found:
                (loss,) = exe.run(net.main, feed=part, fetch_list=[net.loss])
            losses.append(np.asarray(loss).item())
            last.append(found)
            if len(losses) == options.steps:
                return losses, [span for step in last for span in step]
    return losses, [span for step in last for span in step]


def draw(path: Path, spans: Sequence[TimeSpan]) -> Path:
    """What one process does in a few steps: computing, exchanging, and waiting for others."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    rows = {"exchange": 0.0, "wait": 1.0, "step": 2.0}
    names = ["gradients exchanged", "waiting for them", "the step"]
    colours = {"step": "#b6d0f7", "exchange": "#1f6feb", "wait": "#c62828"}
    begin = min(one.begin for one in spans)
    figure, axes = plt.subplots(figsize=(10, 2.6), layout="constrained")
    for one in spans:
        left, width = (one.begin - begin) * 1e3, (one.end - one.begin) * 1e3
        axes.barh(rows[one.kind], width, 0.7, left, color=colours[one.kind], edgecolor="white")
    axes.set_yticks(list(rows.values()), names)
    axes.set_xlabel("milliseconds")
    axes.set_title("Gradients travel while the backward pass goes on", loc="left")
    axes.spines[["top", "right", "left"]].set_visible(False)
    figure.savefig(path, dpi=120)
    plt.close(figure)
    return path


def tell(options: argparse.Namespace, reached: float, losses: Sequence[float]) -> None:
    """Notes what was reached, and compares with one process where that is noted."""
    size = fleet.worker_num()
    noted = options.out / "together.json"
    known = json.loads(noted.read_text()) if noted.is_file() else {}
    known[str(size)] = reached
    noted.write_text(json.dumps(known))
    print(f"steps          {len(losses)} of {options.batch_size} digits by {size} processes")
    print(f"test accuracy  {reached:.2%}")
    if size > 1 and "1" in known:
        print(f"by one process {known['1']:.2%}")


def main() -> int:
    parser = argparse.ArgumentParser(description="Train on digits, several processes together.")
    parser.add_argument("--epochs", type=positive, default=1, help="passes over the digits")
    parser.add_argument("--steps", type=positive, help="at most so many steps")
    parser.add_argument("--batch-size", type=positive, default=64, help="of all processes")
    parser.add_argument("--out", type=Path, default=Path("demo-output"), help="folder for results")
    parser.add_argument("--data", choices=("auto", *digits_data.SOURCES), default="auto")
    options = parser.parse_args()
    if "PADDLE_TRAINER_ENDPOINTS" in os.environ:
        fleet.init(role_maker.PaddleCloudRoleMaker(is_collective=True))
    else:  # one process, without a launcher
        fleet.init(role_maker.UserDefinedCollectiveRoleMaker(0, ["127.0.0.1:6170"]))
    try:
        digits = [digits_data.load(split, options.data) for split in digits_data.SPLITS]
    except digits_data.DataMissing as missing:
        print(missing, file=sys.stderr)
        return 1
    net, exe = build(), fluid.Executor(fluid.CPUPlace())
    losses, spans = train(exe, net, digits[0], options)
    if fleet.worker_index():
        return 0
    options.out.mkdir(parents=True, exist_ok=True)
    reached = accuracy_of(predict(exe, net.test, net.prediction, digits[1]), digits[1])
    tell(options, reached, losses)
    if spans:
        print(f"written        {draw(options.out / 'together.png', spans)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
