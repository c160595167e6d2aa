"""Training over emulated hosts: bytes, line rate, overlap, and a step beside DDP's.

    python -m benchmarks.collective            # 102 MB of gradients
    python -m benchmarks.collective --quick    # small, to see that it works
    python -m benchmarks.collective --record   # also into docs/scaling.md
    python -m benchmarks.collective --knobs    # a step by what users can set

Two hosts (network namespaces, 1 Gbit/s) with two trainers each, so it needs root and a machine that
nothing else uses. The exit status is 1 where bytes are not exactly those expected, or a target of
`TARGETS` is missed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.hosts import Hosts, allowed
from benchmarks.report import record
from benchmarks.scaling import Fit, checked, exposed, fitted, page

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "scaling.md"
HOSTS, EACH = 2, 2
LINE = 1e9 / 8
MEGA, DIGEST = 1 << 20, 32
# Ethernet, IP and TCP headers with timestamps, of 1448 bytes of data.
WIRE = 1538 / 1448
FULL = {"sizes": [1, 16, 102], "bucket": 16, "repeats": 5, "layers": 4, "width": 1024, "rows": 16}
FULL |= {"steps": 20, "naps": 0.06, "fuse": 4, "caps": [1, 4, 25]}
QUICK = {"sizes": [1, 4], "bucket": 2, "repeats": 2, "layers": 2, "width": 256, "rows": 4}
QUICK |= {"steps": 3, "naps": 0.01, "fuse": 0.25, "caps": [1]}
TARGETS = {"direct": 1.05, "by host": 1.2, "step": 0.95, "hidden": 0.6}


def expected(kind: str, size: int, bucket: int) -> int:
    """Bytes that a host's trainers send to the other host for an exchange of `size` megabytes.

    Directly each sends each other trainer its part twice, once to be summed and once summed; by
    host each exchanges an equal part with its counterparts. Each exchange begins with a digest.
    """
    count, others = HOSTS * EACH, (HOSTS - 1) * EACH
    total = 0
    for begin in range(0, size * MEGA, bucket * MEGA):
        data = min(bucket * MEGA, size * MEGA - begin)
        if kind == "direct":
            total += EACH * others * (2 * data // count + DIGEST)
        else:
            total += (HOSTS - 1) * (2 * data // HOSTS + EACH * DIGEST)
    return total


def measured(asked: dict[str, Any]) -> tuple[dict[str, Any], list[int]]:
    """What the first trainer found, and bytes that each host has sent in all."""
    with Hosts(HOSTS) as hosts:
        endpoints = [f"{one}:{6170 + at}" for one in hosts.addresses for at in range(EACH)]
        asked = {**asked, "hosts": [rank // EACH for rank in range(HOSTS * EACH)]}
        trainers = []
        for rank in range(HOSTS * EACH):
            told = {
                "PADDLE_TRAINER_ID": str(rank),
                "PADDLE_TRAINERS_NUM": str(HOSTS * EACH),
                "PADDLE_TRAINER_ENDPOINTS": ",".join(endpoints),
                "OMP_NUM_THREADS": "1",
                "GLOO_SOCKET_IFNAME": "eth0",
                "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}",
            }
            command = [sys.executable, "-m", "benchmarks.collective_trainer", json.dumps(asked)]
            trainers.append(
                hosts.start(rank // EACH, command, told, stdout=subprocess.PIPE, text=True)
            )
        said = [one.communicate(timeout=1800)[0] for one in trainers]
        if any(one.returncode for one in trainers):
            raise SystemExit(f"a trainer failed: {[one.returncode for one in trainers]}")
        return json.loads(said[0].splitlines()[-1]), [hosts.sent(one) for one in range(HOSTS)]


def judged(found: dict[str, Any], asked: dict[str, Any]) -> list[tuple[str, str, bool]]:
    """What was measured, as a person reads it, and whether it is as wanted."""
    rows = []
    for name, one in found["exchanges"].items():
        kind, _, size = name.rpartition(" ")
        bytes_wanted = expected(kind, int(size), asked["bucket"])
        own = bytes_wanted // EACH
        rows.append((f"{name} MB: bytes", f"{one['bytes']:,} of {own:,}", one["bytes"] == own))
        line = bytes_wanted * WIRE / LINE
        ratio = one["seconds"] / line
        largest = int(size) == max(asked["sizes"])
        text = f"{one['seconds'] * 1e3:,.1f} ms, {ratio:.2f} of line rate"
        rows.append((f"{name} MB: time", text, not largest or ratio <= TARGETS[kind]))
    cap, best = min(found["ddp"].items(), key=lambda one: one[1])
    ratio = found["refluid"] / best
    text = f"{found['refluid'] * 1e3:.1f} ms, DDP {best * 1e3:.1f} ms ({cap} MB): {ratio:.2f}"
    rows.append(("a step of the MLP", text, ratio <= TARGETS["step"]))
    exposed = found["one after the other"] - found["alone"]
    hidden = (found["one after the other"] - found["overlapped"]) / exposed
    text = f"{hidden:.0%} of {exposed * 1e3:.1f} ms hidden"
    rows.append(("exchanges beside a sleep", text, hidden >= TARGETS["hidden"]))
    return rows


def predicted(
    fit: Fit, found: dict[str, Any], asked: dict[str, Any]
) -> dict[str, tuple[float, float]]:
    """What the model says of these two hosts, and what was measured: none of it was fitted."""
    rows = {
        f"{name} MB": one for name, one in checked(fit, found["exchanges"], asked["bucket"]).items()
    }
    megabytes = asked["layers"] * asked["width"] ** 2 * 4 / MEGA
    takes = fit.exchange("by host", megabytes, HOSTS, EACH, asked["fuse"])
    for name, alone, measure, backward in (
        ("a step of the MLP", "computes", "refluid", 2 / 3),
        ("exchanges beside a sleep", "alone", "overlapped", 1.0),
        ("exchanges after a sleep", "alone", "one after the other", 0.0),
    ):
        computes = found[alone]
        late = exposed(takes, backward * computes, asked["fuse"] / megabytes)
        rows[name] = computes + late, found[measure]
    return rows


def by_knob(asked: dict[str, Any], *, recorded: bool) -> None:
    """Prints the time of a step of the MLP by each knob, and beside that without any."""
    found = measured({**asked, "knobs": True})[0]["knobs"]
    lines = ["| set | a step | of that without |", "|---|---|---|"]
    for name, seconds in found.items():
        lines.append(f"| {name} | {seconds * 1e3:.0f} ms | {seconds / found['none']:.2f} |")
    print("\n".join(lines))
    if recorded:
        record(PAGE, "knobs", "\n".join(lines))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small, to see that it works")
    parser.add_argument("--record", action="store_true", help="write docs/scaling.md's sections")
    parser.add_argument("--knobs", action="store_true", help="measure a step by each knob instead")
    options = parser.parse_args()
    if not allowed():
        print("hosts can't be emulated here: root, ip, tc and unshare are needed", file=sys.stderr)
        return 1
    asked = QUICK if options.quick else FULL
    if options.knobs:
        by_knob(asked, recorded=options.record)
        return 0
    found, sent = measured(asked)
    rows = judged(found, asked)
    for name, text, well in rows:
        print(f"{name:28} {text}{'' if well else '   MISSED'}")
    print(f"{'each host has sent':28} {', '.join(f'{one:,} bytes' for one in sent)} in all")
    fit = fitted(found["exchanges"], asked["bucket"])
    print(fit.told())
    for name, (says, seconds) in predicted(fit, found, asked).items():
        text = f"{says * 1e3:.1f} ms, measured {seconds * 1e3:.1f} ms: {says / seconds:.2f}"
        rows.append((f"{name}: predicted", text, True))
        print(f"{rows[-1][0]:36} {text}")
    if options.record:
        table = "\n".join(f"| {name} | {text} |" for name, text, _ in rows)
        record(PAGE, "measured", f"| measurement | result |\n|---|---|\n{table}")
        record(PAGE, "predicted", page(fit))
    exact = all(well for name, _, well in rows if name.endswith("bytes"))
    return 0 if exact and (options.quick or all(well for _, _, well in rows)) else 1


if __name__ == "__main__":
    sys.exit(main())
