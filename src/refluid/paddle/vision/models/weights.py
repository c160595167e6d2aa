"""Weights that others trained: none come with refluid."""

from __future__ import annotations


def refuse_pretrained(pretrained: bool, name: str) -> None:
    """RuntimeError where trained weights are asked for, which would have to be downloaded."""
    if pretrained:
        raise RuntimeError(
            f"{name} does not have a pretrained model here: download its .pdparams and give it to "
            "model.set_state_dict(paddle.load(file))"
        )
