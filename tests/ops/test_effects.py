"""What operators do besides giving outputs follows from their signatures and flags."""

import pytest

from refluid.ops.effects import Effect
from refluid.ops.registry import find, operators


@pytest.mark.parametrize(
    ("op_type", "effects"),
    [
        ("relu", Effect.NONE),
        ("sgd", Effect.STATE),
        ("average_accumulates", Effect.STATE),
        ("write_to_array", Effect.STATE),
        ("dropout", Effect.RANDOM),
        ("c_allreduce_sum", Effect.COMM),
        ("replica_barrier", Effect.COMM),
        ("replica_broadcast", Effect.STATE | Effect.COMM),
        ("sync_batch_norm", Effect.STATE | Effect.COMM),
        ("print", Effect.HOST),
        ("read", Effect.HOST),
        ("load", Effect.HOST),
    ],
)
def test_effects(op_type: str, effects: Effect) -> None:
    definition = find(op_type)
    assert definition is not None
    assert definition.effects == effects


def test_updates_change_state_alone() -> None:
    updates = [one for one in operators() if "Param" in {slot.name for slot in one.inputs}]
    assert len(updates) > 10
    for one in updates:
        assert one.effects & ~Effect.RANDOM == Effect.STATE


def test_what_takes_random_numbers_or_exchanges_says_so() -> None:
    for one in operators():
        assert bool(one.effects & Effect.RANDOM) == ("random" in one.context)
        asks_servers = one.type == "distributed_lookup_table"
        assert bool(one.effects & Effect.COMM) == ("comm" in one.context or asks_servers)
