"""`DataFeedDesc`: what the slots of a data file are, read from a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from refluid.core.errors import EnforceNotMet
from refluid.feed.text_datasets.desc import parse_desc, print_desc

__all__ = ["DataFeedDesc"]


class DataFeedDesc:
    """The slots of the lines that `AsyncExecutor` reads.

    proto_file: a file with a DataFeedDesc message as protobuf text. Raises EnforceNotMet where it
    can't be read or isn't one.
    """

    def __init__(self, proto_file: str) -> None:
        try:
            text = Path(proto_file).read_text()
        except OSError as error:
            raise EnforceNotMet(f"{proto_file}: cannot be read: {error.strerror}") from error
        self.proto_desc: Any = parse_desc(text, proto_file)
        self.proto_desc.pipe_command = self.proto_desc.pipe_command or "cat"

    def set_batch_size(self, batch_size: int) -> None:
        """The rows of a batch."""
        self.proto_desc.batch_size = batch_size

    def set_dense_slots(self, dense_slots_name: Sequence[str]) -> None:
        """These slots hold as many values in each line, and become tensors without LoD.

        Raises ValueError for a slot that there isn't.
        """
        for name in self._known(dense_slots_name, "set_dense_slots"):
            self._slots[name].is_dense = True

    def set_use_slots(self, use_slots_name: Sequence[str]) -> None:
        """These slots are used, others are skipped. Raises ValueError for one that there isn't."""
        for name in self._known(use_slots_name, "set_use_slots"):
            self._slots[name].is_used = True

    def desc(self) -> str:
        """The message as protobuf text."""
        return print_desc(self.proto_desc)

    @property
    def _slots(self) -> dict[str, Any]:
        return {slot.name: slot for slot in self.proto_desc.multi_slot_desc.slots}

    def _known(self, names: Sequence[str], method: str) -> list[str]:
        if self.proto_desc.name and self.proto_desc.name != "MultiSlotDataFeed":
            raise ValueError(
                f"Only MultiSlotDataFeed needs {method}, please check your datafeed.proto: its "
                f"name is {self.proto_desc.name!r}"
            )
        wanted = [names] if isinstance(names, str) else list(names)
        for name in wanted:
            if name not in self._slots:
                raise ValueError(
                    f"{method}: there is no slot {name!r}, only {', '.join(self._slots)}"
                )
        return wanted
