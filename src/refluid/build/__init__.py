"""The one way to append an operator to a program, or to run it at once."""

from refluid.build import arithmetic
from refluid.build.backend import Backend, Blocks, at_once, backend, using
from refluid.build.operators import apply, check_variables, op, run_at_once
from refluid.build.results import UNNAMED, How
from refluid.ir import overloads

__all__ = [
    "UNNAMED",
    "Backend",
    "Blocks",
    "How",
    "apply",
    "at_once",
    "backend",
    "check_variables",
    "op",
    "run_at_once",
    "using",
]

overloads.provide(arithmetic)
