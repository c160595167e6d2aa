"""Exchanges of random values, checked by each process: it knows what the others have drawn."""

from __future__ import annotations

from typing import Any

import numpy as np

import refluid.fluid as fluid
from refluid.core.errors import EnforceNotMet

Array = np.ndarray[Any, Any]


class Drawn:
    """The arrays that all processes have, by their seeds, and this one's as a value of dygraph."""

    def __init__(self, rank: int, size: int, seed: int) -> None:
        self.rank, self.size, self._seed = rank, size, seed

    def arrays(self, *shape: int) -> list[Array]:
        """One for each process, by rank."""
        self._seed += 1
        draws = [np.random.RandomState(100 * self._seed + one) for one in range(self.size)]
        return [draw.standard_normal(shape).astype("float32") for draw in draws]

    def own(self, arrays: list[Array]) -> Any:
        """That of this process."""
        return fluid.dygraph.to_variable(arrays[self.rank].copy())  # else they share memory


def same(value: Any, array: Any) -> None:
    """AssertionError unless a value of dygraph is that array."""
    np.testing.assert_allclose(value.numpy(), array, rtol=1e-6)


def reductions(drawn: Drawn) -> None:
    """`all_reduce` by the mean, `reduce_scatter`, and their names in `stream`."""
    from refluid.paddle import distributed as dist

    rank, size = drawn.rank, drawn.size
    for later in (False, True):
        arrays = drawn.arrays(3, 2)
        value = drawn.own(arrays)
        task = dist.all_reduce(value, dist.ReduceOp.AVG, sync_op=not later)
        assert task.wait() and task.is_completed()
        same(value, np.mean(arrays, 0))
    value = fluid.dygraph.to_variable(np.arange(3))
    try:
        dist.all_reduce(value, dist.ReduceOp.AVG)
        raise AssertionError("a mean of whole numbers")
    except TypeError:
        pass
    ways = {
        dist.ReduceOp.SUM: np.sum,
        dist.ReduceOp.MAX: np.max,
        dist.ReduceOp.PROD: np.prod,
        dist.ReduceOp.AVG: np.mean,
    }
    for op, way in ways.items():
        arrays = drawn.arrays(size, 2, 2)
        mine, out = drawn.own(arrays), fluid.dygraph.to_variable(np.zeros((2, 2), "float32"))
        dist.reduce_scatter(out, [mine[one] for one in range(size)], op)
        same(out, way(np.stack(arrays)[:, rank], 0))
        dist.stream.reduce_scatter(out, mine.reshape([2 * size, 2]), op, use_calc_stream=True)
        same(out, way(np.stack(arrays)[:, rank], 0))


def divisions(drawn: Drawn) -> None:
    """`gather`, `alltoall_single`, and lists or tensors in `stream`."""
    from refluid.paddle import distributed as dist

    rank, size = drawn.rank, drawn.size
    arrays, root = drawn.arrays(2), size - 1
    found: list[Any] = []
    dist.gather(drawn.own(arrays), found if rank == root else None, root)
    assert len(found) == (size if rank == root else 0)
    for one, array in zip(found, arrays, strict=False):
        same(one, array)
    # Rows to others: sizes[from][to]
    sizes = np.random.RandomState(size).randint(0, 4, [size, size])
    every = [drawn.arrays(int(row.sum()), 2)[at] for at, row in enumerate(sizes)]
    parts = [np.split(array, np.cumsum(row)[:-1]) for array, row in zip(every, sizes, strict=True)]
    expected = np.concatenate([parts[one][rank] for one in range(size)])
    out = fluid.dygraph.to_variable(np.zeros_like(expected))
    mine = fluid.dygraph.to_variable(every[rank])
    given, taken = sizes[rank].tolist(), sizes[:, rank].tolist()
    dist.alltoall_single(mine, out, given, taken)
    same(out, expected)
    dist.stream.alltoall_single(out, mine, taken, given)
    same(out, expected)
    arrays = drawn.arrays(size, 3)
    whole = fluid.dygraph.to_variable(np.zeros((size, 3), "float32"))
    dist.stream.alltoall(whole, drawn.own(arrays))
    same(whole, np.stack([array[rank] for array in arrays]))
    dist.stream.all_gather(whole, drawn.own(arrays)[0])
    same(whole.reshape([size, 3]), np.stack([array[0] for array in arrays]))
    one = fluid.dygraph.to_variable(np.zeros((1, 3), "float32"))
    dist.stream.scatter(one, drawn.own(arrays) if rank == root else None, src=root)
    same(one, arrays[root][rank : rank + 1])


def messages(drawn: Drawn) -> None:
    """`isend` and `irecv` around a ring, waited for in another order than they were asked for."""
    from refluid.paddle import distributed as dist

    rank, size = drawn.rank, drawn.size
    after, before = (rank + 1) % size, (rank - 1) % size
    sent = [drawn.arrays(2, 3) for _ in range(3)]
    for arrays in sent:
        dist.isend(drawn.own(arrays), after)
    taken = [fluid.dygraph.to_variable(np.zeros((2, 3), "float32")) for _ in sent]
    tasks = [dist.irecv(one, before) for one in taken[:2]]
    dist.recv(taken[2], before)
    for task in reversed(tasks):
        assert task.is_completed() and task.wait()
    for one, arrays in zip(taken, sent, strict=True):
        same(one, arrays[before])
    for count in (3, 2):
        dist.send(drawn.own(drawn.arrays(count)), after)
    small = fluid.dygraph.to_variable(np.zeros(2, "float32"))
    wrong, right = dist.irecv(small, before), dist.irecv(small, before)
    assert right.wait()
    try:
        wrong.wait()
        raise AssertionError("three numbers in the place of two")
    except EnforceNotMet:
        pass
    arrays = drawn.arrays(4)
    dist.stream.send(drawn.own(arrays), after, None, True, True)
    out = fluid.dygraph.to_variable(np.zeros(4, "float32"))
    dist.stream.recv(out, src=before, use_calc_stream=True)
    same(out, arrays[before])
    arrays = drawn.arrays(4)
    out = fluid.dygraph.to_variable(np.zeros(4, "float32"))
    both = [
        dist.P2POp(dist.isend, drawn.own(arrays), after),
        dist.P2POp(dist.irecv, out, before),
    ]
    for task in dist.batch_isend_irecv(both):
        task.wait()
    same(out, arrays[before])


def objects(drawn: Drawn) -> None:
    """Objects of any kind and size, from all, from one to all, and a part for each."""
    from refluid.paddle import distributed as dist

    rank, size = drawn.rank, drawn.size
    every = [{"rank": one, "words": ["a"] * 100 * one} for one in range(size)]
    found: list[Any] = ["there before"]
    dist.all_gather_object(found, every[rank])
    assert found == ["there before", *every]
    listed = [every[0], fluid.ParamAttr] if rank == 0 else [None, None]
    dist.broadcast_object_list(listed, src=0)
    assert listed == [every[0], fluid.ParamAttr]
    out: list[Any] = []
    dist.scatter_object_list(out, every if rank == 1 else None, src=1)
    assert out == [every[rank]]


def exchange_all(rank: int, size: int, seed: int) -> str:
    """Does all of this; what it returns says that nothing differed."""
    drawn = Drawn(rank, size, seed)
    with fluid.dygraph.guard():
        for part in (reductions, divisions, messages, objects):
            part(drawn)
    return "the same"


def exchange_in_three() -> str:
    """As one of three processes who meet by `gloo_init_parallel_env`, leave, and meet again."""
    from refluid.paddle import distributed as dist

    dist.init_parallel_env()
    rank, size = dist.get_rank(), dist.get_world_size()
    for seed in range(5):
        exchange_all(rank, size, seed)
    group = dist.new_group([0, 2])
    with fluid.dygraph.guard():
        value = fluid.dygraph.to_variable(np.array([2.0 + rank], "float32"))
        dist.all_reduce(value, dist.ReduceOp.SUM, group)
        assert value.numpy().tolist() == ([3.0] if rank == 1 else [6.0])
    if group.is_member():
        assert dist.get_backend(group) == "GLOO"
    dist.destroy_process_group(group)
    try:
        dist.get_group(group.id)
        raise AssertionError("the group is still there")
    except ValueError:
        pass
    endpoints = dist.ParallelEnv().trainer_endpoints
    dist.barrier()
    dist.destroy_process_group()
    assert not dist.is_initialized()
    try:
        dist.init_parallel_env()
        raise AssertionError("met where a meeting was before")
    except EnforceNotMet:
        pass
    dist.gloo_init_parallel_env(rank, size, endpoints[1])
    dist.gloo_barrier()
    answer = exchange_all(rank, size, 9)
    dist.gloo_release()
    return answer
