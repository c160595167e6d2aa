"""Ids of any size as compiled code: hash maps of them, duplicates, random numbers that follow.

`ids.py` and `draws.py` are the interface. An id is an int64; a hash map is `keys` and `slots`,
int64 and int32 arrays of one length, a power of two; a slot of -1 marks a place that is free.
Places that are read from memory index arrays as uint64: of numbers with a sign each use would ask
whether it counts from the end.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from refluid.kernels.compiled import compiled
from refluid.kernels.rows.prefetch import ask_for

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_S27, _S30, _S31 = np.uint64(27), np.uint64(30), np.uint64(31)
_S11, _S48 = np.uint64(11), np.uint64(48)
_ONE = np.uint64(1)
_UNIT = 1.0 / 9007199254740992.0  # 2**-53
_TURN = 2.0 * np.pi
# For so many servers ids are put in order one server after the other.
_FEW = 8
# So many ids ahead of the one in use: the time that memory takes, in ids.
_AHEAD = 64


@compiled
def mixed(number: Any) -> Any:
    """A uint64 with all bits stirred: the finaliser of SplitMix64, which loses nothing."""
    number = (number ^ (number >> _S30)) * _FIRST
    number = (number ^ (number >> _S27)) * _SECOND
    return number ^ (number >> _S31)


@compiled
def first_places(ids: Any, size: Any, out: Any) -> None:
    """out[i] = where ids[i] is looked for first in a map of that size."""
    # By itself, for processors stir several ids at a time.
    for i in range(ids.shape[0]):
        out[i] = np.int64(mixed(np.uint64(ids[i]))) & (size - 1)


@compiled
def place_of(keys: Any, slots: Any, key: Any, place: Any) -> Any:
    """Where in the map an id is, or where it would be put; `place`, uint64, is its first one."""
    while slots[place] >= 0 and keys[place] != key:
        place = (place + _ONE) & np.uint64(slots.shape[0] - 1)
    return place


@compiled
def find(keys: Any, slots: Any, ids: Any, out: Any) -> Any:
    """out[i] = the slot of ids[i], -1 where the map lacks it; how many it lacks."""
    missing, last = 0, ids.shape[0] - 1
    first_places(ids, slots.shape[0], out)
    for i in range(ids.shape[0]):
        following = out[min(i + _AHEAD, last)]
        ask_for(slots, following)
        ask_for(keys, following)
        slot = slots[place_of(keys, slots, ids[i], np.uint64(out[i]))]
        out[i] = slot
        missing += slot < 0
    return missing


@compiled
def add(keys: Any, slots: Any, ids: Any, start: Any, out: Any) -> Any:
    """As `find`, but an id that is not there gets the next slot from `start` on; the next one.

    The map must have room: no more than half of it taken afterwards.
    """
    last = ids.shape[0] - 1
    first_places(ids, slots.shape[0], out)
    for i in range(ids.shape[0]):
        following = out[min(i + _AHEAD, last)]
        ask_for(slots, following)
        ask_for(keys, following)
        place = place_of(keys, slots, ids[i], np.uint64(out[i]))
        if slots[place] < 0:
            keys[place] = ids[i]
            slots[place] = start
            start += 1
        out[i] = slots[place]
    return start


@compiled
def place_among(known: Any, slots: Any, key: Any, place: Any) -> Any:
    """As `place_of`, of a map without keys: its slots are places in `known`, where they are."""
    while slots[place] >= 0 and known[np.uint64(slots[place])] != key:
        place = (place + _ONE) & np.uint64(slots.shape[0] - 1)
    return place


@compiled
def unique(slots: Any, ids: Any, found: Any, inverse: Any) -> Any:
    """found: each id once, in the order in which they come; ids[i] == found[inverse[i]].

    slots: of a map without keys, which are in `found`; empty, with room. How many different ones
    there are.
    """
    count = np.uint64(0)
    first_places(ids, slots.shape[0], inverse)
    for i in range(ids.shape[0]):
        place = place_among(found, slots, ids[i], np.uint64(inverse[i]))
        if slots[place] < 0:
            slots[place] = count
            found[count] = ids[i]
            count += _ONE
        inverse[i] = slots[place]
    return np.int64(count)


@compiled
def add_up(inverse: Any, value: Any, sums: Any) -> None:
    """sums[inverse[i]] += value[i]; `sums` are zeros before."""
    count, width = value.shape
    for i in range(count):
        row = np.uint64(inverse[i])
        for column in range(width):
            sums[row, column] += value[i, column]


@compiled
def in_order_of_servers(owner: Any, following: Any, begins: Any, order: Any) -> None:
    """order: positions server by server, ascending; server s has begins[s] to begins[s + 1].

    It has room for one more than there are. To work with: following, as begins.
    """
    total, servers = owner.shape[0], begins.shape[0] - 1
    if servers <= _FEW:  # so often without anything to wait for: no number in memory is counted on
        place = np.uint64(0)
        for server in range(servers):
            begins[server] = place
            for i in range(total):
                order[place] = i
                place += np.uint64(owner[i] == server)
        begins[servers] = place
        return
    for server in range(servers + 1):
        begins[server] = 0
    for i in range(total):
        begins[np.uint64(owner[i] + 1)] += 1
    for server in range(servers):
        begins[server + 1] += begins[server]
        following[server] = begins[server]
    for i in range(total):
        own = np.uint64(owner[i])
        order[np.uint64(following[own])] = i
        following[own] += 1


@compiled
def deal(
    given: Any, owners: Any, ids: Any, chosen: Any, following: Any, begins: Any, order: Any
) -> None:
    """ids[i] = given[i]; order, begins: as of `in_order_of_servers`.

    owners: the server of each of 65536 parts that ids fall into by their upper bits, stirred. To
    work with: chosen, int16 as long as the ids, and following, as begins.
    """
    # In two loops, for processors stir several ids at a time but read one owner after the other.
    for i in range(given.shape[0]):
        ids[i] = given[i]
        chosen[i] = mixed(np.uint64(given[i])) >> _S48
    for i in range(given.shape[0]):
        chosen[i] = owners[np.uint64(np.uint16(chosen[i]))]
    in_order_of_servers(chosen, following, begins, order)


@compiled
def unique_part(ids: Any, order: Any, slots: Any, found: Any, inverse: Any) -> Any:
    """`unique` of the ids at `order`: ids[i] == found[inverse[i]] for each i there.

    slots: to work with, a power of two with room.
    """
    for place in range(slots.shape[0]):
        slots[place] = -1
    count = np.uint64(0)
    for k in range(order.shape[0]):
        i = np.uint64(order[k])
        first = mixed(np.uint64(ids[i])) & np.uint64(slots.shape[0] - 1)
        place = place_among(found, slots, ids[i], first)
        if slots[place] < 0:
            slots[place] = count
            found[count] = ids[i]
            count += _ONE
        inverse[i] = slots[place]
    return np.int64(count)


@compiled
def spread_part(order: Any, inverse: Any, rows: Any, out: Any) -> None:
    """out[i] = rows[inverse[i]] for each i in `order`: those of a server."""
    width = rows.shape[1]
    for k in range(order.shape[0]):
        i = np.uint64(order[k])
        row = np.uint64(inverse[i])
        for column in range(width):
            out[i, column] = rows[row, column]


@compiled
def add_up_part(order: Any, inverse: Any, value: Any, sums: Any) -> None:
    """sums[inverse[i]] = the sum of value[i] for each i in `order`, as they come.

    Each is set by its first value: there need be no zeros before.
    """
    known, width = np.uint64(0), value.shape[1]
    for k in range(order.shape[0]):
        i = np.uint64(order[k])
        row = np.uint64(inverse[i])
        if row == known:
            known += _ONE
            for column in range(width):
                sums[row, column] = value[i, column]
        else:
            for column in range(width):
                sums[row, column] += value[i, column]


@compiled
def draw(seed: Any, key: Any, number: Any) -> Any:
    """The uniform number in [0, 1) of that place: it follows from seed, id and place alone."""
    start = mixed(np.uint64(key) + seed)
    bits = mixed(start + _GOLDEN * (np.uint64(number) + _ONE))
    return np.float64(bits >> _S11) * _UNIT


@compiled
def draw_uniform(seed: Any, ids: Any, low: Any, high: Any, out: Any) -> None:
    """out[i] = numbers of the row ids[i], evenly from [low, high)."""
    for i in range(ids.shape[0]):
        for column in range(out.shape[1]):
            out[i, column] = low + (high - low) * draw(seed, ids[i], column)


@compiled
def draw_normal(seed: Any, ids: Any, mean: Any, std: Any, most: Any, out: Any) -> None:
    """out[i] = normal numbers of the row ids[i]; drawn anew if over `most` deviations off."""
    width = out.shape[1]
    for i in range(ids.shape[0]):
        for column in range(width):
            place = column
            while True:
                one = 1.0 - draw(seed, ids[i], 2 * place)
                other = draw(seed, ids[i], 2 * place + 1)
                value = np.sqrt(-2.0 * np.log(one)) * np.cos(_TURN * other)
                if abs(value) <= most:
                    break
                place += width
            out[i, column] = mean + std * value
