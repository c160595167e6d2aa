"""Servers come and go at random moments of a job: each update counts once, each row is once."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from refluid.core.errors import EnforceNotMet
from refluid.core.ports import free_endpoints
from refluid.core.selected_rows import SelectedRows
from refluid.pserver import conducting, elastic
from refluid.pserver.asking import ask_for_change
from refluid.pserver.calling import Servers
from refluid.pserver.changing import ChangeStep, ServerChange
from refluid.pserver.elastic import join
from refluid.pserver.layout import JobLayout, TrainingMode, described
from refluid.pserver.lookout import present_layout
from refluid.pserver.membership import at_address, with_server
from refluid.pserver.messages import Kind, TableMessage, text_array
from refluid.pserver.table_client import TableClient
from tests.pserver.changing import ChangingJob, ServerThread, changing_job

IDS = torch.arange(400) * 7919 - 10**6
STEPS = 60


class CountingTrainer(threading.Thread):
    """Pushes ones for all ids and for `w`, so many times; sometimes it looks rows up."""

    def __init__(self, client: TableClient, seed: int, *, delta: bool) -> None:
        super().__init__(daemon=True)
        self._client, self._draws = client, np.random.RandomState(seed)
        self._delta, self.error = delta, None
        self.steps = 0

    def run(self) -> None:
        names = ("emb", "w") if self._delta else ("emb@GRAD", "w@GRAD")
        rows = SelectedRows(IDS, 1000, torch.ones(len(IDS), 4))
        given = dict(zip(names, (rows, torch.ones(3, 1)), strict=True))
        try:
            for _ in range(STEPS):
                if self._draws.rand() < 0.3:
                    self._client.rows("emb", IDS)
                if self._draws.rand() < 0.3:
                    self._client.push_and_pull(given, {"emb": IDS}, delta=self._delta)
                else:
                    self._client.push(given, delta=self._delta)
                self.steps += 1
                time.sleep(self._draws.choice([0.0, 0.01]))
        except BaseException as error:
            self.error = error


def change(job: ChangingJob, draws: np.random.RandomState) -> str:
    """One server comes, goes, is lost for good, or is killed and begins again."""
    there = sorted(job.servers)
    what = str(draws.choice(["add", "remove", "lose", "restart"]))
    if what == "add" and len(there) < 5:
        job.add()
    elif what == "restart":
        job.restart(int(draws.choice(there)))
    elif len(there) > 1:
        job.remove(int(draws.choice(there)), lost=what == "lose")
    return what


def run(mode: TrainingMode, seed: int, folder: Path, changes: int) -> Any:
    draws = np.random.RandomState(seed)
    with changing_job(mode, 2, folder, logs=True) as job:
        # They beat, as trainers of a job do: who is done early still hears where servers are.
        clients = [job.client(number, beats=0.1) for number in range(2)]
        delta = mode == TrainingMode.GEO
        trainers = [
            CountingTrainer(one, seed + number, delta=delta) for number, one in enumerate(clients)
        ]
        for one in trainers:
            one.start()
        made = []
        for _ in range(changes):
            time.sleep(draws.uniform(0.0, 0.3))
            made.append(change(job, draws))
        for one in trainers:
            one.join(120)
        assert [one.error for one in trainers] == [None, None]
        assert [one.steps for one in trainers] == [STEPS, STEPS], "trainers hang"
        rows, w = clients[0].rows("emb", IDS), clients[0].pull()["w"]
        for one in clients:
            one.leave()
        held = sorted(one for ids in job.tables().values() for one in ids)
        assert held == IDS.tolist(), "a row is on no server, or on two"
        return made, torch.cat([rows.flatten(), w.flatten()]).unique().tolist()


TOTAL = {TrainingMode.SYNC: -STEPS, TrainingMode.ASYNC: -2 * STEPS, TrainingMode.GEO: 2 * STEPS}


@pytest.mark.parametrize("mode", TOTAL, ids=lambda one: one.name)
def test_each_update_counts_once(mode: TrainingMode, tmp_path: Path) -> None:
    made, found = run(mode, 3 + mode, tmp_path, 4)
    assert found == [TOTAL[mode]], made


def test_a_server_is_let_in_by_the_wish_of_a_process_before_it(tmp_path: Path) -> None:
    """That was killed as it came; the same server, started again, answers in its stead."""
    with changing_job(TrainingMode.ASYNC, 1, tmp_path) as job:
        client, (address,) = job.client(0), free_endpoints(1)
        client.push({"emb@GRAD": SelectedRows(IDS.tolist(), 0, torch.ones(len(IDS), 4))})
        told: list[Any] = []

        def wish() -> None:
            told.append(ask_for_change(job.addresses, {"add": address}, 7))

        first = threading.Thread(target=wish)
        first.start()
        while not job.servers[0].deciding._one.locked():
            time.sleep(0.01)
        job.servers[2] = ServerThread(job, address, 2, joins=True)
        first.join(30)
        assert told and told[0]["moved"] > 0
        client.push({"emb@GRAD": SelectedRows(IDS.tolist(), 0, torch.ones(len(IDS), 4))})
        assert sorted(client.layout.numbers) == [0, 1, 2]
        assert client.rows("emb", IDS).unique().tolist() == [-2.0]
        assert sorted(one for ids in job.tables().values() for one in ids) == sorted(IDS.tolist())
        with pytest.raises(EnforceNotMet, match="is server 1 already"):
            ask_for_change(job.addresses, {"add": job.addresses[1]}, 9)


def dies_once_it_has_changed(one: ServerThread, asked: ChangeStep) -> None:
    """Has a server die as it decides about a change: asked this itself, before the others are."""
    reach = one.deciding._reach

    def reached(addresses: Sequence[str]) -> Servers:
        servers = reach(addresses)
        ask = servers.ask

        def until_then(messages: Mapping[int, TableMessage], *given: Any) -> Any:
            if one.ended.is_set():
                raise EnforceNotMet("who would ask was killed")
            found = ask(messages, *given)
            if any(message.values().get("step") == asked for message in messages.values()):
                one.kill()
                raise EnforceNotMet("who asked was killed")
            return found

        servers.ask = until_then
        return servers

    one.deciding._reach = reached


@pytest.mark.parametrize("elsewhere", [False, True], ids=["there", "elsewhere"])
@pytest.mark.parametrize("step", [ChangeStep.COMMIT, ChangeStep.PREPARE])
def test_a_server_is_let_in_though_who_decided_it_dies(
    step: ChangeStep, elsewhere: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Begun again, the first server knows already of the one that comes, and refuses its wish.

    Dead before, it knows nothing, and lets it in by that wish. Elsewhere, it is found by a file.
    """
    monkeypatch.setattr(conducting, "_SILENT", 0.5)
    monkeypatch.setattr(elastic, "_HEARS", 0.0)  # it is frozen, so it waits longer
    monkeypatch.setenv("REFLUID_SERVER_ADDRESSES", str(tmp_path / "addresses"))
    with changing_job(TrainingMode.ASYNC, 1, tmp_path, logs=True) as job:
        client = job.client(0)
        client.push({"emb@GRAD": SelectedRows(IDS.tolist(), 0, torch.ones(len(IDS), 4))})
        first = job.servers[0]
        dies_once_it_has_changed(first, step)
        coming = threading.Thread(target=job.add, daemon=True)
        coming.start()
        first.ended.wait(30)
        job.restart(0, free_endpoints(1)[0] if elsewhere else None)
        there = [job.servers[number].address for number in (0, 1)]
        (tmp_path / "addresses").write_text("\n".join(there))
        knows = job.servers[0].server.layout.numbers
        assert knows == ((0, 1, 2) if step == ChangeStep.COMMIT else (0, 1))
        coming.join(30)
        assert 2 in job.servers and not job.servers[2].server.joins
        client.push({"emb@GRAD": SelectedRows(IDS.tolist(), 0, torch.ones(len(IDS), 4))})
        assert client.layout.numbers == (0, 1, 2)
        assert client.rows("emb", IDS).unique().tolist() == [-2.0]
        assert sorted(one for ids in job.tables().values() for one in ids) == sorted(IDS.tolist())


def freezing(target: JobLayout) -> TableMessage:
    """What the first server tells the second one."""
    told = {"step": ChangeStep.FREEZE, "layout": described(target), "decider": 0, "number": 1}
    return TableMessage(Kind.CHANGE, session=5, job=target.job, arrays=[text_array(told)])


def test_a_change_that_is_begun_anew_is_not_ended_by_what_was_so_before(tmp_path: Path) -> None:
    """The one who decides is begun again: it says that it changes nothing, and then it does."""
    with changing_job(TrainingMode.ASYNC, 1, tmp_path) as job:
        one, layout = job.servers[1], job.split.layout
        message = freezing(with_server(layout, "127.0.0.1:9"))
        says = one.deciding._keeper_says

        def overtaken(change: ServerChange) -> Any:
            found = says(change)
            one.server.answer(message)
            return found

        one.server.answer(message)
        one.ended.set()  # no other thread follows
        one._thread.join()
        for keeper_says, frozen in ((overtaken, True), (says, False)):
            one.deciding._keeper_says = keeper_says
            one.changing.change.heard = -1e9
            one.deciding.follow()
            assert one.server.frozen == frozen


def test_a_change_that_is_begun_anew_has_servers_where_they_are_then(tmp_path: Path) -> None:
    with changing_job(TrainingMode.ASYNC, 1, tmp_path) as job:
        one, layout, more = job.servers[1], job.split.layout, "127.0.0.1:9"
        for target in (with_server(layout, more), with_server(at_address(layout, 0, "h:1"), more)):
            one.server.answer(freezing(target))
            assert one.changing.change.target == target
            one.changing.change.heard = -1e9
            one.server.answer(freezing(target))  # by another connection
            assert time.monotonic() - one.changing.change.heard < 60.0


@pytest.mark.parametrize("other", [False, True])
def test_a_server_that_comes_isnt_taken_for_another_one_that_came(
    other: bool, tmp_path: Path
) -> None:
    """The first change was given up, of which the one that was to come heard nothing."""
    with changing_job(TrainingMode.ASYNC, 1, tmp_path) as job:
        mine, others = free_endpoints(2)
        server, deciding = job.servers[1].server, job.servers[1].deciding
        target = with_server(server.layout, mine)
        now = with_server(server.layout, others) if other else target
        with server.changed:
            server.joins, server.number, server.frozen = True, 2, True
            change = deciding._changing.change = ServerChange(9, target, 0, time.monotonic())
        deciding._end_as(change, change.heard, {"change": None, "about": described(now)})
        assert deciding._changing.change is None and not server.frozen
        assert server.joins == other and (server.layout.epoch == target.epoch) != other


def test_a_server_that_is_refused_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elastic, "_HEARS", 0.5)
    with changing_job(TrainingMode.ASYNC, 1, tmp_path) as job:
        one, begun = job.servers[1], time.monotonic()
        one.server.joins = True
        with pytest.raises(EnforceNotMet, match="is server 1 already"):
            join(one.server, job.addresses[:1], one.address, one.deciding.follow)
        assert 0.4 < time.monotonic() - begun < 30.0


def test_calls_that_another_thread_overtook_are_dealt_anew(tmp_path: Path) -> None:
    with changing_job(TrainingMode.ASYNC, 1, tmp_path) as job:
        client, dealt = job.client(0), list[int]()

        def asked(layout: JobLayout) -> Any:
            dealt.append(layout.epoch)
            if len(dealt) == 1:
                job.add()
                job.remove(0)
                client.adopt(present_layout(job.addresses, 10.0))
            return client.servers.ask(
                {one: client.message(Kind.STATE, layout) for one in layout.numbers}
            )

        assert sorted(client.steadily(asked)) == [1, 2]
        assert dealt == [0, 2]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("mode", TOTAL, ids=lambda one: one.name)
def test_each_update_counts_once_in_many_jobs(
    mode: TrainingMode, seed: int, tmp_path: Path
) -> None:
    made, found = run(mode, 100 + seed, tmp_path, 8)
    assert found == [TOTAL[mode]], made
