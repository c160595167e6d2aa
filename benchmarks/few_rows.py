"""Products of few rows by a large matrix: refluid's loops against what else it would take.

    python -m benchmarks.few_rows [--blocks 7] [--threads 2] [--sizes 25088x4096 4096x4096] [--half]

Prints a row for each number of rows: how many times as long as the loops the others take, as a
median with the lowest and highest of the rounds, for the product, the gradient of the rows and that
of the matrix, the last in tiles as updates take it. One thread's figures are processor time.
With --half the rows are bfloat16 and the matrix is float32: against casting it as a whole.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from functools import partial

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

from refluid.kernels.few_rows.product import by_rows, spanned
from refluid.kernels.mixed_products import mixed_gradient, mixed_product
from refluid.kernels.products import usual_product
from refluid.measure.timing import alternate, ratio

ROWS, HALF_ROWS = (1, 2, 4, 8, 12, 16), (4, 16, 32, 64, 256, 1024)
TILE = 2**19
OURS, OTHERS = "loops", "others"

Multiply = Callable[..., Tensor]


def product(multiply: Multiply, x: Tensor, weights: Tensor, _grad: Tensor) -> None:
    multiply(x, weights, None)


def of_rows(multiply: Multiply, _x: Tensor, weights: Tensor, grad: Tensor) -> None:
    multiply(grad, weights.t(), None)


def of_matrix(multiply: Multiply, x: Tensor, weights: Tensor, grad: Tensor) -> None:
    size = max(1, TILE // weights.shape[1])
    for begin in range(0, len(weights), size):
        multiply(x[:, begin : begin + size].t(), grad)


def of_whole_matrix(multiply: Multiply, x: Tensor, _weights: Tensor, grad: Tensor) -> None:
    multiply(x, grad)


def by_cast(a: Tensor, b: Tensor, _bias: None) -> Tensor:
    return torch.mm(a, b.to(a.dtype))


def cast_gradient(a: Tensor, grad: Tensor) -> Tensor:
    return torch.mm(a.t(), grad).float()


Ways = Mapping[str, tuple[Callable[..., None], Multiply, Multiply]]
WAYS: Ways = {
    "product": (product, by_rows, usual_product),
    "gradient of rows": (of_rows, by_rows, usual_product),
    "gradient of the matrix": (of_matrix, spanned, usual_product),
}
HALF_WAYS: Ways = {
    "product": (product, mixed_product, by_cast),
    "gradient of rows": (of_rows, mixed_product, by_cast),
    "gradient of the matrix": (of_whole_matrix, mixed_gradient, cast_gradient),
}


def compared(rows: int, sizes: tuple[int, int], blocks: int, half: bool) -> list[str]:
    """The cells of a row."""
    inner, columns = sizes
    kind = torch.bfloat16 if half else torch.float32
    x, grad = (torch.rand(rows, size).to(kind) for size in sizes)
    given = x, torch.rand(inner, columns), grad
    clock = time.perf_counter if torch.get_num_threads() > 1 else time.process_time
    cells = []
    for way, ours, others in (HALF_WAYS if half else WAYS).values():

        def step(_feed: None, way: Callable[..., None], multiply: Multiply) -> float:
            way(multiply, *given)
            return 0.0

        rivals = {
            name: partial(step, way=way, multiply=one)
            for name, one in ((OURS, ours), (OTHERS, others))
        }
        times = alternate(rivals, [None], blocks=blocks, steps=3, warmup=3, clock=clock)
        found = ratio(times[OURS], times[OTHERS])
        took = times[OURS].median * 1e3
        cells.append(f"{found.value:.2f} ({found.low:.2f} to {found.high:.2f}); {took:.1f} ms")
    return cells


def main() -> None:
    """Compares all numbers of rows."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--blocks", type=int, default=7)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--sizes", nargs="*", default=["25088x4096", "4096x4096"])
    parser.add_argument("--half", action="store_true")
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    for text in asked.sizes:
        inner, columns = map(int, text.split("x"))
        table = Table("rows", *WAYS, title=f"{inner} x {columns}, {asked.threads} threads")
        for rows in HALF_ROWS if asked.half else ROWS:
            table.add_row(str(rows), *compared(rows, (inner, columns), asked.blocks, asked.half))
        Console(width=140).print(table)


if __name__ == "__main__":
    with torch.no_grad():
        main()
