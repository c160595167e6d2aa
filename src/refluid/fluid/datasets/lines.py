"""`LineSettings`: words before the slots of a line, and merging of rows, which is left out."""

from __future__ import annotations

from typing import Any

from refluid.fluid.datasets.base import DatasetBase

# What only Baidu's advertising systems used, and what to say where it is asked for.
_LEFT_OUT = "refluid has no merging of rows by {}: merge them in the data generator"


class LineSettings(DatasetBase):
    """Words before the slots are skipped; merging rows is left out."""

    def __init__(self) -> None:
        super().__init__()
        self._leading_set: dict[str, bool] = {}
        self._merging = ""

    def set_parse_ins_id(self, parse_ins_id: bool) -> None:
        """Whether each line begins with `1 id`, which is skipped."""
        self._lead("ins_id", parse_ins_id)

    def set_parse_content(self, parse_content: bool) -> None:
        """Whether `1 content` follows (after the id), which is skipped."""
        self._lead("content", parse_content)

    def set_parse_logkey(self, parse_logkey: bool) -> None:
        """Whether `1 logkey` follows (after id and content), which is skipped."""
        self._lead("logkey", parse_logkey)

    def set_fleet_send_sleep_seconds(self, fleet_send_sleep_seconds: int = 0) -> None:
        """Fluid's pause between exchanges; without effect."""

    def set_merge_by_lineid(self, merge_size: int = 2) -> None:
        """Merging rows of one id; loading raises NotImplementedError."""
        self._merging = _LEFT_OUT.format("line id")

    def set_merge_by_sid(self, merge_by_sid: bool) -> None:
        """Merging rows of one search; loading raises NotImplementedError."""
        self._merging = _LEFT_OUT.format("search id") if merge_by_sid else ""

    def set_enable_pv_merge(self, enable_pv_merge: bool) -> None:
        """Merging rows to page views; loading raises NotImplementedError."""
        self._merging = _LEFT_OUT.format("page view") if enable_pv_merge else ""

    def set_current_phase(self, current_phase: int) -> None:
        """1 joins page views, which refluid doesn't have; 0 is training on rows."""
        if current_phase:
            raise NotImplementedError(_LEFT_OUT.format("page view"))

    def set_generate_unique_feasigns(self, generate_uni_feasigns: bool, shard_num: int) -> None:
        """Collecting ids for Baidu's servers; without effect."""

    def generate_local_tables_unlock(
        self,
        table_id: int,
        fea_dim: int,
        read_thread_num: int,
        consume_thread_num: int,
        shard_num: int,
    ) -> None:
        """For Baidu's servers: raises NotImplementedError."""
        raise NotImplementedError("refluid has no tables of pslib servers")

    def preprocess_instance(self) -> None:
        """Merging rows to page views: raises NotImplementedError."""
        raise NotImplementedError(_LEFT_OUT.format("page view"))

    def postprocess_instance(self) -> None:
        """Parting page views into rows: raises NotImplementedError."""
        raise NotImplementedError(_LEFT_OUT.format("page view"))

    def _lead(self, name: str, present: bool) -> None:
        self._leading_set[name] = bool(present)
        self._leading = [
            one for one in ("ins_id", "content", "logkey") if self._leading_set.get(one)
        ]

    def _source(self) -> Any:
        if self._merging:
            raise NotImplementedError(self._merging)
        return super()._source()
