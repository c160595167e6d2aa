"""`Strategy`: what is done to a model while it is compressed, and when."""

from __future__ import annotations

from typing import Any

__all__ = ["Strategy"]


class Strategy:
    """Called by `Compressor` with its `Context` at the beginning and end of everything.

    start_epoch, end_epoch: between which epochs the strategy works.
    """

    def __init__(self, start_epoch: int = 0, end_epoch: int = 0) -> None:
        self.start_epoch, self.end_epoch = start_epoch, end_epoch

    def on_compression_begin(self, context: Any) -> None:
        """Before the first epoch."""

    def on_epoch_begin(self, context: Any) -> None:
        """Before an epoch's first batch."""

    def on_batch_begin(self, context: Any) -> None:
        """Before a batch."""

    def on_batch_end(self, context: Any) -> None:
        """After a batch."""

    def on_epoch_end(self, context: Any) -> None:
        """After an epoch's last batch, before it is evaluated."""

    def on_compression_end(self, context: Any) -> None:
        """After the last epoch."""

    def restore_from_checkpoint(self, context: Any) -> None:
        """After a checkpoint was loaded, before the first epoch that follows."""
