"""Connects a trainer: the link of its mode, with the knobs that flags have."""

from __future__ import annotations

import atexit
import logging
import threading
from typing import Any

from refluid.comm.servers import ServerLink, drop_link, put_link
from refluid.core import flags
from refluid.core.errors import EnforceNotMet
from refluid.ir.program import Program
from refluid.pserver.geo import DeltaLink
from refluid.pserver.layout import TrainingMode
from refluid.pserver.links import SilentLink, TableLink, WaitingLink
from refluid.pserver.sending import Merging, SendingLink
from refluid.pserver.server_making import lease_seconds
from refluid.pserver.split import Split
from refluid.pserver.table_client import TableClient
from refluid.pserver.tables_elsewhere import TablesElsewhere
from refluid.pserver.wire import keys_of_environment

_LOGGER = logging.getLogger("refluid")
# Every so many seconds at most a trainer tells how it does: the launcher's line is as fresh.
_BEATS = 5.0


class Connection:
    """A trainer's way to its servers, opened when it is first needed.

    split: of its programs. frequency: after how many steps GEO exchanges.
    """

    def __init__(self, split: Split, frequency: int = 100) -> None:
        self.split, self.frequency = split, frequency
        self.merging: Merging | None = None
        self._link: Any = None
        self._opening = threading.Lock()  # threads of a dataset come at the same time
        put_link(split.where, self.open)

    def serve(self, main: Program, startup: Program) -> None:
        """Makes them the programs of this trainer."""
        main._servers = startup._servers = self
        if self.split.layout.sparse and self.split.layout.mode != TrainingMode.GEO:
            startup.set_before_runs("tables of servers", TablesElsewhere(self).tell)

    @property
    def held(self) -> frozenset[str]:
        """Parameters and tables of which this trainer takes what servers have; none in GEO."""
        layout = self.split.layout
        if not self.is_open or layout.mode == TrainingMode.GEO:
            return frozenset()
        return frozenset(one.name for one in layout.dense) | layout.tables.keys()

    @property
    def is_open(self) -> bool:
        """Whether the servers know of this trainer."""
        return self._link is not None

    @property
    def link(self) -> Any:
        """The link, opened where it isn't yet."""
        return self.open()

    def open(self) -> ServerLink:
        """Tells the servers that this trainer begins; waits for those that aren't there yet."""
        with self._opening:
            if self._link is None:
                client = self._client()
                try:
                    client.enter()
                except EnforceNotMet:  # servers that heard of this trainer are told as it ends
                    atexit.register(client.leave)
                    raise
                self._link = self._made(client)
                self._link.saves = self._save
                put_link(self.split.where, self._link)
                atexit.register(self._end)
            link: ServerLink = self._link
            return link

    def stepped(self, rows: int) -> None:
        """The trainer has made a step on so many rows."""
        if self._link is not None:
            self._link.client.figures.step(rows)

    def close(self) -> None:
        """Sends what is left, and tells the servers that this trainer ends."""
        link = self._link
        if link is None:
            return
        try:
            link.close()
        except KeyboardInterrupt:  # it is closed again, at the latest as the process ends
            raise
        except BaseException:
            self._forget()
            raise
        self._forget()

    def _forget(self) -> None:
        self._link = None
        atexit.unregister(self._end)
        drop_link(self.split.where)

    def _end(self) -> None:
        """The process ends, of a script that didn't say so."""
        try:
            self.close()
        except EnforceNotMet as error:
            _LOGGER.info("what was left wasn't sent to the servers: %s", error)

    def _save(self, folder: str, table: str) -> None:
        """Shards of a table, or of all that servers hold for "", as `fleet.save_model` has them."""
        from refluid.pserver.sharding import save_shards  # few programs save

        known = self.split.layout.tables
        if table and table not in known:
            raise EnforceNotMet(
                f"the servers have no table {table!r}, but {', '.join(known) or 'none'}"
            )
        save_shards(self, folder, [table] if table else None)

    def _client(self) -> TableClient:
        patience = float(flags.value("rpc_deadline")) / 1000
        beats = min(lease_seconds() / 4, _BEATS)
        keys = keys_of_environment()
        return TableClient(self.split.layout, self.split.trainer, patience, beats, keys)

    def _made(self, client: TableClient) -> TableLink:
        mode = self.split.layout.mode
        if flags.value("communicator_fake_rpc"):
            return SilentLink(client)
        if mode == TrainingMode.ASYNC:
            return SendingLink(client, self.merging or merging_of_flags(self.split.is_sgd))
        if mode == TrainingMode.GEO:
            waits = not flags.value("refluid_overlap_geo")
            return DeltaLink(client, self.frequency, waits=waits)
        return WaitingLink(client)


def merging_of_flags(is_sgd: bool) -> Merging:
    """As FLAGS_communicator_* say; whether gradients are added up, as the optimizer is."""
    told = flags.was_set("communicator_is_sgd_optimizer")
    return Merging(
        most=int(flags.value("communicator_max_merge_var_num")),
        waiting=int(flags.value("communicator_send_queue_size")),
        patience=int(flags.value("communicator_send_wait_times")),
        pulls_after=int(flags.value("communicator_min_send_grad_num_before_recv")),
        own_thread=bool(flags.value("communicator_independent_recv_thread")),
        sums=bool(flags.value("communicator_is_sgd_optimizer")) if told else is_sgd,
    )
