"""`paddle.distributed.fleet.dataset`: datasets of text files with Paddle 2's settings.

dataset = paddle.distributed.InMemoryDataset()
dataset.init(batch_size=32, thread_num=2, use_var=[ids, label], pipe_command="cat")
dataset.set_filelist(["part-0", "part-1"])
dataset.load_into_memory()
exe.train_from_dataset(program, dataset)
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from refluid.fluid import dataset as former
from refluid.fluid.datasets.base import DatasetBase

__all__ = [
    "BoxPSDataset",
    "DatasetBase",
    "FileInstantDataset",
    "InMemoryDataset",
    "QueueDataset",
]
_LOGGER = logging.getLogger("refluid")
Settings = dict[str, Callable[[Any, Any], None]]
BoxPSDataset, FileInstantDataset = former.BoxPSDataset, former.FileInstantDataset

# How a setting is made, by its name.
_COMMON: Settings = {
    "batch_size": lambda one, value: one.set_batch_size(value),
    "thread_num": lambda one, value: one.set_thread(value),
    "use_var": lambda one, value: one.set_use_var(value),
    "pipe_command": lambda one, value: one.set_pipe_command(value),
    "download_cmd": lambda one, value: one.set_download_cmd(value),
}
_IN_MEMORY: Settings = {
    **_COMMON,
    "data_feed_type": lambda one, value: one.set_feed_type(value),
    "queue_num": lambda one, value: value == -1 or one.set_queue_num(value),
}
_OF_SEVERAL: Settings = {
    "merge_size": lambda one, value: value <= 0 or one.set_merge_by_lineid(value),
    "parse_ins_id": lambda one, value: one.set_parse_ins_id(value),
    "parse_content": lambda one, value: one.set_parse_content(value),
    "fleet_send_batch_size": lambda one, value: one.set_fleet_send_batch_size(value),
    "fleet_send_sleep_seconds": lambda one, value: one.set_fleet_send_sleep_seconds(value),
}
_FILES, _EVALUATION = {"fs_name", "fs_ugi"}, {"fea_eval", "candidate_size"}


def _set(dataset: Any, known: Settings, given: dict[str, Any]) -> None:
    """Makes the settings that are given; the log tells of those that change nothing."""
    for name, value in given.items():
        if name in known:
            known[name](dataset, value)
    if given.get("fs_name") or given.get("fs_ugi"):
        dataset.set_hdfs_config(given.get("fs_name", ""), given.get("fs_ugi", ""))
    if given.get("fea_eval"):
        dataset.set_fea_eval(given.get("candidate_size", 10000), True)
    if other := given.keys() - known.keys() - _FILES - _EVALUATION - {"input_type"}:
        names, kind = ", ".join(sorted(other)), type(dataset).__name__
        _LOGGER.warning("%s has no setting %s, which changes nothing", kind, names)


class QueueDataset(former.QueueDataset):
    """Reads the files anew in each pass, as fast as they are needed: memory stays bounded."""

    def init(self, **kwargs: Any) -> None:
        """Settings: batch_size, thread_num, use_var, pipe_command, download_cmd, fs_name, fs_ugi.

        input_type says nothing here: a line is a sample.
        """
        _set(self, _COMMON, kwargs)


class InMemoryDataset(former.InMemoryDataset):
    """Reads all files into memory, where rows are shuffled, among several trainers too."""

    def init(self, **kwargs: Any) -> None:
        """Settings as of a QueueDataset, data_feed_type and queue_num."""
        _set(self, _IN_MEMORY, kwargs)

    def _init_distributed_settings(self, **kwargs: Any) -> None:
        """Settings: merge_size, parse_ins_id, parse_content, fleet_send_batch_size,
        fleet_send_sleep_seconds, fea_eval with candidate_size."""
        _set(self, _OF_SEVERAL, kwargs)

    def update_settings(self, **kwargs: Any) -> None:
        """Settings of both, made anew."""
        _set(self, {**_IN_MEMORY, **_OF_SEVERAL}, kwargs)

    def load_into_memory(self, is_shuffle: bool = False) -> None:
        """Reads all files; is_shuffle: and shuffles the rows of this trainer.

        Raises BadLine, UnreadableFile or PipeFailed; nothing is kept then.
        """
        super().load_into_memory()
        if is_shuffle:
            self.local_shuffle()
