"""`paddle.check_import_scipy`: on Windows, whether scipy can be imported."""

from __future__ import annotations


def check_import_scipy(OsName: str) -> None:
    """Says on Windows ("nt") what to do where scipy can't be imported."""
    if OsName == "nt":
        try:
            import scipy.io  # noqa: F401
        except ImportError as error:
            print(f"scipy can't be imported ({error}): install it, and Microsoft's C++ runtime")
