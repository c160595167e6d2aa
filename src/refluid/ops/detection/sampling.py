"""Choosing examples among candidates, and taking a batch of boxes apart by image."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from refluid.core.errors import EnforceNotMet
from refluid.core.offsets import Levels


def some(candidates: Tensor, most: int, generator: torch.Generator | None, draw: bool) -> Tensor:
    """At most `most` of the candidates (n), in their order: drawn by chance, or the first ones."""
    if candidates.numel() <= most:
        return candidates
    if not draw:
        return candidates[:most]
    order = torch.randperm(candidates.numel(), generator=generator, device=candidates.device)
    return candidates[order[:most].sort().values]


def require_together(**lods: Levels) -> None:
    """EnforceNotMet unless all have as many rows of each image, one for each box."""
    (first, levels), *others = lods.items()
    for name, other in others:
        if other[-1:] != levels[-1:]:
            raise EnforceNotMet(
                f"{name} has {_rows(other)} rows of the images, but {first} has {_rows(levels)}: "
                "each box needs one"
            )


def _rows(lod: Levels) -> list[int]:
    return list(lod[-1].lengths) if lod else []


def by_image(where: str, images: int, **values: tuple[Tensor, Levels]) -> list[Sequence[Tensor]]:
    """Per image its rows of each value, given with its LoD; EnforceNotMet where that is missing."""
    parts = []
    for name, (value, lod) in values.items():
        if not lod or len(lod[-1]) != images:
            found = f"describes {len(lod[-1])}" if lod else "is missing"
            raise EnforceNotMet(
                f"{where}: the LoD of {name} must say which rows belong to which of the "
                f"{images} images; it {found}"
            )
        parts.append(torch.split(value, lod[-1].lengths))
    return list(zip(*parts, strict=True))
