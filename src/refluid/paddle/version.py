"""`paddle.version`: the Paddle whose interface this is, and what stands in for it."""

from __future__ import annotations

from refluid import __version__

full_version = "1.8.5"
major, minor, patch = full_version.split(".")
rc = "0"
istaged = True
commit = f"refluid {__version__}"
with_mkl = "ON"


def mkl() -> str:
    """Whether oneDNN is there, as "ON" or "OFF"."""
    return with_mkl


def show() -> None:
    """Prints the version, part by part where it is a release."""
    print("full_version:", full_version)
    for name in ("major", "minor", "patch", "rc"):
        print(f"{name}:", globals()[name])
