"""Operators by which a trainer's program pushes to servers of tables and pulls from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from refluid.comm import Communicator
from refluid.comm.servers import LOOKED_UP, link_of, replicas_here
from refluid.core.errors import EnforceNotMet
from refluid.core.selected_rows import SelectedRows
from refluid.ir.block import Block
from refluid.ops.infer import no_inference
from refluid.ops.registry import operator
from refluid.ops.signature import Long, Longs

_ADDRESS = ("127.0.0.1:6164",)
_HOW: dict[str, Any] = {"uses": None, "infer": no_inference, "lod": ""}


@operator("send", outputs="Out*?", **_HOW)
def send(
    X: list[Tensor | SelectedRows],
    *,
    trainer_id: int = 0,
    epmap: Sequence[str] = _ADDRESS,
    sections: Longs = (),
    send_varnames: Sequence[str] = (),
    num: int = 0,
    merge_add: bool = False,
    use_send_handler: bool = True,
    comm: Communicator,
) -> list[Tensor]:
    """Hands the gradients X, called `send_varnames`, on to the servers at `epmap`.

    Of replicas in one process, which have the same gradients, the first does it. Ids that were
    looked up are those of all replicas.
    """
    here = replicas_here(comm)
    named = dict(zip(send_varnames, X, strict=True))
    if here.size > 1:
        named |= {name: _of_all(one, here) for name, one in named.items() if LOOKED_UP in name}
    if not here.rank:
        link_of(epmap, trainer_id).send(named)
    return []


def _of_all(ids: Tensor | SelectedRows, replicas: Communicator) -> Tensor:
    """The ids of all replicas, [n]."""
    found = [one.reshape(-1) for one in replicas.all_gather(ids) if isinstance(one, Tensor)]
    together = torch.cat(found)
    replicas.barrier()  # a step that goes on may write to its own
    return together


@operator("send_barrier", outputs="Out*?", **_HOW)
def send_barrier(
    X: list[Tensor] | None = None,
    *,
    trainer_id: int = 0,
    endpoints: Sequence[str] = _ADDRESS,
    half_async: bool = False,
    comm: Communicator,
) -> list[Tensor]:
    """Waits until what was sent is applied: with half_async this trainer's, else all trainers'."""
    if not replicas_here(comm).rank:
        link_of(endpoints, trainer_id).send_barrier()
    return []


@operator("recv", outputs="Out*", mutates={"Out": "X"}, **_HOW)
def recv(
    X: list[Tensor],
    *,
    epmap: Sequence[str] = (),
    trainer_id: int = 0,
    with_barrier: bool = True,
    varnames: Sequence[str] = (),
    recv_varnames: Sequence[str] = (),
    do_not_run: int = 0,
    comm: Communicator,
) -> list[Tensor]:
    """Overwrites the parameters X, called `varnames`, with what the servers at `epmap` have.

    Without with_barrier, where servers are asked in the background, with what came last.
    """
    if do_not_run:
        return X
    here = replicas_here(comm)
    if not here.rank:
        link_of(epmap, trainer_id).receive(dict(zip(varnames, X, strict=True)), wait=with_barrier)
    if here.size > 1:
        here.broadcast(X, 0)
    return X


@operator("fetch_barrier", outputs="Out*?", **_HOW)
def fetch_barrier(
    X: list[Tensor] | None = None,
    *,
    trainer_id: int = 0,
    endpoints: Sequence[str] = _ADDRESS,
    comm: Communicator,
) -> list[Tensor]:
    """Waits until all that was asked for is there."""
    if not replicas_here(comm).rank:
        link_of(endpoints, trainer_id).fetch_barrier()
    return []


@operator(
    "distributed_lookup_table",
    outputs="Outputs*",
    effects="comm",
    uses=None,
    infer=no_inference,
    lod="Ids",
    shape_only="W",
)
def distributed_lookup_table(
    Ids: list[Tensor],
    W: Tensor,
    *,
    table_names: Sequence[str] = ("",),
    height_sections: Longs = (),
    endpoints: Sequence[str] = _ADDRESS,
    trainer_id: int = 0,
    lookup_table_version: str = "lookup_table",
    padding_idx: Long = -1,
    dtype: int = 5,
) -> list[Tensor]:
    """For each Ids the rows of the table `table_names[0]` that the servers have.

    `lookup_table` takes ids (..., 1), `lookup_table_v2` ids (...); those of padding_idx give zeros.
    W: stands for the table in the trainer, with its shape and nothing else. height_sections: where
    they are given ids are below their sum, else any int64.
    """
    ids = [flat_ids(one, lookup_table_version) for one in Ids]
    if height_sections:
        _require_rows(table_names[0], sum(height_sections), ids)
    found = link_of(endpoints, trainer_id).look_up(table_names[0], ids)
    if padding_idx == -1:
        return list(found)
    pairs = zip(found, ids, strict=True)
    return [rows.masked_fill((one == padding_idx).unsqueeze(-1), 0.0) for rows, one in pairs]


def flat_ids(ids: Tensor, version: str) -> Tensor:
    """Ids (...), of which `lookup_table` has (..., 1)."""
    return ids.reshape(ids.shape[:-1]) if version == "lookup_table" else ids


def ids_beyond(height: int, ids: Tensor) -> Tensor:
    """The places of those ids, flat, that are no row of a table: int64 [n]."""
    flat = ids.reshape(-1)
    # Without signs negative ones are the largest.
    if not len(flat) or flat.cpu().numpy().view(f"u{flat.itemsize}").max() < height:
        return torch.empty(0, dtype=torch.int64)
    return ((flat < 0) | (flat >= height)).nonzero().reshape(-1)


def _require_rows(table: str, height: int, ids: Sequence[Tensor]) -> None:
    """EnforceNotMet, in Fluid's words, for an id that is no row of a table on servers."""
    for number, one in enumerate(ids):
        wrong = ids_beyond(height, one)
        if len(wrong):
            place, which = int(wrong[0]), f"Ids {number + 1}" if len(ids) > 1 else "the ids"
            raise EnforceNotMet(
                "Variable value (input) of OP(fluid.layers.embedding) expected >= 0 and < "
                f"{height}, but got {int(one.reshape(-1)[place])}. Please check input value: "
                f"element {place} of {which} is no row of table {table!r}, which has {height} on "
                "the servers. Where ids may be any numbers, as hashes are, say "
                "is_distributed=True to the embedding"
            )


@operator("fake_init", outputs="Out", **_HOW)
def fake_init(*, shape: Longs, device: torch.device) -> Tensor:
    """Stands for a table that servers have: zeros of that shape, without memory for them."""
    return torch.zeros(1, device=device).expand(tuple(shape))


@operator("checkpoint_notify", outputs="", effects="host", **_HOW)
def checkpoint_notify(
    *,
    epmap: Sequence[str] = _ADDRESS,
    dir: str,
    lookup_table: str,
    trainer_id: int = 0,
) -> tuple[()]:
    """Writes a table of the servers, or all for `""`, to the folder `dir`: as fleet.save_model."""
    link_of(epmap, trainer_id).save(dir, lookup_table)
    return ()


@operator("listen_and_serv", outputs="", effects="host", **_HOW)
def listen_and_serv(
    X: list[Tensor] | None = None,
    *,
    endpoint: str = _ADDRESS[0],
    pserver_id: int = -1,
    grad_to_block_id: Sequence[str] = (),
    distributed_mode: int = 0,
    dc_asgd: bool = False,
    optimize_blocks: Sequence[Block] = (),
    prefetch_var_name_to_block_id: Sequence[str] = (),
    sparse_grad_to_param: Sequence[str] = (),
    Fanin: int = 1,
    checkpint_block_id: int = -1,
    lr_decay_block_id: int = -1,
    rpc_get_thread_num: int = 1,
    rpc_send_thread_num: int = 1,
    rpc_prefetch_thread_num: int = 1,
) -> tuple[()]:
    """Serves tables at `endpoint` to Fanin trainers, updating them by `optimize_blocks`."""
    raise EnforceNotMet(
        "a server's program is run by fluid.Executor.run(program) alone, without feeds and fetches"
    )
