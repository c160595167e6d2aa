"""Layers made as Fluid 1.5 and 1.6 had it: `Conv2D(name_scope, num_filters, filter_size, ..)`.

Since 1.7 a layer is told the sizes of its input, where `name_scope` was. One whose first argument
is a scope takes them from its first input, and makes its parameters then.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Sequence
from typing import Any, TypeVar

from refluid.core.all_parameters import note_former_layer
from refluid.fluid.dygraph.layers import Layer

Given = dict[str, Any]
Lacking = Callable[[Sequence[Any], Given], Any]
LayerClass = TypeVar("LayerClass", bound=type[Layer])
_KEPT = ("training", "_forward_pre_hooks", "_forward_post_hooks")


def channels(inputs: Sequence[Any], given: Given) -> int:
    """The second size of the first input."""
    return int(inputs[0].shape[1])


def normalized_shape(inputs: Sequence[Any], given: Given) -> list[int]:
    """The sizes from `begin_norm_axis` on."""
    return list(inputs[0].shape[given.pop("begin_norm_axis", 1) :])


def whole_shape(inputs: Sequence[Any], given: Given) -> list[int]:
    """All sizes of the first input."""
    return list(inputs[0].shape)


def _known(accepted: Collection[str], given: Given) -> Given:
    """Without what a layer doesn't take any more and nobody asked for."""
    return {name: one for name, one in given.items() if name in accepted or one}


def scoped(
    arguments: str, words: Sequence[str] = (), /, **lacking: Lacking
) -> Callable[[LayerClass], LayerClass]:
    """A class that takes the arguments it had after `name_scope` too, in their order.

    words: first arguments that are no scopes, though strings. lacking: the arguments that it has
    now and the first inputs give, by name.
    """
    order = arguments.split()

    def decorated(kind: LayerClass) -> LayerClass:
        own: Any = kind.__init__
        known = functools.partial(_known, inspect.signature(own).parameters)

        @functools.wraps(own)
        def made(self: Layer, *args: Any, **kwargs: Any) -> None:
            scope = args[0] if args else kwargs.get("name_scope")
            if not isinstance(scope, str) or scope in words:
                own(self, *args, **kwargs)
                return
            kwargs.pop("name_scope", None)
            if len(args) > len(order) + 1:
                raise TypeError(f"{kind.__name__} of a scope takes {arguments}, not {args[1:]}")
            given = {**dict(zip(order, args[1:], strict=False)), **kwargs}
            note_former_layer()
            self._refluid_scope = scope
            if not lacking:
                own(self, **known(given))
                return
            Layer.__init__(self, scope)
            self._refluid_kept_name, self._refluid_asked = self._full_name, given

        def built(self: Layer, *inputs: Any, **named: Any) -> None:
            given = self.__dict__.pop("_refluid_asked", None)
            if given is None:
                return
            kept = {name: self.__dict__[name] for name in _KEPT}
            inputs = (*inputs, *named.values())
            found = {name: give(inputs, given) for name, give in lacking.items()}
            own(self, **{**found, **known(given)})  # Fluid 1.4 was told some of the sizes
            self.__dict__.update(kept)

        kind.__init__ = made  # type: ignore[method-assign]
        if lacking:
            kind._build_once = built  # type: ignore[method-assign]
        return kind

    return decorated
