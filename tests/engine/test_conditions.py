"""Who owns shares of what is trained, as strategies ask for it."""

from __future__ import annotations

import logging

import pytest

from refluid import fluid
from refluid.core import notices
from refluid.core.errors import EnforceNotMet
from refluid.engine.conditions import stage_of
from refluid.engine.strategy import Strategy

REDUCE = fluid.BuildStrategy.ReduceStrategy.Reduce


def test_shares_are_among_trainers_of_one_place(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notices, "_told", set())
    reduces, shards = Strategy(reduce_strategy=REDUCE), Strategy(sharding_stage=3)
    assert [stage_of(reduces, trainers, 1) for trainers in (1, 2)] == [0, 2]
    assert [stage_of(shards, trainers, 1) for trainers in (1, 2)] == [0, 3]
    assert stage_of(Strategy(), 2, 2) == stage_of(shards, 1, 2) == 0
    with caplog.at_level(logging.WARNING, "refluid"):
        assert not caplog.messages
        assert stage_of(reduces, 2, 2) == 0
    assert "trainers of several places each sum all gradients at all" in caplog.text
    with pytest.raises(EnforceNotMet, match="one place each"):
        stage_of(shards, 2, 2)
