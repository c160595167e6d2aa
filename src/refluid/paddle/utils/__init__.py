"""`paddle.utils`: a curve drawn while one trains; pictures of the years before Fluid."""

from refluid.paddle.utils import plot, unique_name
from refluid.paddle.utils.plot import Ploter

__all__ = ["Ploter", "plot", "unique_name"]
