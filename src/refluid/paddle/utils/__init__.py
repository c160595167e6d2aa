"""`paddle.utils`: a curve drawn while one trains; pictures of the years before Fluid; checks."""

from refluid.paddle.naming import name_table
from refluid.paddle.utils import plot, unique_name
from refluid.paddle.utils.plot import Ploter

__all__ = ["Ploter", "plot", "unique_name"]

name_table(
    __name__,
    "refluid.paddle.utils.checks: deprecated require_version run_check try_import",
)
