"""Which switches of `DistributedStrategy` exclude each other, and what some of them don't heed."""

from __future__ import annotations

from collections.abc import Collection

# Of each of these a fleet trains by one: kinds of updates, and of what is exchanged.
_ONE_OF = (
    ("lars", "lamb", "dgc"),
    ("localsgd", "adaptive_localsgd", "dgc", "sharding", "pipeline"),
)
_LOCAL = ("localsgd", "adaptive_localsgd")
_OWN_STEPS = (*_LOCAL, "dgc", "pipeline")
# What looks at all of a parameter, or of its gradient.
_WHOLE = ("lars", "lamb", *_LOCAL, "dgc")
# Workers that update alone exchange nothing during a step.
_DURING_STEPS = (
    "sync_batch_norm",
    "fp16_allreduce",
    "use_hierarchical_allreduce",
    "build_strategy",
    "execution_strategy",
)
# What has no effect beside each of these.
_UNHEEDED = {
    **dict.fromkeys(_LOCAL, ("LocalSGD", _DURING_STEPS)),
    "pipeline": ("pipeline, whose stages have statistics of micro-batches", ("sync_batch_norm",)),
}


def why_not(on: Collection[str]) -> str:
    """Why a fleet can't train by all of these fields, which were set; empty where it can."""
    for several in _ONE_OF:
        asked = [name for name in several if name in on]
        if len(asked) > 1:
            return f"a fleet trains by one of {' and '.join(asked)}, not by all of them"
    for name in _WHOLE:
        if name in on and "tensor_parallel" in on:
            return f"tensor_parallel doesn't go with {name}, which needs whole parameters"
    for name in _OWN_STEPS:
        if name in on and "gradient_merge" in on:
            return f"gradient_merge doesn't go with {name}, which has steps of its own"
    return ""


def unheeded(on: Collection[str]) -> dict[str, str]:
    """Those of these fields, which were set, that have no effect beside others, and beside what."""
    asked = [_UNHEEDED[name] for name in _UNHEEDED if name in on]
    return {name: beside for beside, names in asked for name in names if name in on}
