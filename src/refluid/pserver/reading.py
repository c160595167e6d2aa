"""`TableReader`: looks at what servers hold, beside training or after it, and is no trainer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor

from refluid.comm.communicator import Exchanged
from refluid.comm.servers import drop_link, put_link
from refluid.core.errors import EnforceNotMet
from refluid.core.scope import Scope
from refluid.ir.program import Program
from refluid.pserver.layout import JobLayout
from refluid.pserver.links import TableLink
from refluid.pserver.lookout import present_layout
from refluid.pserver.table_client import TableClient
from refluid.pserver.trainer_programs import make_lookups_remote
from refluid.pserver.wire import keys_of_environment

_READER = -1


class TableReader:
    """Reads tables and parameters of a job's servers, and changes nothing.

    servers: `host:port` of one of them, which knows of the others.

    Rows that aren't there are what they would begin as, and are not made. Predictions use the
    tables as they are at each run, and dense parameters as of the last `refresh`::

        with TableReader(["127.0.0.1:6174"]) as reader:
            print(reader.rows("emb", [1, 2**40]))
            program = reader.connected(main.clone(for_test=True))
            reader.refresh(program, fluid.global_scope())
            exe.run(program, feed=feed, fetch_list=[predict])

    patience: for how many seconds a server that doesn't answer is asked. Keys of mutual TLS come
    from the environment, as those of trainers. Raises ServerUnreachable where a server doesn't
    answer, EnforceNotMet where it is none of refluid's.
    """

    def __init__(self, servers: Sequence[str], patience: float = 30.0) -> None:
        layout, keys = present_layout(servers, patience), keys_of_environment()
        self._client = TableClient(layout, _READER, patience, keys=keys)
        self._where = layout.servers, _READER
        put_link(self._where, ReadingLink(self._client))

    @property
    def layout(self) -> JobLayout:
        """Which servers there are, and what is where."""
        return self._client.layout

    def rows(self, table: str, ids: Any) -> np.ndarray[Any, Any]:
        """The rows of ids, whole numbers of any shape: (*shape, width), float32 or float64."""
        self._require(table)
        wanted = torch.from_numpy(np.asarray(ids, np.int64).copy())
        return self._client.rows(table, wanted, read_only=True).numpy()

    def parameters(self) -> dict[str, np.ndarray[Any, Any]]:
        """Dense parameters as they are, by name."""
        return {name: value.numpy() for name, value in self._client.pull().items()}

    def state(self) -> list[dict[str, Any]]:
        """Figures of each server: rows and bytes of its tables, pushes, who trains and how."""
        return self._client.state()

    def connected(self, program: Program) -> Program:
        """A copy of a program whose lookups in the job's tables ask the servers."""
        made = program.clone(for_test=True)
        where = {"endpoints": list(self._where[0]), "trainer_id": _READER}
        make_lookups_remote(made.global_block(), self.layout, where)
        return made

    def refresh(self, program: Program, scope: Scope) -> None:
        """Gives the program's dense parameters the values that the servers have."""
        own = program.global_block().vars
        for name, value in self._client.pull().items():
            if name in own:
                scope.var(name).value = value.clone()
        for table in self.layout.sparse:
            if table.name in own:  # stands for it, without memory
                kind = getattr(torch, table.dtype)
                stand_in = torch.zeros(1, dtype=kind).expand(table.height, table.width)
                scope.var(table.name).value = stand_in

    def close(self) -> None:
        """Ends the connections."""
        drop_link(self._where)
        self._client.leave()

    def __enter__(self) -> TableReader:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _require(self, table: str) -> None:
        names = [one.name for one in self.layout.sparse]
        if table not in names:
            raise EnforceNotMet(
                f"the servers have no table {table!r}, but {', '.join(names) or 'none'}"
            )


class ReadingLink(TableLink):
    """Of a program that predicts: looks rows up as they are, and pushes nothing."""

    def look_up(self, table: str, ids: Sequence[Tensor]) -> Sequence[Tensor]:
        return [self.client.rows(table, one, read_only=True) for one in ids]

    def receive(self, parameters: Mapping[str, Tensor], *, wait: bool) -> None:
        self._refuse(*parameters, wait)

    def send(self, gradients: Mapping[str, Exchanged]) -> None:
        self._refuse(*gradients)

    def send_barrier(self) -> None:
        self._refuse()

    def fetch_barrier(self) -> None:
        self._refuse()

    def _refuse(self, *_given: object) -> NoReturn:
        raise EnforceNotMet("a reader's program predicts: it pushes and pulls nothing")
