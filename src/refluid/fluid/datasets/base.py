"""What all datasets have: which files, which variables, and how rows are read."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from refluid.core.bounds import MOST_THREADS, whole_number
from refluid.core.flags import environment_str
from refluid.feed.text_datasets.desc import new_desc, print_desc
from refluid.feed.text_datasets.feed import DatasetFeed, Shaped, feed_from_files
from refluid.feed.text_datasets.position import DatasetPosition
from refluid.feed.text_datasets.reading import RowSource
from refluid.fluid.datasets.slots import PROTO_TYPES, Fed, slot_of, text_slots
from refluid.ir.variable import Variable

_LOGGER = logging.getLogger("refluid")
_SHIM = str(Path(__file__).parents[2] / "paddle" / "for_pipes")


class DatasetBase:
    """A description of data files and of the program variables that their slots are fed to."""

    _feed_name = "MultiSlotDataFeed"

    def __init__(self) -> None:
        self.proto_desc = new_desc()
        self.proto_desc.name = self._feed_name
        self.proto_desc.pipe_command = "cat"
        self.thread_num = 1
        self.filelist: list[str] = []
        self._is_given_files = False
        self.use_vars: list[Variable] = []
        self.skip_bad_lines = False
        self.skipped_lines = 0
        self._fed: list[Fed] = []
        self._leading: list[str] = []
        self._download_command = ""
        self._hadoop: dict[str, str] = {}
        self._fea_eval = False
        self._candidates = 0
        self._position = DatasetPosition()
        self._counting = threading.Lock()

    # -- settings -------------------------------------------------------------

    def set_pipe_command(self, pipe_command: str) -> None:
        """The shell command that each file passes through: its output is what is parsed.

        "cat" costs nothing: no process is started.
        """
        self.proto_desc.pipe_command = pipe_command

    def set_rank_offset(self, rank_offset: str) -> None:
        """The name of the variable for page views; only written into `desc()`."""
        self.proto_desc.rank_offset = rank_offset

    def set_fea_eval(self, record_candidate_size: int, fea_eval: bool = True) -> None:
        """Lets `slots_shuffle` be used. record_candidate_size: kept for Fluid's sake; refluid
        draws from all rows."""
        self._candidates = whole_number("record_candidate_size", record_candidate_size)
        self._fea_eval = bool(fea_eval)

    def slots_shuffle(self, slots: Sequence[str]) -> None:
        """Only an InMemoryDataset can: raises NotImplementedError."""
        raise NotImplementedError(
            f"{type(self).__name__} does not support slots_shuffle, please use InMemoryDataset"
        )

    def set_batch_size(self, batch_size: int) -> None:
        """Rows of a batch; the last one of a thread may have less."""
        rows = whole_number("the number of rows of a batch", batch_size, least=1)
        self.proto_desc.batch_size = rows

    def set_pv_batch_size(self, pv_batch_size: int) -> None:
        """Page views of a batch; only written into `desc()`."""
        views = whole_number("the number of page views of a batch", pv_batch_size, least=0)
        self.proto_desc.pv_batch_size = views

    def set_thread(self, thread_num: int) -> None:
        """Threads that read, and that train unless `train_from_dataset` is told otherwise.

        More than there are files are not used.
        """
        threads = whole_number("the number of threads of a dataset", thread_num, least=1)
        self.proto_desc.thread_num = self.thread_num = threads

    def set_filelist(self, filelist: Sequence[str]) -> None:
        """The files: local paths or URLs; those packed with gzip or zstd are unpacked."""
        if isinstance(filelist, str):
            raise TypeError("set_filelist takes a list of paths, not one path")
        self.filelist, self._is_given_files = [str(path) for path in filelist], True

    def set_use_var(self, var_list: Sequence[Variable]) -> None:
        """The variables that the slots of a line are fed to, in the order of the slots.

        Raises ValueError for a variable that no dataset can feed: see `slot_of`.
        """
        self._fed = [slot_of(var) for var in var_list]
        self.use_vars = list(var_list)
        del self.proto_desc.multi_slot_desc.slots[:]
        for var, fed in zip(var_list, self._fed, strict=True):
            slot = self.proto_desc.multi_slot_desc.slots.add(
                name=var.name, type=PROTO_TYPES[var.dtype], is_used=True
            )
            if fed.lod_level == 0:
                slot.is_dense = True
                slot.shape.extend(var.shape)

    def set_hdfs_config(self, fs_name: str, fs_ugi: str) -> None:
        """The file system of `hdfs:` and `afs:` files. fs_ugi: "user,password"."""
        self._hadoop = {"name": fs_name, "ugi": fs_ugi}

    def set_download_cmd(self, download_cmd: str) -> None:
        """A shell command that, given a path as its last argument, writes that file's content."""
        self._download_command = download_cmd

    def set_skip_bad_lines(self, skip: bool = True) -> None:
        """Leaves out lines that can't be parsed; refluid's own.

        `skipped_lines` counts them, over all passes; a warning says so in each.
        """
        self.skip_bad_lines = skip

    def desc(self) -> str:
        """The DataFeedDesc of this dataset as protobuf text."""
        return print_desc(self.proto_desc)

    # -- the position ---------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Which rows of the present pass were trained, as plain numbers and lists; refluid's own.

        A row counts when the step on it is done, or a loader gave it. May be called while
        `train_from_dataset` runs, by a `FetchHandler` for example, and after it failed.
        """
        return self._position.state(self.filelist, self._order_state())

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Has the next pass give exactly the rows that were left where `state` was taken.

        Random numbers of `random` and `numpy.random` go on from there too. ValueError for the
        state of something else; the next pass raises it where files or rows are others.
        """
        self._position.load(state)

    def finish_pass(self) -> None:
        """All rows were trained: the next pass begins with the first ones."""
        self._position.finish()

    def _order_state(self) -> dict[str, Any]:
        """What `state_dict` says of the order of rows."""
        return {}

    # -- for train_from_dataset -----------------------------------------------

    @property
    def names(self) -> list[str]:
        """The variables that a batch has a tensor for, in its order."""
        return [fed.slot.name for fed in self._fed if fed.slot.used]

    @property
    def names_with_lod(self) -> frozenset[str]:
        """Those of them with sequences."""
        return frozenset(fed.slot.name for fed in self._fed if fed.lod_level and fed.slot.used)

    def usable_threads(self, wanted: int = 0) -> int:
        """As many threads as wanted (0: as set_thread said), but not more than files."""
        threads = whole_number("the number of threads", wanted or self.thread_num)
        return max(1, min(threads, len(self.filelist), MOST_THREADS))

    def feed(self, consumers: int) -> DatasetFeed:
        """A pass over all rows for `consumers` threads. Start what is returned, and stop it.

        Raises ValueError where files or variables were not set, UnreadableFile for a missing file.
        """
        source, shaped = self._source(), self._shaped()
        done = self._position.begin(self.filelist)
        return feed_from_files(source, shaped, self.usable_threads(), consumers, done)

    def _shaped(self) -> Shaped:
        shapes = tuple(fed.shape for fed in self._fed if fed.slot.used)
        return Shaped(int(self.proto_desc.batch_size), shapes)

    def _source(self) -> RowSource:
        for given, method in ((self._fed, "set_use_var"), (self._is_given_files, "set_filelist")):
            if not given:
                raise ValueError(f"the dataset has nothing to read: call its {method} first")
        if not self.filelist:
            _LOGGER.warning("the dataset has nothing to read: its list of files is empty")
        fed = [*text_slots(self._leading), *self._fed]
        return RowSource(
            tuple(self.filelist),
            tuple(one.slot for one in fed),
            self.proto_desc.pipe_command,
            self._download_command,
            self._hdfs_options(),
            _pipe_environment(),
            self.skip_bad_lines,
            self._note_skipped,
            self._hadoop,
        )

    def _note_skipped(self, count: int) -> None:
        with self._counting:
            self.skipped_lines += count
        _LOGGER.warning("%d lines that can't be parsed were left out", count)

    def _hdfs_options(self) -> dict[str, Any]:
        """fsspec's options for what `set_hdfs_config` said."""
        if not self._hadoop:
            return {}
        host, _, port = self._hadoop["name"].split("://")[-1].rstrip("/").partition(":")
        user = self._hadoop["ugi"].split(",")[0]
        return {"host": host, "user": user} | ({"port": int(port)} if port.isdigit() else {})


def _pipe_environment() -> dict[str, str]:
    """What makes `python` in a pipe command the one that runs here, with `paddle` as it is here."""
    found = {}
    if sys.executable:
        found["PATH"] = _first(str(Path(sys.executable).parent), environment_str("PATH"))
    if "refluid.paddle.alias" in sys.modules and "paddle" in sys.modules:
        found["PYTHONPATH"] = _first(_SHIM, environment_str("PYTHONPATH"))
    return found


def _first(folder: str, others: str | None) -> str:
    return os.pathsep.join([folder, others] if others else [folder])
