"""What a script of the zoo is run with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from zoo.data.lines import Random, none

ALL = ("1.5", "1.6", "1.7", "1.8")


@dataclass(frozen=True)
class Recipe:
    """One training script.

    repository: another one than PaddlePaddle/models; `branches` are its branches, tags or commits.
    folder: where it is, by default in all branches that have it; elsewhere: by branch. infer: a
    second script and its arguments, run on what the first has saved. printed: a pattern of losses
    in the output, for scripts that train on a dataset and fetch nothing. options: of `refluid run`
    itself. judged: of which training program (in the order of their first runs) and which fetched
    number of it the loss has to fall; None: of programs that update nothing.
    steps, samples: after how many losses a dygraph script ends, and who gives it samples (0, "":
    by itself, and files of `make`), as of the observer.
    rises: what is `printed` is no loss but a reward, which has to rise.

    beside: other folders that it needs; where `folder` is ".", all that are taken.
    """

    folder: str
    train: str
    make: Callable[[Path, Random], None] = none
    branches: tuple[str, ...] = ("1.8",)
    elsewhere: dict[str, str] = field(default_factory=dict)
    infer: str = ""
    printed: str = ""
    options: str = ""
    judged: tuple[int | None, int] = (0, 0)
    beside: tuple[str, ...] = ()
    steps: int = 0
    samples: str = ""
    rises: bool = False
    repository: str = ""

    @property
    def name(self) -> str:
        """What the report calls it."""
        return f"{self.folder}/{self.train.split()[0]}"
