"""Runs the public CTR scripts that train on servers of tables, unmodified, under `refluid run`.

python scripts/run_zoo_clusters.py CLONE [--only WORD] [--servers 1] [--trainers 2] [--into DIR]

CLONE is a clone of PaddlePaddle/models, as of `run_zoo.py`. Each script's processes get the small
data and the arguments that `zoo/clusters.py` names, once with calls through shared memory and once
by TCP (`--way`). A run counts where all processes end by themselves, and each trainer's loss falls.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from run_zoo import course_of, losses_seen, observed, verdict_of
from zoo.checkout import check_out
from zoo.clusters import CLUSTERS, ClusterRecipe

from refluid.core.ports import free_endpoints

WAYS = {"memory": "1", "tcp": "0"}


@dataclass(frozen=True)
class Member:
    """A process of a job: a server, or a trainer of this number."""

    role: str
    number: int
    addresses: tuple[str, ...]
    trainers: int

    @property
    def name(self) -> str:
        """What its log is called."""
        return f"{self.role}{self.number}"

    @property
    def arguments(self) -> list[str]:
        """Of scripts that are told their role so."""
        told = ["--role", self.role, "--endpoints", ",".join(self.addresses)]
        own = (
            ["--current_endpoint", self.addresses[self.number]]
            if self.role == "pserver"
            else ["--trainer_id", str(self.number)]
        )
        return [*told, *own, "--trainers", str(self.trainers)]

    @property
    def environment(self) -> dict[str, str]:
        """Of scripts whose fleet looks there."""
        host, port = self.addresses[self.number % len(self.addresses)].split(":")
        return {
            "TRAINING_ROLE": self.role.upper(),
            "PADDLE_PSERVERS_IP_PORT_LIST": ",".join(self.addresses),
            "PADDLE_TRAINERS_NUM": str(self.trainers),
            "PADDLE_TRAINER_ID": str(self.number),
            "POD_IP": host,
            "PADDLE_PORT": port,
        }


def main() -> int:
    options = _options()
    into = Path(options.into or tempfile.mkdtemp(prefix="zoo"))
    results = []
    for recipe in (one for one in CLUSTERS if options.only in one.name):
        for way in options.way or WAYS:
            began = time.perf_counter()
            results.append(came_of(recipe, way, options, into / f"{len(results)}"))
            taken = time.perf_counter() - began
            print(f"{recipe.name} by {way}: {results[-1]}; {taken:.0f} s", flush=True)
    good = sum(one.startswith("trains") for one in results)
    print(f"{good} of {len(results)} jobs train; files in {into}")
    return 0 if good == len(results) else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("clone", type=Path)
    parser.add_argument("--only", default="", help="scripts whose path has this in it")
    parser.add_argument("--way", action="append", choices=WAYS, help="how servers are called")
    parser.add_argument("--servers", type=int, default=1)
    parser.add_argument("--trainers", type=int, default=2)
    parser.add_argument("--into", help="the scratch folder (default: a new one)")
    parser.add_argument("--limit", type=int, default=300, help="seconds for each job")
    return parser.parse_args()


def came_of(recipe: ClusterRecipe, way: str, options: argparse.Namespace, root: Path) -> str:
    """Starts all processes of one script, and waits for them; what came of it."""
    (branch,) = recipe.branches
    check_out(options.clone, f"release/{branch}", [recipe.folder, *recipe.beside], root)
    where = root / recipe.folder
    recipe.prepare(where, options.trainers)
    members = list(_members(options.servers, options.trainers))
    with ExitStack() as logs:
        running = []
        for one in members:
            log = logs.enter_context(open(root / f"{one.name}.log", "w", encoding="utf-8"))
            running.append(_started(recipe, one, WAYS[way], where, root, log))
        failed = _failed(members, running, options.limit)
    if failed:
        return failed
    trainers = [one for one in members if one.role == "trainer"]
    seen = [losses_seen(recipe, root / f"{one.name}.log") for one in trainers]
    verdicts = [verdict_of(0, one, rises=recipe.rises) for one in seen]
    told = " and ".join(course_of(one) for one in seen)
    wrong = [one for one in verdicts if one != "trains"]
    return f"{(wrong or verdicts)[0]}; {told}{' (AUC)' * recipe.rises}"


def _failed(members: list[Member], running: list[subprocess.Popen[bytes]], limit: float) -> str:
    """Waits until all have ended, and says what failed. Servers go on while trainers may come back,
    so what trainers failed with counts where not all end in time."""
    deadline = time.monotonic() + limit
    try:
        for one in running:
            one.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        pass
    found = [one.poll() for one in running]
    for one in running:
        one.kill()
        one.wait()
    failed = [f"{one.name} ends with {rc}" for one, rc in zip(members, found, strict=True) if rc]
    return ", ".join(failed) or ("out of time" if None in found else "")


def _started(
    recipe: ClusterRecipe, member: Member, near: str, where: Path, root: Path, log: object
) -> subprocess.Popen[bytes]:
    command = shlex.join([*shlex.split(recipe.train), *(member.arguments if recipe.told else [])])
    words, environment = observed(recipe, command, root / member.name)
    environment |= {"FLAGS_refluid_near_sockets": near}
    if not recipe.told:
        environment |= member.environment
    return subprocess.Popen(
        words,
        cwd=where,
        env=environment,
        stdout=log,  # type: ignore[arg-type]
        stderr=subprocess.STDOUT,
    )


def _members(servers: int, trainers: int) -> Iterator[Member]:
    addresses = tuple(free_endpoints(servers))
    for number in range(servers):
        yield Member("pserver", number, addresses, trainers)
    for number in range(trainers):
        yield Member("trainer", number, addresses, trainers)


if __name__ == "__main__":
    sys.exit(main())
