"""The public names of `paddle`, which its package takes from here."""

from __future__ import annotations

from typing import Any

from refluid import fluid
from refluid.core.stub_making import stub
from refluid.paddle import compat, dataset, reader, static, sysconfig, utils, version
from refluid.paddle.batch import batch
from refluid.paddle.check_import_scipy import check_import_scipy
from refluid.paddle.roots import ROOTS

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
    *ROOTS,
]


def __getattr__(name: str) -> Any:
    return ROOTS[name].load() if name in ROOTS else stub("refluid.paddle", name)
