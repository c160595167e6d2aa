"""Checkpoints of a fleet: numbered folders, of which the last whole one is loaded."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from refluid.core.errors import EnforceNotMet
from refluid.core.writing import write_whole
from refluid.fluid.executor import Executor
from refluid.fluid.incubate.fleet.files import FS, LocalFS
from refluid.fluid.saving.persistence import load_persistables, save_persistables
from refluid.ir.program import Program

__all__ = ["Checkpoints", "TrainStatus"]

_STATUS = "fleet_train_status"


class TrainStatus:
    """How far training has come. epoch_no: of the last epoch that is whole, -1 for none."""

    def __init__(self, epoch_no: int = -1) -> None:
        self._epoch_no = epoch_no

    def next(self) -> int:
        """The epoch to begin with."""
        return self._epoch_no + 1

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TrainStatus) and self._epoch_no == other._epoch_no

    def __hash__(self) -> int:
        return hash(self._epoch_no)


class Checkpoints:
    """Saves and loads what a fleet has learned; a folder has its name once it is whole."""

    _checkpoint_prefix: str
    _param_file_name: str

    def _plain(self, program: Program | None) -> Program:
        raise NotImplementedError

    def save_check_point(
        self,
        executor: Executor,
        path: str,
        train_status: TrainStatus,
        main_program: Program | None = None,
        fs: FS = LocalFS(),  # noqa: B008  (Fluid's signature; it has no state)
        local_cache_path: str = ".cache",
        remain_all_checkpoint: bool = True,
    ) -> None:
        """Saves persistable variables and the status in the next numbered folder of `path`.

        To be called by the first worker. local_cache_path: where they are written before they are
        uploaded, for file systems that need it. remain_all_checkpoint: whether earlier ones stay.
        """
        if not fs.stat(path):
            fs.mkdir(path)
        number = max(self._numbers(path, fs), default=-1) + 1
        final = f"{path}/{self._checkpoint_prefix}.{number}"
        begun = f"{final}.begun"
        target = f"{local_cache_path}/{Path(begun).name}" if fs.need_upload_download() else begun
        for left in {begun, target}:
            (fs if left == begun else LocalFS()).delete(left)
        program = self._plain(main_program)
        save_persistables(executor, target, program, filename=self._param_file_name)
        text = json.dumps({"epoch_no": train_status._epoch_no})
        write_whole(Path(target, _STATUS), text)
        if fs.need_upload_download():
            fs.upload(target, begun)
        fs.mv(begun, final)
        if not remain_all_checkpoint:
            self.clean_redundant_check_points(path, fs)

    def load_check_point(
        self,
        executor: Executor,
        path: str,
        trainer_id: int,
        main_program: Program | None = None,
        fs: FS = LocalFS(),  # noqa: B008
        local_cache_path: str = ".cache",
        ignore_empty: bool = True,
    ) -> TrainStatus | None:
        """Loads the last checkpoint of `path` and returns its status.

        None where there is none, an EnforceNotMet unless `ignore_empty`. trainer_id: keeps apart
        what several workers of a machine download.
        """
        numbers = self._numbers(path, fs)
        if not numbers:
            if ignore_empty:
                return None
            raise EnforceNotMet(f"there is no checkpoint in {path}")
        source = f"{path}/{self._checkpoint_prefix}.{max(numbers)}"
        if fs.need_upload_download():
            own = f"{local_cache_path}/{trainer_id}/{Path(source).name}"
            LocalFS().delete(own)
            fs.download(source, own)
            source = own
        program = self._plain(main_program)
        load_persistables(executor, source, program, filename=self._param_file_name)
        found: Any = json.loads(Path(source, _STATUS).read_text(encoding="utf-8"))
        return TrainStatus(int(found["epoch_no"]))

    def clean_redundant_check_points(
        self,
        root_path: str,
        fs: FS = LocalFS(),  # noqa: B008
        checkpoint_num: int = 1,
    ) -> None:
        """Removes all checkpoints but the last `checkpoint_num`, at least one."""
        for number in sorted(self._numbers(root_path, fs))[: -max(1, checkpoint_num)]:
            fs.delete(f"{root_path}/{self._checkpoint_prefix}.{number}")

    def _numbers(self, path: str, fs: FS) -> list[int]:
        pattern = re.compile(rf"{re.escape(self._checkpoint_prefix)}\.(\d+)")
        found = [pattern.fullmatch(name) for name in fs.list_dirs(path)]
        return [int(one[1]) for one in found if one]
