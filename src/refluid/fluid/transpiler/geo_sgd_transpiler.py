"""`GeoSgdTranspiler`: `DistributeTranspiler` for trainers that update by themselves (GEO)."""

from __future__ import annotations

from refluid.fluid.transpiler.distribute_transpiler import (
    DistributeTranspiler,
    DistributeTranspilerConfig,
)
from refluid.ir.program import Program

__all__ = ["GeoSgdTranspiler"]


class GeoSgdTranspiler(DistributeTranspiler):
    """Every `config.geo_sgd_need_push_nums` steps trainers exchange what they changed."""

    def __init__(self, config: DistributeTranspilerConfig | None = None) -> None:
        super().__init__(config)
        self.config.geo_sgd_mode = True

    def transpile(
        self,
        trainer_id: int,
        program: Program | None = None,
        pservers: str = "127.0.0.1:6174",
        trainers: str | int = 1,
        sync_mode: bool = False,
        startup_program: Program | None = None,
        current_endpoint: str = "127.0.0.1:6174",
    ) -> None:
        """As of `DistributeTranspiler`. ValueError with sync_mode: no trainer waits for others."""
        if sync_mode:
            raise ValueError("GEO has no synchronous mode: sync_mode=False")
        given = trainer_id, program, pservers, trainers, False, startup_program, current_endpoint
        super().transpile(*given)
