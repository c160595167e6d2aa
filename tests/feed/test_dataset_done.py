"""`Done` against a plain set of rows."""

from __future__ import annotations

import itertools
import json
import random

from refluid.feed.text_datasets.done import Done, Span


def test_intervals_are_the_rows_that_were_added() -> None:
    source = random.Random(0)
    for _ in range(200):
        done, rows = Done(), set()
        for _ in range(source.randint(0, 12)):
            start = source.randint(0, 30)
            stop = start + source.randint(1, 6)
            done.add([Span(0, start, stop), Span(1, 0, 1)])
            rows.update(range(start, stop))
        again = Done.load(json.loads(json.dumps(done.state())))
        for one in (done, again):
            left = [row for part in one.left(0, 3, 33) for row in range(*part)]
            assert left == [row for row in range(3, 33) if row not in rows]
            first = next(row for row in range(40) if row not in rows)
            assert one.first_open(0) == first
            assert one.state() == done.state()
        intervals = [part for part in done.state()["done"] if part[0] == 0]
        assert all(a[2] < b[1] for a, b in itertools.pairwise(intervals))


def test_a_file_is_complete_once_its_end_is_known() -> None:
    done = Done()
    done.add([Span(0, 0, 5)])
    assert not done.complete(0)
    done.note_end(0, 6)
    assert not done.complete(0)
    done.add([Span(0, 5, 6)])
    assert done.complete(0) and not done.complete(1)
    done.note_end(1, 0)
    assert done.complete(1)
    assert (done.batches, done.rows) == (2, 6)
