"""Ids on plain tensors: hash maps, duplicates, who owns which, and rows that follow from ids."""

from __future__ import annotations

import numpy as np
import torch

from refluid.kernels.rows.dealing import AskedIds, DealtIds, KnownRows, PartialSums
from refluid.kernels.rows.draws import RowDraws
from refluid.kernels.rows.ids import IdMap, deal_ids, merge_ids, unique_ids
from refluid.pserver.ring import owners_of

WIDE = torch.tensor([0, -1, 2**63 - 1, -(2**63), 7, 7, 0], dtype=torch.int64)


def test_ids_of_any_size_have_slots() -> None:
    found = IdMap()
    assert found.add(WIDE).tolist() == [0, 1, 2, 3, 4, 4, 0]
    slots, missing = found.find(torch.tensor([7, 8, -1]))
    assert slots.tolist() == [4, -1, 1]
    assert missing == 1


def test_slots_stay_when_a_map_grows() -> None:
    found, ids = IdMap(), torch.from_numpy(np.random.RandomState(0).permutation(50_000))
    for part in ids.split(999):
        found.add(part)
    assert found.count == 50_000
    slots, missing = found.find(ids)
    assert slots.tolist() == list(range(50_000))
    assert not missing


def test_ids_that_come_again_have_their_slots() -> None:
    """In any order of calls, whatever becomes of the arrays that were given."""
    draws = np.random.RandomState(1)
    found, slots = IdMap(), dict[int, int]()
    given: list[torch.Tensor] = []
    for _ in range(400):
        if given and draws.rand() < 0.6:
            ids = given[draws.randint(max(0, len(given) - 6), len(given))]
            if draws.rand() < 0.3:
                ids[draws.randint(len(ids))] = int(draws.randint(500))
        else:
            ids = torch.from_numpy(draws.randint(0, 500, int(draws.choice([1, 63, 64, 100]))))
            given.append(ids)
        if draws.rand() < 0.5:
            expected = [slots.get(one, -1) for one in ids.tolist()]
            seen, missing = found.find(ids)
            assert missing == expected.count(-1)
        else:
            expected = [slots.setdefault(one, len(slots)) for one in ids.tolist()]
            seen = found.add(ids)
        assert seen.tolist() == expected
        assert found.count == len(slots)


def test_equal_ids_are_one() -> None:
    ids, inverse = unique_ids(WIDE)
    assert ids[inverse].tolist() == WIDE.tolist()
    assert len(set(ids.tolist())) == len(ids) == 5


def test_rows_of_equal_ids_add_up() -> None:
    ids = torch.tensor([5, 3, 5, 5])
    found, sums = merge_ids(ids, torch.arange(8.0).view(4, 2))
    assert found.tolist() == [5, 3]
    assert sums.tolist() == [[10.0, 13.0], [2.0, 3.0]]


def test_each_id_has_one_server_and_few_move() -> None:
    ids = torch.arange(100_000)
    before = deal_ids(ids, owners_of(["a", "b", "c"]), 3)
    after = deal_ids(ids, owners_of(["a", "b", "c", "d"]), 4)
    assert sorted(torch.cat(before).tolist()) == ids.tolist()
    assert all(abs(len(part) / 100_000 - 1 / 3) < 0.08 for part in before)
    stayed = sum(
        len(np.intersect1d(old.numpy(), new.numpy()))
        for old, new in zip(before, after[:3], strict=True)
    )
    # Only what the new server has moved.
    assert stayed + len(after[3]) == 100_000


def test_rows_follow_from_ids_alone() -> None:
    ids = torch.tensor([9, 2**40, -3])
    for kind in ("uniform", "normal", "truncated"):
        draws = RowDraws(kind, -1.0, 2.0, seed=11)
        all_rows, reverse = torch.empty(3, 5), torch.empty(3, 5)
        draws.fill(ids, all_rows)
        draws.fill(ids.flip(0), reverse)
        assert torch.equal(all_rows, reverse.flip(0))
        other = torch.empty(3, 5)
        RowDraws(kind, -1.0, 2.0, seed=12).fill(ids, other)
        assert not (all_rows == other).any()


def test_draws_have_their_distribution() -> None:
    ids, out = torch.arange(20_000), torch.empty(20_000, 4)
    RowDraws("uniform", -1.0, 3.0, 5).fill(ids, out)
    assert out.min() >= -1.0
    assert out.max() < 3.0
    np.testing.assert_allclose([out.mean(), out.std()], [1.0, 4 / 12**0.5], atol=0.02)
    RowDraws("normal", 1.0, 2.0, 5).fill(ids, out)
    np.testing.assert_allclose([out.mean(), out.std()], [1.0, 2.0], atol=0.03)
    RowDraws("truncated", 1.0, 2.0, 5).fill(ids, out)
    assert (out - 1.0).abs().max() <= 4.0
    np.testing.assert_allclose(out.std(), 2.0 * 0.8796, atol=0.02)
    correlated = torch.corrcoef(out.T).fill_diagonal_(0).abs().max()
    assert correlated < 0.03


def test_ids_dealt_to_servers_are_those_of_the_steps_alone() -> None:
    draws = np.random.RandomState(4)
    for _ in range(40):
        servers = int(draws.randint(1, 12))
        owners = owners_of([f"s{number}" for number in range(servers)])
        count = int(draws.choice([0, 1, 2, 17, 300, 5000]))
        ids = torch.from_numpy(draws.randint(-50, 2 ** draws.randint(1, 62), count))
        value = torch.from_numpy(draws.randint(-9, 9, (count, 3))).double()
        dealt = DealtIds(ids.numpy(), owners, servers)
        merged, sums = merge_ids(ids, value)
        parts = list(enumerate(deal_ids(merged, owners, servers)))
        draws.shuffle(parts)  # whoever is asked for first
        for server, chosen in parts:
            asked, added = AskedIds(dealt, server), PartialSums(dealt, server, value.numpy())
            if draws.rand() < 0.5:
                assert asked.shape == (len(chosen),)
                mine = np.full(asked.shape, 77)
                asked.fill(mine)
                assert np.array_equal(mine, merged[chosen])
            assert (added.shape, added.dtype) == ((len(chosen), 3), np.float64)
            out = np.full(added.shape, 1e9)
            for _ in range(2):  # a call that is made again has them again
                added.fill(out)
                assert np.array_equal(out, sums[chosen])
        fresh, given = DealtIds(ids.numpy(), owners, servers), np.full((count, 1), 77)
        for server, chosen in parts:  # before its ids are asked for
            fresh.spread(server, merged[chosen].numpy()[:, None], given)
        assert np.array_equal(given[:, 0], ids)
        known = KnownRows(dealt, 3, "float64")
        for server in dealt.servers():
            part = np.empty((len(dealt.ids(server)), 3))
            PartialSums(dealt, server, value.numpy()).fill(part)
            for wrong in (part[:, :1], np.vstack([part, part[:1]]), part.astype("f4")):
                assert not len(part) or not known.put(server, wrong)
            assert known.put(server, part)
        _, where = unique_ids(ids)
        assert torch.equal(known.of(ids), merge_ids(ids, value)[1][where])
        assert dealt.is_of(ids.numpy().copy())
        for place in draws.randint(0, count, 3) if count else ():
            other = ids.numpy().copy()
            other[place] += 1
            assert not dealt.is_of(other)
