"""Which workers train together as data, pipeline, sharding and model groups."""

from __future__ import annotations

from collections.abc import Sequence

from refluid.comm.world import world
from refluid.core.errors import EnforceNotMet
from refluid.paddle.distributed.grid import ORDER, CommunicateTopology
from refluid.paddle.distributed.groups import Group, everyone, own_part

__all__ = ["CommunicateTopology", "HybridCommunicateGroup", "ParallelMode"]


class ParallelMode:
    """Kinds of training together."""

    DATA_PARALLEL = 0
    TENSOR_PARALLEL = 1
    PIPELINE_PARALLEL = 2
    SHARDING_PARALLEL = 3
    SEGMENT_PARALLEL = 4


class HybridCommunicateGroup:
    """The groups of this process along the axes of a topology, which all processes must make.

    EnforceNotMet where the topology has another number of ranks than the job has processes.
    """

    def __init__(self, topology: CommunicateTopology) -> None:
        comm = world()
        if topology.world_size() != comm.size:
            raise EnforceNotMet(
                f"{topology.shown()} makes {topology.world_size()} workers, and there are "
                f"{comm.size}"
            )
        self._topo, self.global_rank, self.nranks = topology, comm.rank, comm.size
        self._at = topology.get_coord(comm.rank)._asdict()
        names = topology.get_hybrid_group_names()
        self._groups = {name: self._made([name]) for name in names}
        others = [name for name in names if name not in ("data", "sep")]
        self._check = self._made(others)

    def _made(self, axes: Sequence[str]) -> Group:
        parts = self._topo.get_fused_ranks(axes)
        if list(axes) == ["data"] and len(parts) == 1:
            return everyone()
        return own_part(parts)

    def topology(self) -> CommunicateTopology:
        """The grid."""
        return self._topo

    def get_parallel_mode(self) -> int | None:
        """The kind of `ParallelMode` that decides how a model is trained; None for a process."""
        for axis, mode in _MODES.items():
            if self._size(axis) > 1:
                return mode
        return None

    def get_global_rank(self) -> int:
        """The number of this process in the job."""
        return self.global_rank

    def get_rank_from_stage(self, stage_id: int, **kwargs: int) -> int:
        """The rank that is where this process is, but at that stage and these coordinates."""
        return self._topo.get_rank_from_stage(self.global_rank, pipe=stage_id, **kwargs)

    def _rank(self, axis: str) -> int:
        return int(self._at.get(axis, 0))

    def _size(self, axis: str) -> int:
        return self._topo.get_dim(axis) if axis in self._at else 1

    def _group(self, axis: str) -> Group:
        return self._groups[axis]

    def _first(self, axis: str) -> int:
        return self._groups[axis].ranks[0]

    # -- data ---------------------------------------------------------------------------------

    def get_data_parallel_rank(self) -> int:
        """Whose batches this process reads."""
        return self._rank("data")

    def get_data_parallel_world_size(self) -> int:
        """How many batches there are at a time."""
        return self._size("data")

    def get_data_parallel_group(self) -> Group:
        """Processes that train the same part with other batches."""
        return self._group("data")

    def get_data_parallel_group_src_rank(self) -> int:
        """The job's number of the first of them."""
        return self._first("data")

    # -- model --------------------------------------------------------------------------------

    def get_model_parallel_rank(self) -> int:
        """Which part of split layers this process has."""
        return self._rank("model")

    def get_model_parallel_world_size(self) -> int:
        """In how many parts layers are split."""
        return self._size("model")

    def get_model_parallel_group(self) -> Group:
        """Processes that have the other parts."""
        return self._group("model")

    def get_model_parallel_group_src_rank(self) -> int:
        """The job's number of the first of them."""
        return self._first("model")

    # -- pipe ---------------------------------------------------------------------------------

    def get_stage_id(self) -> int:
        """Which stage of a pipeline this process is."""
        return self._rank("pipe")

    def get_pipe_parallel_rank(self) -> int:
        """The same."""
        return self._rank("pipe")

    def get_pipe_parallel_world_size(self) -> int:
        """How many stages there are."""
        return self._size("pipe")

    def get_pipe_parallel_group(self) -> Group:
        """The processes that are its stages, in order."""
        return self._group("pipe")

    def is_first_stage(self) -> bool:
        """Whether this process is the first stage."""
        return self._rank("pipe") == 0

    def is_last_stage(self) -> bool:
        """Whether this process is the last stage."""
        return self._rank("pipe") == self._size("pipe") - 1

    def get_p2p_groups(self) -> None:
        """EnforceNotMet: stages send to each other within the pipe's group, without others."""
        raise EnforceNotMet("stages send by get_pipe_parallel_group: they need no groups of two")

    # -- sharding, and what goes together ------------------------------------------------------

    def get_sharding_parallel_rank(self) -> int:
        """Which share of state this process has."""
        return self._rank("sharding")

    def get_sharding_parallel_world_size(self) -> int:
        """Among how many processes state is shared."""
        return self._size("sharding")

    def get_sharding_parallel_group(self) -> Group:
        """Processes that have the other shares."""
        return self._group("sharding")

    def get_sharding_parallel_group_src_rank(self) -> int:
        """The job's number of the first of them."""
        return self._first("sharding")

    def get_sep_parallel_rank(self) -> int:
        """0: sequences aren't cut."""
        return self._rank("sep")

    def get_sep_parallel_world_size(self) -> int:
        """1: sequences aren't cut."""
        return self._size("sep")

    def get_check_parallel_group(self, sharding: bool = False) -> Group:
        """Processes that together have all of a model, one of each part: of norms over it.

        sharding: the same.
        """
        return self._check

    def create_fuse_group(self, fused_strategy_list: Sequence[str]) -> tuple[list[int], Group]:
        """The group along several axes; all processes must call this: (its ranks, the group)."""
        if not fused_strategy_list:
            raise ValueError("a group is made along one axis or more")
        made = self._made(list(fused_strategy_list))
        return list(made.ranks), made


_MODES = {
    "pipe": ParallelMode.PIPELINE_PARALLEL,
    "model": ParallelMode.TENSOR_PARALLEL,
    "sep": ParallelMode.SEGMENT_PARALLEL,
    "sharding": ParallelMode.SHARDING_PARALLEL,
    "data": ParallelMode.DATA_PARALLEL,
}
_known: dict[tuple[tuple[str, int], ...], HybridCommunicateGroup] = {}


def hybrid_group(
    *,
    dp: int = -1,
    pp: int = 1,
    sharding: int = 1,
    sep: int = 1,
    mp: int = 1,
    order: Sequence[str] = tuple(ORDER),
) -> HybridCommunicateGroup:
    """The groups of so many workers along each axis, made once; dp -1: all that there are.

    order: the axes, outermost first. All processes must call this the first time. ValueError where
    the degrees don't make up the job's processes.
    """
    if sorted(order) != sorted(ORDER):
        raise ValueError(f"the order of degrees has each of {', '.join(ORDER)} once, not {order}")
    size, others = world().size, pp * sharding * sep * mp
    degrees = {"dp": dp, "pp": pp, "sharding": sharding, "sep": sep, "mp": mp}
    if min(pp, sharding, sep, mp) < 1 or (dp < 1 and dp != -1):
        raise ValueError(f"degrees are 1 or more, and dp_degree may be -1: {degrees}")
    degrees["dp"] = size // others if dp == -1 else dp
    if degrees["dp"] * others != size:
        shown = " times ".join(f"{name}_degree {one}" for name, one in degrees.items() if one != 1)
        raise ValueError(f"{shown} must be the number of workers, which is {size}")
    lengths = tuple((ORDER[name], degrees[name]) for name in order)
    if lengths not in _known:
        names, dims = zip(*lengths, strict=True)
        _known[lengths] = HybridCommunicateGroup(CommunicateTopology(names, dims))
    return _known[lengths]


_current: list[HybridCommunicateGroup] = []


def set_grid(grid: HybridCommunicateGroup | None) -> None:
    """The grid in which this process trains from now on; None for one of data groups only."""
    _current[:] = [] if grid is None else [grid]


def grid_of_now() -> HybridCommunicateGroup:
    """The grid in which this process trains. All processes must call this the first time."""
    if not _current:
        set_grid(hybrid_group())
    return _current[0]


def members_of_layers(parts: int) -> Group:
    """The group of neighbours among whom layers are split in so many parts.

    All processes must call this the first time. EnforceNotMet where workers can't be parted so.
    """
    size = world().size
    if parts < 1 or size % parts:
        raise EnforceNotMet(
            f"layers can't be split in {parts} parts: there are {size} workers, which must be a "
            "multiple of it"
        )
    for made in _known.values():
        if made.get_model_parallel_world_size() == parts:
            return made.get_model_parallel_group()
    return hybrid_group(mp=parts).get_model_parallel_group()
