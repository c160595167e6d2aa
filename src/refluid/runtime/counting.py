"""`while` loops that count, as Python loops over numbers.

n0 = rounds(v6, v3, v4, 1, 1)
for k0 in n0:
    ...
    v9 = write_item(v9, k0 + 1, v8, ())
v3 = after_rounds(v3, n0)
v6 = zeros_like(v6)
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import Tensor, zeros_like

from refluid.analysis.counting import CountedLoop
from refluid.analysis.uses import Key, key_of
from refluid.ir.operator import Operator
from refluid.runtime.steps import Bind, Call, For
from refluid.runtime.trees import Formula, Name, called
from refluid.runtime.writing import Writing


@contextmanager
def counted_rounds(writer: Writing, op: Operator, how: CountedLoop) -> Iterator[None]:
    """The loop around what is written inside; after it, the place and the condition."""
    source, condition = writer.source, key_of(op.block, op.input("Condition")[0])
    inner = op.attr("sub_block").idx
    numbers, number = Name(f"n{inner}"), Name(f"k{inner}")
    place = _local(writer, how.place)
    given = (_local(writer, condition), place, _local(writer, how.limit), how.step, how.ahead)
    source.add(Call(numbers, source.constant("rounds", rounds), given, op=op))
    writer.idle.update(how.idle)
    for one, more in how.more.items():
        writer.places[one] = Formula("{} + {}", (number, more)) if more else number
    with source.block(For(numbers, target=number, op=op)):
        yield
    if not how.inside:
        after = source.constant("after_rounds", after_rounds)
        source.add(Call(place, after, (place, numbers), op=op))
    zeros = source.constant("zeros_like", zeros_like)
    source.add(Bind(_local(writer, condition), called(zeros, _local(writer, condition)), op=op))


def _local(writer: Writing, key: Key) -> Name:
    return writer.variables.named(key)


def rounds(condition: Tensor, place: Tensor, limit: Tensor, step: int, ahead: int) -> range:
    """The place at the beginning of each round.

    The first is run where the condition holds, another one as long as `place + ahead` was less
    than the limit.
    """
    if not condition.item():
        return range(0, 0, step)
    first = int(place.item())
    more = len(range(first + ahead, int(limit.item()), step))
    return range(first, first + (1 + more) * step, step)


def after_rounds(place: Tensor, numbers: range) -> Tensor:
    """The place after the last round."""
    return place + len(numbers) * numbers.step
