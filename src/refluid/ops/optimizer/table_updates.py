"""Adam on the rows of several tables at once, also prepared for tables that stay."""

from __future__ import annotations

from collections.abc import Iterable

from torch import Tensor

from refluid.core import flags
from refluid.core.selected_rows import SelectedRows
from refluid.kernels.rows.tables import AdamTables
from refluid.ops.drafts import RowsStep
from refluid.ops.optimizer.steady import Kept

KEPT = ("Param", "Moment1", "Moment2", "Beta1Pow", "Beta2Pow")


def tables_of(kept: Iterable[list[Tensor]]) -> AdamTables | None:
    """The tables with what is kept for them, slot by slot; None where one call can't take them."""
    if not flags.value("refluid_rows_together"):
        return None
    tables = AdamTables(*kept)
    return tables if tables.taken else None


def step_tables(
    tables: AdamTables,
    gradients: list[SelectedRows],
    rates: list[Tensor],
    betas: tuple[float, float],
    epsilon: float,
) -> bool:
    """Lazy Adam by these gradients; False, and nothing done, where one call can't take them."""
    rows, values = [one.index for one in gradients], [one.value for one in gradients]
    return tables.step(rows, values, rates, betas, epsilon)


def steady_tables(kept: Kept, betas: tuple[float, float], epsilon: float) -> RowsStep | None:
    """What makes lazy steps of these tables with other gradients and rates."""
    if kept.get("Beta1Tensor") or kept.get("Beta2Tensor"):
        return None
    tables = tables_of(kept[slot] for slot in KEPT)
    if tables is None:
        return None
    return lambda grads, rates: step_tables(tables, grads, rates, betas, epsilon)
