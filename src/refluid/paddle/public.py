"""The public names of `paddle`, which its package takes from here."""

from refluid import fluid
from refluid.paddle import compat, dataset, reader, static, sysconfig, utils, version
from refluid.paddle.batch import batch
from refluid.paddle.check_import_scipy import check_import_scipy

__all__ = [
    "batch",
    "check_import_scipy",
    "compat",
    "dataset",
    "fluid",
    "reader",
    "static",
    "sysconfig",
    "utils",
    "version",
]
