"""`LRScheduler`: a rate that `step()` moves on; calling it gives the rate of now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class LRScheduler:
    """Base of schedules; one overrides `get_lr`, which may use `base_lr` and `last_epoch`.

    learning_rate: the first. last_epoch: how many steps were before; -1 to begin. verbose: each
    step prints the rate. TypeError for a rate that is no number.
    """

    def __init__(
        self, learning_rate: float = 0.1, last_epoch: int = -1, verbose: bool = False
    ) -> None:
        if not isinstance(learning_rate, float | int):
            raise TypeError(
                f"The type of learning rate must be float, but received {type(learning_rate)}"
            )
        if learning_rate < 0:
            raise ValueError(f"Invalid learning rate: {learning_rate}")
        self.base_lr = float(learning_rate)
        self.last_lr = float(learning_rate)
        self.last_epoch = last_epoch
        self.verbose = verbose
        self.keys: list[str] = []
        self.step()

    def __call__(self) -> float:
        """The rate of now."""
        return self.last_lr

    def step(self, epoch: int | None = None) -> None:
        """Moves on by one, or to `epoch`."""
        if epoch is None:
            self.last_epoch += 1
            self.last_lr = self.get_lr()
        else:
            self.last_epoch = epoch
            closed = getattr(self, "_get_closed_form_lr", None)
            self.last_lr = self.get_lr() if closed is None else closed()
        if self.verbose:
            print(
                f"Epoch {self.last_epoch}: {type(self).__name__} set learning rate to "
                f"{self.last_lr}."
            )

    def get_lr(self) -> float:
        """The rate of `last_epoch`."""
        raise NotImplementedError(f"{type(self).__name__} must define get_lr")

    def state_keys(self) -> None:
        """Sets `keys`: the names of what `state_dict` keeps."""
        self.keys = ["last_epoch", "last_lr"]

    def state_dict(self) -> dict[str, Any]:
        """What `set_state_dict` needs to go on."""
        self.state_keys()
        return {key: self.__dict__[key] for key in self.keys if key in self.__dict__}

    def set_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Goes on where `state_dict` was taken; RuntimeError for a missing entry."""
        self.state_keys()
        for key in self.keys:
            if key not in state_dict:
                raise RuntimeError(
                    "Please check whether state_dict is correct for optimizer. Can't find "
                    f"[ {key} ] in state_dict"
                )
            self.__dict__[key] = state_dict[key]

    set_dict = set_state_dict
