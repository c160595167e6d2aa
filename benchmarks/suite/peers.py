"""Environments of the peers that don't run in refluid's own.

    python -m benchmarks.suite.peers              # all that are missing
    python -m benchmarks.suite.peers paddle3 jax  # these

They lie in `.peers/`, about 1 GB each for paddle. pip's own settings say where packages come from.
"""

from __future__ import annotations

import argparse
import subprocess
import sys

from benchmarks.suite.rivals import PEERS, RIVALS, Rival

INSTALLABLE = [rival.name for rival in RIVALS.values() if rival.packages]


def install(rival: Rival) -> None:
    """A new environment with the rival's packages; CalledProcessError where pip fails."""
    folder = PEERS / rival.name
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    pip = [str(rival.python), "-m", "pip", "install", "-qq", *rival.packages]
    subprocess.run(pip, check=True)
    (folder / ".ready").touch()


def how_to_install(rival: Rival) -> str:
    return f"{rival.title} is not installed: python -m benchmarks.suite.peers {rival.name}"


def main() -> None:
    parser = argparse.ArgumentParser(description="Make the peers' environments.")
    parser.add_argument("peers", nargs="*", metavar="PEER", help=", ".join(INSTALLABLE))
    chosen = parser.parse_args().peers or INSTALLABLE
    for name in chosen:
        if name not in INSTALLABLE:
            parser.error(f"{name} is none of {', '.join(INSTALLABLE)}")
        if RIVALS[name].installed:
            print(f"{name} is there")
            continue
        print(f"installing {', '.join(RIVALS[name].packages)}", flush=True)
        install(RIVALS[name])


if __name__ == "__main__":
    main()
