"""`GeoSgdTranspiler` is `DistributeTranspiler` with GEO."""

from __future__ import annotations

import pytest

import refluid.fluid as fluid
from refluid.core.errors import EnforceNotMet
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


@pytest.mark.parametrize(("rows", "fits"), [(1000, True), (2**40, False)])
def test_a_table_that_no_trainer_has_memory_for_is_refused(rows: int, fits: bool) -> None:
    """When the programs are made, not when memory is asked for."""
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        ids = fluid.data("ids", [None, 1], "int64")
        table = fluid.ParamAttr(name="large")
        found = fluid.embedding(ids, [rows, 8], is_sparse=True, param_attr=table)
        fluid.optimizer.SGD(0.1).minimize(fluid.layers.reduce_sum(found))
    made = GeoSgdTranspiler(fluid.DistributeTranspilerConfig())

    def transpile() -> None:
        made.transpile(0, main, "127.0.0.1:6174", 2, startup_program=startup)
        made.get_trainer_program()

    if fits:
        transpile()
    else:
        with pytest.raises(EnforceNotMet, match=r"'large' whole .* 32,768 GiB.* asynchronous"):
            transpile()
