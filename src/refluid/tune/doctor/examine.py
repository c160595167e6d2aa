"""All that `refluid doctor` looks at, in the order in which it is told."""

from __future__ import annotations

from collections.abc import Iterator

from refluid.tune.doctor.checks import told
from refluid.tune.doctor.gpus import check_gpus
from refluid.tune.doctor.host import Host
from refluid.tune.doctor.load import found_load, measure_load
from refluid.tune.doctor.network import check_network
from refluid.tune.doctor.rates import found_rates, measure_rates
from refluid.tune.doctor.sign import Sign


def examine(host: Host, *, measuring: bool = True) -> Iterator[Sign]:
    """Each as it is known. measuring: rates and links too, which takes some seconds."""
    yield from told(host)
    load = measure_load()
    yield found_load(load)
    yield from check_gpus()
    if measuring:
        yield from found_rates(measure_rates(sorted({1, host.threads})), loaded=load.is_heavy)
        yield from check_network()
