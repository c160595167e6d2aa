"""What each worker of the test of combined options does."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from typing import Any

import refluid.fluid as fluid
from refluid.core.errors import EnforceNotMet
from refluid.paddle.distributed import fleet
from tests.collective import fleets


def reducing() -> Any:
    """Reduce mode: each worker updates the parameters that it owns."""
    options = fluid.BuildStrategy()
    options.reduce_strategy = options.ReduceStrategy.Reduce
    return options


# name: the optimizers it goes with ("" for any), fields of the strategy.
OPTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "amp": ("", {"amp": True, "amp_configs": {"init_loss_scaling": 8.0}}),
    "recompute": ("", {"recompute": True, "recompute_configs": {"checkpoints": ["fc_0.tmp_4"]}}),
    "merge": ("", {"gradient_merge": True, "gradient_merge_configs": {"k_steps": 2}}),
    "lars": ("momentum", {"lars": True}),
    "lamb": ("adam", {"lamb": True}),
    "dgc": ("momentum", {"dgc": True, "dgc_configs": {"rampup_begin_step": 100}}),
    "localsgd": ("", {"localsgd": True}),
    "adaptive": ("", {"adaptive_localsgd": True}),
    "stage 1": ("", {"sharding": True, "sharding_configs": {"stage": 1}}),
    "stage 2": ("", {"sharding": True, "sharding_configs": {"stage": 2}}),
    "stage 3": ("", {"sharding": True, "sharding_configs": {"segment_broadcast_MB": 0.0001}}),
    "16 bits": ("", {"fp16_allreduce": True}),
    "hierarchical": (
        "",
        {"use_hierarchical_allreduce": True, "hierarchical_allreduce_inter_nranks": 2},
    ),
    "buckets": (
        "",
        {"fuse_grad_size_in_MB": 1, "_fuse_grad_size_in_TFLOPS": 2, "nccl_comm_num": 2},
    ),
    "reduce": ("", {"build_strategy": reducing()}),
    "sync norm": ("", {"sync_batch_norm": True}),
}
OPTIMIZERS = {"momentum": fleets.MOMENTUM, "adam": fleets.ADAM, "clipped": fleets.CLIPPED}


Combination = tuple[str, tuple[str, ...]]
_ALONE = ("localsgd", "adaptive"), ("stage 1", "stage 2", "stage 3")  # of each one at most
_EXCLUDED = {
    *(frozenset(pair) for pair in itertools.combinations(("lars", "lamb", "dgc"), 2)),
    *(frozenset(pair) for several in _ALONE for pair in itertools.combinations(several, 2)),
    *(frozenset((one, other)) for one in ("dgc", *_ALONE[0]) for other in ("merge", *_ALONE[1])),
    *(frozenset(("dgc", one)) for one in _ALONE[0]),
}


def outcome(optimizer: str, names: Sequence[str]) -> Any:
    """What was trained with these options, or the error."""
    fields: dict[str, Any] = {}
    for name in names:
        fields |= OPTIONS[name][1]
    try:
        return fleets.train(OPTIMIZERS[optimizer], fields)
    except (ValueError, NotImplementedError, EnforceNotMet) as error:
        return f"{type(error).__name__}: {error}"


def outcomes(several: list[Combination]) -> list[Any]:
    """The outcome of each combination."""
    fleet.init(is_collective=True)
    return [outcome(*one) for one in several]


def excluded(names: Sequence[str]) -> list[tuple[str, str]]:
    """The pairs among these of which a fleet trains by one only."""
    return [pair for pair in itertools.combinations(names, 2) if frozenset(pair) in _EXCLUDED]


def optimizers_for(names: Sequence[str]) -> list[str]:
    """The optimizers that go with all of these."""
    asked = {OPTIONS[one][0] for one in names} - {""}
    return [sorted(asked)[0]] if asked else [*OPTIMIZERS]


def pairs() -> list[Combination]:
    """All pairs of options."""
    return [
        (optimizer, pair)
        for pair in itertools.combinations(OPTIONS, 2)
        if OPTIONS[pair[0]][1].keys() != OPTIONS[pair[1]][1].keys()
        for optimizer in optimizers_for(pair)
    ]


def draws(seed: int, count: int) -> list[Combination]:
    """Three to five options each, of which a fleet can train by all."""
    source = random.Random(seed)
    found: list[Combination] = []
    while len(found) < count:
        names = tuple(source.sample([*OPTIONS], source.choice([3, 3, 4, 5])))
        if not excluded(names):
            found.append((source.choice(optimizers_for(names)), names))
    return found
