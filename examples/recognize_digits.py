"""Recognise handwritten digits: a whole Fluid training program, from the network to a saved model.

    refluid run examples/recognize_digits.py
    python examples/recognize_digits.py          # the same

It trains a small convolutional network on MNIST (or 5,000 of its digits, whichever is installed),
saves it, loads it into a fresh scope, checks that both answer alike, and draws `digits.png` and
`loss.png`.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import digits_data
import numpy as np
from digits_progress import progress_line
from prefetch import Prefetch

try:
    import paddle.fluid as fluid
except ImportError:  # started by plain `python`: let refluid take the name `paddle`
    import refluid.paddle

    refluid.paddle.install()
    import paddle.fluid as fluid

TEST_BATCH = 500
SEED = 1


@dataclass
class Network:
    """The programs of one model and the variables people ask them for."""

    main: Any
    startup: Any
    test: Any
    prediction: Any
    loss: Any
    accuracy: Any


@dataclass
class History:
    """The loss of each step, the test accuracy after each epoch, the seconds training took."""

    losses: list[float] = field(default_factory=list)
    test_accuracy: list[float] = field(default_factory=list)
    steps_per_epoch: int = 0
    seconds: float = 0.0


def build_network() -> Network:
    """Two rounds of convolution and pooling, then one layer that gives each digit a probability."""
    main, startup = fluid.Program(), fluid.Program()
    main.random_seed = startup.random_seed = SEED
    with fluid.program_guard(main, startup):
        image = fluid.data(name="image", shape=[None, 1, 28, 28], dtype="float32")
        label = fluid.data(name="label", shape=[None, 1], dtype="int64")
        hidden = image
        for filters in (20, 50):
            hidden = fluid.nets.simple_img_conv_pool(
                input=hidden,
                num_filters=filters,
                filter_size=5,
                pool_size=2,
                pool_stride=2,
                act="relu",
            )
        prediction = fluid.layers.fc(input=hidden, size=10, act="softmax")
        test = main.clone(for_test=True)  # up to here: it neither asks for labels nor trains
        loss = fluid.layers.mean(fluid.layers.cross_entropy(input=prediction, label=label))
        accuracy = fluid.layers.accuracy(input=prediction, label=label)
        fluid.optimizer.Adam(learning_rate=0.001).minimize(loss)
    return Network(main, startup, test, prediction, loss, accuracy)


def train_epoch(
    exe: Any,
    net: Network,
    digits: digits_data.Digits,
    epoch: int,
    batch_size: int,
    history: History,
) -> None:
    """One pass over the training digits in a new order, reading ahead while the step runs."""
    source = digits_data.batches(digits, batch_size, shuffle_seed=epoch)
    history.steps_per_epoch = len(digits) // batch_size
    with Prefetch(source) as feeds, progress_line(epoch, history.steps_per_epoch) as report:
        for feed in feeds:
            loss, accuracy = exe.run(net.main, feed=feed, fetch_list=[net.loss, net.accuracy])
            history.losses.append(np.asarray(loss).item())
            report(batch_size, history.losses[-1], np.asarray(accuracy).item(), feeds.waited)


def predict(exe: Any, program: Any, target: Any, digits: digits_data.Digits) -> np.ndarray:
    """Probabilities [n, 10] that `program` gives the digits, read from its variable `target`."""
    feeds = digits_data.batches(digits, TEST_BATCH)
    rows = [exe.run(program, {"image": feed["image"]}, [target])[0] for feed in feeds]
    return np.concatenate([np.asarray(row) for row in rows])


def accuracy_of(probabilities: np.ndarray, digits: digits_data.Digits) -> float:
    return float((probabilities.argmax(axis=1) == digits.labels).mean())


def train(exe: Any, net: Network, options: argparse.Namespace) -> tuple[History, np.ndarray]:
    """Train for `options.epochs`; the history, and the last probabilities for the test digits."""
    train_digits = digits_data.load("train", options.data)
    test_digits = digits_data.load("test", options.data)
    history = History()
    exe.run(net.startup)
    for epoch in range(1, options.epochs + 1):
        begin = time.perf_counter()
        train_epoch(exe, net, train_digits, epoch, options.batch_size, history)
        history.seconds += time.perf_counter() - begin
        probabilities = predict(exe, net.test, net.prediction, test_digits)
        history.test_accuracy.append(accuracy_of(probabilities, test_digits))
        print(f"epoch {epoch}: test accuracy {history.test_accuracy[-1]:.2%}", flush=True)
    return history, probabilities


def save(exe: Any, net: Network, folder: Path) -> None:
    """Save what an application needs to recognise digits: the pruned program and its parameters."""
    fluid.io.save_inference_model(
        str(folder), ["image"], [net.prediction], exe, main_program=net.main
    )


def predict_with_saved(exe: Any, folder: Path, digits: digits_data.Digits) -> np.ndarray:
    """Probabilities by the saved model, in a scope of its own: nothing of the training is there."""
    with fluid.scope_guard(fluid.Scope()):
        program, feeds, targets = fluid.io.load_inference_model(str(folder), exe)
        if list(feeds) != ["image"]:
            raise SystemExit(f"the saved model asks for {feeds}, expected only the image")
        return predict(exe, program, targets[0], digits)


def draw(probabilities: np.ndarray, history: History, options: argparse.Namespace) -> list[Path]:
    """Draw digits.png and loss.png; nothing where matplotlib is not installed."""
    try:
        from digits_pictures import draw_digits, draw_training
    except ImportError as error:
        print(f"no pictures: {error.name} is not installed", file=sys.stderr)
        return []
    digits = digits_data.load("test", options.data)
    return [
        draw_digits(options.out / "digits.png", digits.pixels, digits.labels, probabilities),
        draw_training(
            options.out / "loss.png",
            history.losses,
            history.test_accuracy,
            history.steps_per_epoch,
        ),
    ]


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train a Fluid program to recognise digits.")
    parser.add_argument(
        "--epochs", type=positive, default=4, help="passes over the training digits"
    )
    parser.add_argument("--batch-size", type=positive, default=64, help="digits in a training step")
    parser.add_argument("--out", type=Path, default=Path("demo-output"), help="folder for results")
    parser.add_argument("--data", choices=("auto", *digits_data.SOURCES), default="auto")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument(
        "--require", type=float, default=0.0, help="fail below this test accuracy, such as 0.985"
    )
    return parser.parse_args()


def positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, not {number}")
    return number


def summarise(
    history: History, difference: float, paths: list[Path], options: argparse.Namespace
) -> None:
    samples = len(history.losses) * options.batch_size
    last = history.losses[-history.steps_per_epoch // 10 :]
    source = digits_data.load("test", options.data).source
    print(f"data           {source}")
    print(f"steps          {len(history.losses)} of {options.batch_size} digits")
    print(f"training time  {history.seconds:.1f} s, {samples / history.seconds:,.0f} digits/s")
    print(f"loss           {history.losses[0]:.3f} -> {np.mean(last):.3f}")
    print(f"test accuracy  {history.test_accuracy[-1]:.2%}")
    print(f"saved model    answers the same (largest difference {difference:.1e})")
    print(f"written        {', '.join(str(path) for path in paths)}")


def main() -> int:
    options = parse_options()
    try:
        test_digits = digits_data.load("test", options.data)
    except digits_data.DataMissing as missing:
        print(missing, file=sys.stderr)
        return 1
    options.out.mkdir(parents=True, exist_ok=True)
    net = build_network()
    exe = fluid.Executor(fluid.CUDAPlace(0) if options.device == "cuda" else fluid.CPUPlace())
    history, trained = train(exe, net, options)
    model = options.out / "digits.model"
    save(exe, net, model)
    loaded = predict_with_saved(exe, model, test_digits)
    difference = float(np.abs(loaded - trained).max())
    if difference > 1e-5:
        print(f"the saved model's answers differ by {difference:.1e}", file=sys.stderr)
        return 1
    summarise(history, difference, [model, *draw(loaded, history, options)], options)
    if history.test_accuracy[-1] < options.require:
        print(f"test accuracy is below the required {options.require:.2%}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
