"""`paddle.sysconfig`: where Paddle's C++ headers are; here there are none."""

from __future__ import annotations

__all__ = ["get_include", "get_lib"]


def _none() -> str:
    raise NotImplementedError(
        "refluid has no C++ library to build operators against: an operator is a Python function "
        "here, see docs/custom_operators.md"
    )


def get_include() -> str:
    """In Fluid the folder of C++ headers; an error here."""
    return _none()


def get_lib() -> str:
    """In Fluid the folder of the C++ library; an error here."""
    return _none()
