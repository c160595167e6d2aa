"""`GeoSgdTranspiler` is `DistributeTranspiler` with GEO."""

from __future__ import annotations

import pytest

import refluid.fluid as fluid
from refluid.fluid.transpiler.geo_sgd_transpiler import GeoSgdTranspiler
from refluid.pserver.layout import TrainingMode
from tests.pserver.tables import network


def test_trainers_train_by_geo() -> None:
    config = fluid.DistributeTranspilerConfig()
    config.geo_sgd_need_push_nums = 7
    main, startup, _ = network()
    made = GeoSgdTranspiler(config)
    made.transpile(0, main, "127.0.0.1:6174", 2, startup_program=startup)
    assert made._split.layout.mode == TrainingMode.GEO
    assert made._connection.frequency == 7
    assert "sgd" in [op.type for op in made.get_trainer_program().global_block().ops]
    with pytest.raises(ValueError, match="GEO has no synchronous mode"):
        GeoSgdTranspiler().transpile(0, sync_mode=True)
