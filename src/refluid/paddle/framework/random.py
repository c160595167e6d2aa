"""`paddle.framework.random`: seeds, those of the default programs too."""

from __future__ import annotations

from refluid.ir.defaults import default_main_program, default_startup_program
from refluid.paddle.framework.seeds import (
    get_cuda_rng_state,
    get_rng_state,
    seed,
    set_cuda_rng_state,
    set_rng_state,
)

__all__ = ["get_cuda_rng_state", "get_rng_state", "seed", "set_cuda_rng_state", "set_rng_state"]


def _manual_program_seed(seed: int) -> None:
    """Sets the seed of the default programs, of Paddle's own test scripts."""
    default_main_program().random_seed = default_startup_program().random_seed = seed
