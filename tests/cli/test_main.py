"""`python -m refluid` is the `refluid` command."""

from __future__ import annotations

import subprocess
import sys

from refluid import __version__


def test_the_package_is_the_command() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "refluid", "--version"], capture_output=True, text=True, check=True
    )
    assert ran.stdout == f"refluid {__version__}\n"
