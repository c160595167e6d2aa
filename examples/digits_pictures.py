"""Two pictures of a training run: what the network reads in the digits, and how it learned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import MaxNLocator, PercentFormatter

INK, QUIET, BLUE, PALE, RED = "#1f2328", "#6b7280", "#1f6feb", "#b6d0f7", "#c62828"
COLUMNS = 12
SAMPLE_ROWS, MISTAKE_ROWS = 5, 2
TILE, MARGIN = 42, 7


def draw_digits(
    path: Path, pixels: np.ndarray, labels: np.ndarray, probabilities: np.ndarray
) -> Path:
    """The first test digits with the network's reading, then its surest mistakes, in red."""
    read = probabilities.argmax(axis=1)
    wrong = np.flatnonzero(read != labels)
    surest = wrong[np.argsort(-probabilities[wrong].max(axis=1), kind="stable")]
    groups = [
        ("The first test digits", np.arange(min(SAMPLE_ROWS * COLUMNS, len(labels)))),
        ("Where it was surest and wrong", surest[: MISTAKE_ROWS * COLUMNS]),
    ]
    groups = [(title, chosen) for title, chosen in groups if len(chosen)]
    rows = [-(-len(chosen) // COLUMNS) for _, chosen in groups]
    figure, axes = plt.subplots(
        len(groups),
        figsize=(10, 0.84 * sum(rows) + 0.3 * len(rows) + 0.5),
        height_ratios=rows,
        squeeze=False,
        layout="constrained",
    )
    share = 1 - len(wrong) / len(labels)
    figure.suptitle(
        f"{len(labels) - len(wrong):,} of {len(labels):,} test digits read right ({share:.2%})",
        fontsize=14,
        color=INK,
    )
    for axis, (title, chosen) in zip(axes.ravel(), groups, strict=True):
        axis.set_title(title, fontsize=10, color=QUIET, loc="left")
        _digit_grid(axis, pixels[chosen], labels[chosen], read[chosen])
    return _save(figure, path)


def _digit_grid(axis: Any, pixels: np.ndarray, labels: np.ndarray, read: np.ndarray) -> None:
    """Digits side by side in one image; above each what was read, and if wrong, what it is."""
    rows = -(-len(labels) // COLUMNS)
    sheet = np.zeros((rows, TILE, COLUMNS, TILE), np.uint8)
    for index, (digit, label, guess) in enumerate(zip(pixels, labels, read, strict=True)):
        row, column = divmod(index, COLUMNS)
        sheet[row, TILE - 30 : TILE - 2, column, MARGIN : MARGIN + 28] = digit.reshape(28, 28)
        right = label == guess
        axis.text(
            column * TILE + TILE / 2,
            row * TILE + MARGIN,
            f"{guess}" if right else f"{guess}, is {label}",
            color=INK if right else RED,
            fontweight="normal" if right else "bold",
            ha="center",
            va="center",
        )
    axis.imshow(sheet.reshape(rows * TILE, COLUMNS * TILE), cmap="gray_r", interpolation="nearest")
    axis.set_axis_off()


def draw_training(
    path: Path, losses: list[float], test_accuracy: list[float], steps_per_epoch: int
) -> Path:
    """The loss of every step with its running mean, and the test accuracy after every epoch."""
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(10, 4), layout="constrained", width_ratios=(3, 2)
    )
    epochs = (np.arange(len(losses)) + 1) / max(steps_per_epoch, 1)
    window = max(1, min(50, len(losses) // 20))
    running = np.convolve(losses, np.ones(window) / window, mode="valid")
    left.plot(epochs, losses, color=PALE, linewidth=0.8, label="each step")
    left.plot(epochs[window - 1 :], running, color=BLUE, label=f"mean of {window} steps")
    left.set_yscale("log")
    left.yaxis.set_major_formatter("{x:g}")
    left.set(xlabel="epoch", ylabel="loss (cross entropy, log scale)", title="Training loss")
    left.set_xlim(0, epochs[-1])
    left.legend(frameon=False)
    numbers = np.arange(1, len(test_accuracy) + 1)
    right.plot(numbers, test_accuracy, color=BLUE, marker="o")
    for number, accuracy in zip(numbers, test_accuracy, strict=True):
        right.annotate(
            f"{accuracy:.2%}",
            (number, accuracy),
            (0, 9),
            textcoords="offset points",
            ha="center",
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
        )
    right.set(xlabel="epoch", ylabel="digits read right", title="Test accuracy")
    right.set_xlim(0.5, len(test_accuracy) + 0.5)
    right.margins(y=0.3)
    right.xaxis.set_major_locator(MaxNLocator(integer=True))
    right.yaxis.set_major_formatter(PercentFormatter(1, decimals=1))
    for axis in (left, right):
        axis.grid(color="#e5e7eb", linewidth=0.6)
        axis.spines[["top", "right"]].set_visible(False)
    return _save(figure, path)


def _save(figure: Any, path: Path) -> Path:
    figure.savefig(path, dpi=120, facecolor="white")
    plt.close(figure)
    return path
