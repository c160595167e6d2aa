"""Which switches of `DistributedStrategy` exclude each other, and what LocalSGD doesn't heed."""

from __future__ import annotations

from collections.abc import Collection

# Of each of these a fleet trains by one: kinds of updates, and of what is exchanged.
_ONE_OF = (("lars", "lamb", "dgc"), ("localsgd", "adaptive_localsgd", "dgc", "sharding"))
_LOCAL = ("localsgd", "adaptive_localsgd")
_OWN_STEPS = (*_LOCAL, "dgc")
# Workers that update alone exchange nothing during a step.
_DURING_STEPS = (
    "sync_batch_norm",
    "fp16_allreduce",
    "use_hierarchical_allreduce",
    "build_strategy",
    "execution_strategy",
)


def why_not(on: Collection[str]) -> str:
    """Why a fleet can't train by all of these fields, which were set; empty where it can."""
    for several in _ONE_OF:
        asked = [name for name in several if name in on]
        if len(asked) > 1:
            return f"a fleet trains by one of {' and '.join(asked)}, not by all of them"
    for name in _OWN_STEPS:
        if name in on and "gradient_merge" in on:
            return f"gradient_merge doesn't go with {name}, which has steps of its own"
    return ""


def unheeded(on: Collection[str]) -> list[str]:
    """Those of these fields, which were set, that have no effect beside the others."""
    local = any(name in on for name in _LOCAL)
    return [name for name in _DURING_STEPS if local and name in on]
