"""Updates of some rows of a table by an optimizer's operators, all rows at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from refluid.core.errors import EnforceNotMet
from refluid.core.selected_rows import SelectedRows
from refluid.ir.operator import Operator
from refluid.ops.registry import OperatorDef, find

Find = Callable[[str], Any]
# Of a sparse gradient they touch its rows alone, so they work on the table as it is.
_IN_PLACE = ("sgd",)


class RowUpdate:
    """Operators that update the parameter `param` by the gradient `gradient`.

    rows: variables that have a row for each of the parameter's. Others, as learning rates, are
    asked for when the update runs. EnforceNotMet for operators that can't run on a server.
    """

    def __init__(
        self, ops: Sequence[Operator], param: str, gradient: str, rows: Sequence[str]
    ) -> None:
        self.param, self.gradient, self.rows = param, gradient, tuple(rows)
        self._calls = [_Call(op) for op in ops]
        self.in_place = len(ops) == 1 and ops[0].type in _IN_PLACE
        written = {name: op for op in ops for name in op.output_arg_names}
        # What is kept for the table as a whole, as powers of Adamax's beta.
        self._whole = [
            name
            for name, op in written.items()
            if name not in rows and op.block.var_recursive(name).persistable
        ]

    def run(self, tables: Mapping[str, Tensor], slots: Tensor, value: Tensor, others: Find) -> None:
        """Updates the rows `slots`, int64 [n], by `value`, [n, width].

        tables: each of `rows`, [height, ...], changed in place. Where `in_place`, slots may be
        there more than once.
        """
        height = tables[self.param].shape[0]
        if self.in_place:
            found = {**tables, self.gradient: SelectedRows(slots, height, value)}
            self._run(found, others)
            return
        count = len(slots)
        chosen = {name: tables[name].index_select(0, slots) for name in self.rows}
        given = SelectedRows(torch.arange(count), count, value)
        values = self._run({**chosen, self.gradient: given}, others)
        for name, rows in chosen.items():
            tables[name].index_copy_(0, slots, rows)
        for name in self._whole:
            if name in values:
                others(name).copy_(values[name])

    def _run(self, values: dict[str, Any], others: Find) -> dict[str, Any]:
        for call in self._calls:
            call.run(values, others)
        return values


class _Call:
    """One operator, called on values by name."""

    def __init__(self, op: Operator) -> None:
        found = find(op.type)
        if found is None or found.body is None or found.context or found.levels:
            raise EnforceNotMet(
                f"a table can't be updated by operator {op.type} {op.made_at}: servers run "
                "operators that need nothing but their inputs"
            )
        self.definition: OperatorDef = found
        self.op = op
        self.settings = {
            found.keywords.get(name, name): op.attrs.get(name, attribute.default)
            for name, attribute in found.attributes.items()
            if name in found.keywords
        }

    def run(self, values: dict[str, Any], others: Find) -> None:
        given = []
        for slot in self.definition.inputs:
            names = self.op.input(slot.name)
            found = [values[one] if one in values else others(one) for one in names]
            given.append(found if slot.many else (found[0] if found else None))
        body: Any = self.definition.body
        results = body(*given, **self.settings)
        slots = self.definition.outputs
        parts = results if len(slots) > 1 and isinstance(results, tuple) else (results,)
        for slot, part in zip(slots, parts, strict=False):
            named = self.op.output(slot.name)
            for name, one in zip(named, part if slot.many else (part,), strict=False):
                if slot.name not in self.definition.mutates:
                    values[name] = one
