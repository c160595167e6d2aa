"""Groups of parameters: each with what the optimizer has otherwise for all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from refluid.fluid.regularizer import WeightDecayRegularizer
from refluid.paddle.optimizer.masters import own_name
from refluid.paddle.regularizer import L2Decay

# Attributes of operators that optimizers' arguments have other names for.
_ARGUMENTS = {"mu": "momentum", "decay": "rho", "weight_decay": "lamb_weight_decay"}


def decay_of(weight_decay: Any) -> WeightDecayRegularizer | None:
    """The regularizer that `weight_decay` asks for: a number is that of an L2 decay."""
    if weight_decay is None or isinstance(weight_decay, WeightDecayRegularizer):
        return weight_decay
    if isinstance(weight_decay, bool) or not isinstance(weight_decay, float | int):
        raise TypeError(
            f"weight_decay should be float, L1Decay or L2Decay, not {type(weight_decay).__name__}"
        )
    return L2Decay(float(weight_decay))


class Groups:
    """What the groups of an optimizer say.

    given: a dict for each, with its `params`, and arguments of the optimizer for these alone;
    `learning_rate` is a factor. TypeError where one has no list of parameters, ValueError for a
    parameter in two of them.
    """

    def __init__(self, given: Sequence[Mapping[str, Any]], decays: bool) -> None:
        self._groups: list[dict[str, Any]] = []
        self._of: dict[str, int] = {}
        self.parameters: list[Any] = []
        for one in given:
            self._add(dict(one), decays)

    def _add(self, group: dict[str, Any], decays: bool) -> None:
        params = group.pop("params", None)
        if params is None or isinstance(params, set):
            raise TypeError(
                "a group of parameters is a dict with a list of them under 'params', not "
                f"{type(params).__name__}"
            )
        listed = list(params) if isinstance(params, Iterable) else [params]
        for one in listed:
            if one.name in self._of:
                raise ValueError(f"parameter {one.name} appears in more than one parameter group")
            self._of[one.name] = len(self._groups)
            if "learning_rate" in group:
                one.optimize_attr = {**one.optimize_attr, "learning_rate": group["learning_rate"]}
            if decays and "weight_decay" in group:
                one.regularizer = decay_of(group["weight_decay"])
        self._groups.append(group)
        self.parameters += listed

    def of(self, param: Any) -> Mapping[str, Any]:
        """What a parameter's group says."""
        number = self._of.get(own_name(param))
        return {} if number is None else self._groups[number]

    def attributes(self, param: Any, usual: Mapping[str, Any]) -> Mapping[str, Any]:
        """The attributes of a parameter's update."""
        group = self.of(param)
        return {name: group.get(_ARGUMENTS.get(name, name), value) for name, value in usual.items()}

    def parted(self, pairs: Iterable[Any]) -> Iterator[tuple[Mapping[str, Any], list[Any]]]:
        """(parameter, gradient) pairs group by group."""
        found: list[list[Any]] = [[] for _ in self._groups]
        for pair in pairs:
            found[self._of[own_name(pair[0])]].append(pair)
        return zip(self._groups, found, strict=True)
