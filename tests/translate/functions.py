"""Random functions of Python's whose control flow hangs on tensors, as source."""

from __future__ import annotations

import itertools
import linecache
import random
from collections.abc import Callable
from typing import Any

import refluid.fluid as fluid

_numbers = itertools.count()
_TENSORS = ("a", "b", "c")


class Writer:
    """Writes one function `f(x, w)`; its variables are tensors of shape (3, 4), and numbers."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.counters = 0

    def text(self) -> str:
        """The source."""
        self.add(0, "def f(x, w):")
        self.add(1, "a, b, c, n = x, x * w, layers.tanh(w), 0")
        self.add(1, "found = []")
        self.block(1, 2, loop=False)
        self.add(1, "for one in found:")
        self.add(2, "a = a + one")
        self.add(1, "return a * 0.5 + b * c + n")
        return "\n".join(self.lines) + "\n"

    def add(self, depth: int, line: str) -> None:
        """One line."""
        self.lines.append("    " * depth + line)

    def block(self, depth: int, budget: int, *, loop: bool) -> None:
        """Some statements."""
        for _ in range(self.random.randint(1, 3)):
            self.statement(depth, budget, loop=loop)

    def statement(self, depth: int, budget: int, *, loop: bool) -> None:
        """One statement. budget: how deep others may be nested in it."""
        kinds = [self.assign, self.assign, self.count, self.collect]
        if budget:
            kinds += [self.branch, self.branch, self.loop_while, self.loop_range, self.loop_rows]
        if loop and self.random.random() < 0.2:
            self.jump(depth, self.random.choice(["break", "continue", "return b - a + n"]))
        elif depth > 1 and self.random.random() < 0.08:
            self.jump(depth, "return c * 2.0 + a")
        else:
            self.random.choice(kinds)(depth, budget - 1, loop)

    def tensor(self) -> str:
        """A tensor's expression, of values that stay small."""
        one, other = self.random.choices(_TENSORS, k=2)
        number = round(self.random.uniform(-1, 1), 3)
        return self.random.choice(
            [
                f"layers.tanh({one} + {other} * {number})",
                f"{one} * {number} - {other}",
                f"layers.sigmoid({one}) + n * 0.1",
                f"({one} if {self.test()} else {other})",
                f"{one} + layers.tanh(layers.matmul({one}, {other}, transpose_y=True))[:, 0:1]",
            ]
        )

    def test(self) -> str:
        """A condition."""
        one, number = self.random.choice(_TENSORS), round(self.random.uniform(-0.6, 0.6), 3)
        plain = f"layers.reduce_mean({one}) {self.random.choice('<>')} {number}"
        return self.random.choice(
            [
                plain,
                plain,
                f"n < {self.random.randint(0, 4)}",
                f"not ({plain})",
                f"{plain} and n < {self.random.randint(1, 5)}",
                f"n > {self.random.randint(0, 3)} or {plain}",
                f"{number} < layers.reduce_mean({one}) < {number + 0.4:.3f}",
            ]
        )

    # -- statements -----------------------------------------------------------

    def assign(self, depth: int, _budget: int, _loop: bool) -> None:
        self.add(depth, f"{self.random.choice(_TENSORS)} = {self.tensor()}")

    def count(self, depth: int, _budget: int, _loop: bool) -> None:
        self.add(depth, f"n = n + {self.random.randint(1, 2)}")

    def collect(self, depth: int, _budget: int, _loop: bool) -> None:
        self.add(depth, f"found.append({self.tensor()})")

    def jump(self, depth: int, jump: str) -> None:
        self.add(depth, f"if {self.test()}:")
        self.add(depth + 1, jump)

    def branch(self, depth: int, budget: int, loop: bool) -> None:
        self.add(depth, f"if {self.test()}:")
        self.block(depth + 1, budget, loop=loop)
        if self.random.random() < 0.4:
            self.add(depth, f"elif {self.test()}:")
            self.block(depth + 1, budget, loop=loop)
        if self.random.random() < 0.6:
            self.add(depth, "else:")
            self.block(depth + 1, budget, loop=loop)

    def loop_while(self, depth: int, budget: int, _loop: bool) -> None:
        self.counters += 1
        counter = f"i{self.counters}"
        self.add(depth, f"{counter} = 0")
        self.add(depth, f"while ({self.test()}) and {counter} < {self.random.randint(1, 3)}:")
        self.add(depth + 1, f"{counter} = {counter} + 1")
        self.block(depth + 1, budget, loop=True)
        self.otherwise(depth, budget)

    def loop_range(self, depth: int, budget: int, _loop: bool) -> None:
        self.counters += 1
        self.add(depth, f"for k{self.counters} in range({self.random.randint(1, 3)}):")
        self.block(depth + 1, budget, loop=True)
        self.otherwise(depth, budget)

    def loop_rows(self, depth: int, budget: int, _loop: bool) -> None:
        self.counters += 1
        self.add(depth, f"for row{self.counters} in {self.random.choice(_TENSORS)}:")
        self.add(depth + 1, f"b = b * 0.9 + row{self.counters} * 0.1")
        self.block(depth + 1, budget, loop=True)

    def otherwise(self, depth: int, budget: int) -> None:
        if self.random.random() < 0.25:
            self.add(depth, "else:")
            self.block(depth + 1, budget, loop=False)


def defined(text: str) -> Callable[..., Any]:
    """The function `f` of a source, which Python's tools find."""
    file = f"<function {next(_numbers)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    namespace: dict[str, Any] = {"layers": fluid.layers, "fluid": fluid}
    exec(compile(text, file, "exec"), namespace)
    found: Callable[..., Any] = namespace["f"]
    return found
