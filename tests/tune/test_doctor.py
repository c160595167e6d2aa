"""`refluid doctor` tells what is wrong with a machine, and nothing where all is well."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from refluid.cli.main import app
from refluid.measure.link import LinkRates, measure_link
from refluid.tune.doctor.checks import CHECKS, told
from refluid.tune.doctor.gpus import found_gpu
from refluid.tune.doctor.host import Host, read_host
from refluid.tune.doctor.load import LoadByOthers, found_load, measure_load
from refluid.tune.doctor.network import found_interfaces, found_link
from refluid.tune.doctor.rates import Rates, found_rates

GB = 10**9
WELL = Host(
    model="a processor",
    cores=8,
    quota=0.0,
    instructions=("avx512f", "avx2"),
    used="AVX512",
    threads=8,
    memory=64 * GB,
    available=60 * GB,
    limit=0,
    swapped=0,
    huge_pages="madvise",
    numa_nodes=1,
    governors=frozenset({"performance"}),
    mapped=frozenset({"libc.so.6"}),
    environment={},
)
# What is wrong, the topic that tells it, and a word of what to do.
WRONG = {
    "more threads than cores": ({"threads": 16}, "threads", "OMP_NUM_THREADS=8"),
    "a quota below the threads": ({"quota": 2.5}, "threads", "OMP_NUM_THREADS=2"),
    "threads by the environment": (
        {"threads": 1, "environment": {"OMP_NUM_THREADS": "1"}},
        "threads",
        "unset",
    ),
    "instructions forbidden": (
        {"environment": {"ONEDNN_MAX_CPU_ISA": "AVX2"}},
        "instructions",
        "ONEDNN_MAX_CPU_ISA=AVX2",
    ),
    "instructions unused": ({"used": "AVX2"}, "instructions", "AVX512"),
    "no huge pages": ({"huge_pages": "never"}, "huge pages", "transparent_hugepage"),
    "several nodes": ({"numa_nodes": 2}, "NUMA", "numactl"),
    "a late clock": ({"governors": frozenset({"powersave"})}, "clock", "performance"),
    "little memory": ({"available": 3 * GB}, "memory", "end other processes"),
    "little memory in the group": (
        {"limit": 100 * GB, "available": 9 * GB},
        "memory",
        "end other processes",
    ),
    "swapped": ({"swapped": 20 * GB}, "memory", "swapped"),
}


def test_a_good_machine_has_nothing_to_mend() -> None:
    findings = list(told(WELL))
    assert len(findings) == len(CHECKS)
    assert [one.topic for one in findings if not one.is_well and one.topic != "C++ compiler"] == []


@pytest.mark.parametrize("case", WRONG.values(), ids=WRONG.keys())
def test_what_is_wrong_is_told(case: tuple[dict[str, object], str, str]) -> None:
    changes, topic, word = case
    found = {one.topic: one for one in told(replace(WELL, **changes))}  # type: ignore[arg-type]
    assert word in found[topic].advice
    others = {name for name, one in found.items() if not one.is_well} - {topic, "C++ compiler"}
    assert not others


def test_facts_are_read_from_the_system(tmp_path: Path) -> None:
    files = {
        "proc/cpuinfo": "model name\t: Some CPU @ 2 GHz\nflags\t\t: fpu avx2 avx512f amx_bf16\n",
        "proc/self/maps": "7f00-7f01 r-xp 0 00:00 0   /usr/lib/libjemalloc.so.2\n",
        "sys/fs/cgroup/cpu.max": "150000 100000\n",
        "sys/fs/cgroup/memory.max": "1000000\n",
        "sys/kernel/mm/transparent_hugepage/enabled": "always madvise [never]\n",
        "sys/devices/system/node/node0/x": "",
        "sys/devices/system/node/node1/x": "",
        "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "powersave\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    host = read_host(tmp_path)
    assert (host.model, host.instructions) == ("Some CPU @ 2 GHz", ("amx_bf16", "avx512f", "avx2"))
    assert (host.quota, host.limit, host.huge_pages, host.numa_nodes) == (1.5, 10**6, "never", 2)
    assert (host.governors, host.mapped) == ({"powersave"}, {"libjemalloc.so.2"})


def test_a_system_that_tells_nothing(tmp_path: Path) -> None:
    host = read_host(tmp_path)
    assert (host.quota, host.limit, host.huge_pages, host.numa_nodes) == (0.0, 0, "", 1)
    assert list(told(host))


def test_load_of_others() -> None:
    found = measure_load(0.2)
    assert 0 <= found.others <= 1 and 0 <= found.stolen <= 1
    assert found_load(LoadByOthers(0.02, 0.0)).is_well
    assert "fewer" in found_load(LoadByOthers(0.4, 0.0)).advice
    assert "other virtual machines" in found_load(LoadByOthers(0.0, 0.2)).fact


def test_threads_that_gain_nothing() -> None:
    one, four = Rates(1, 1e10, 1e11, 1e11), Rates(4, 2e10, 1.2e11, 2.4e11)
    found = {one.topic: one for one in found_rates([one, four])}
    assert "second threads" in found["scaling"].advice
    assert "pays here" in found["bfloat16"].fact
    assert "scaling" not in {one.topic for one in found_rates([one, four], loaded=True)}
    good = replace(four, full=3.9e11)
    assert "scaling" not in {one.topic for one in found_rates([one, good])}


def test_gpus() -> None:
    told_by = ["300", "1980", "0x0000000000000040", "Disabled"]
    advice = found_gpu("X", 10 * GB, 80 * GB, told_by).advice
    assert "hold its memory" in advice and "slows itself" in advice and "-pm 1" in advice
    assert found_gpu("X", 79 * GB, 80 * GB, ["1980", "1980", "0x0", "Enabled"]).is_well
    assert found_gpu("X", 79 * GB, 80 * GB, None).is_well


def test_links() -> None:
    assert not found_interfaces({"lo": ("127.0.0.1", 0)}).is_well
    both = found_interfaces({"lo": ("127.0.0.1", 0), "eth0": ("192.0.2.1", 10000)})
    assert both.is_well and "eth0 192.0.2.1 10 Gbit/s" in both.fact
    assert found_link(LinkRates(2e9, 1e-4)).is_well
    assert not found_link(LinkRates(2e7, 1e-4)).is_well


@pytest.mark.slow
def test_two_processes_exchange() -> None:
    rates = measure_link()
    assert 1e6 < rates.bandwidth < 1e12
    assert 1e-7 < rates.latency < 10


def test_command() -> None:
    ran = CliRunner().invoke(app, ["doctor", "--quick", "--json"])
    assert ran.exit_code == 0, ran.output
    topics = [one["topic"] for one in json.loads(ran.output)]
    assert {"threads", "instructions", "memory", "load", "GPU"} <= set(topics)
    assert "gloo" not in topics
    text = CliRunner().invoke(app, ["doctor", "--quick"])
    assert "to mend" in text.output and "threads" in text.output
