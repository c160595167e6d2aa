"""`DatasetFactory` and the datasets it makes, for `Executor.train_from_dataset`."""

from __future__ import annotations

from typing import Any

from refluid.fluid.datasets.base import DatasetBase
from refluid.fluid.datasets.in_memory import InMemoryDataset

__all__ = ["DatasetFactory", "InMemoryDataset", "QueueDataset"]


class QueueDataset(DatasetBase):
    """Reads the files anew in each pass, as fast as they are needed: memory stays bounded."""

    def local_shuffle(self) -> None:
        """Not for a stream: raises NotImplementedError."""
        raise NotImplementedError(
            "QueueDataset does not support local shuffle, please use InMemoryDataset for "
            "local_shuffle"
        )

    def global_shuffle(self, fleet: Any = None) -> None:
        """Not for a stream: raises NotImplementedError."""
        raise NotImplementedError(
            "QueueDataset does not support global shuffle, please use InMemoryDataset for "
            "global_shuffle"
        )


class FileInstantDataset(DatasetBase):
    """Fluid's dataset for Baidu's PaddleRec workers, left out: raises NotImplementedError."""

    def __init__(self) -> None:
        raise NotImplementedError(
            "refluid has no FileInstantDataset, which only ran in Baidu's clusters; a "
            "QueueDataset reads the same files"
        )


class BoxPSDataset(InMemoryDataset):
    """Fluid's dataset for BoxPS servers, left out: raises NotImplementedError."""

    def __init__(self) -> None:
        raise NotImplementedError(
            "refluid has no BoxPSDataset, which needs Baidu's BoxPS servers; an InMemoryDataset "
            "reads the same files"
        )


_CLASSES: dict[str, type[DatasetBase]] = {
    "QueueDataset": QueueDataset,
    "InMemoryDataset": InMemoryDataset,
    "FileInstantDataset": FileInstantDataset,
    "BoxPSDataset": BoxPSDataset,
}


class DatasetFactory:
    """Makes datasets by the name of their class."""

    def __init__(self) -> None:
        pass

    def create_dataset(self, datafeed_class: str = "QueueDataset") -> Any:
        """A dataset: "QueueDataset" or "InMemoryDataset".

        Raises ValueError for another name, NotImplementedError for those that need Baidu's
        clusters.
        """
        if datafeed_class not in _CLASSES:
            raise ValueError(
                f"datafeed class {datafeed_class} does not exist; there are {', '.join(_CLASSES)}"
            )
        return _CLASSES[datafeed_class]()
