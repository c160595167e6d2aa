"""`fluid.dygraph.TracedLayer`: a layer's call as a program."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Sequence
from typing import Any

from refluid import eager
from refluid.build import Blocks, using
from refluid.core.scope import Scope
from refluid.eager import VarBase
from refluid.eager.tracing import trace
from refluid.engine.choices import chosen
from refluid.engine.knobs import KnobScope
from refluid.fluid.compiler import BuildStrategy, CompiledProgram, ExecutionStrategy
from refluid.fluid.dygraph import layers
from refluid.fluid.dygraph.dygraph_to_static.program_translator import (
    DeclarativeFunction,
    ProgramTranslator,
    appending,
    at_positions,
)
from refluid.fluid.executor import Executor, scope_guard
from refluid.fluid.saving.inference_model import save_inference_model
from refluid.ir.program import Program

__all__ = ["TracedLayer", "declarative", "dygraph_to_static_func"]

_log = logging.getLogger("refluid")


def declarative(dygraph_func: Callable[..., Any]) -> Any:
    """The function runs as a program: `if`, `while` and `for` on tensors become control flow.

        class Net(fluid.dygraph.Layer):
            @fluid.dygraph.declarative
            def forward(self, x):
                if fluid.layers.mean(x) > 0:
                    x = -x
                return self.linear(x)

    The program is made at the first call with arguments of certain shapes and types. Gradients
    flow through it to arguments and parameters. `ProgramTranslator().enable(False)` turns it off.
    """
    return DeclarativeFunction(dygraph_func)


def _as_chosen(layer: Any) -> None:
    """Makes the `forward` of a layer declarative, where that was chosen: of the outermost ones,
    since those within are called by a program then."""
    if chosen(KnobScope.DYGRAPH).get("declarative"):
        layer.forward = declarative(layer.forward)


layers.at_first = _as_chosen


def dygraph_to_static_func(dygraph_func: Callable[..., Any]) -> Callable[..., Any]:
    """The function appends to a program what it would compute in dygraph, where it runs as it is.

    @fluid.dygraph.jit.dygraph_to_static_func
    def func(x):
        if fluid.layers.mean(x) < 0:
            x = -x
        return x

    x = fluid.layers.fill_constant(shape=[3, 3], value=1, dtype="float64")
    y = func(x)
    """
    append = appending(dygraph_func)

    @functools.wraps(dygraph_func)
    def run(*args: Any, **kwargs: Any) -> Any:
        if eager.current() is not None or not ProgramTranslator.enable_declarative:
            _log.info("dygraph_to_static_func has no effect in dygraph, or when it is disabled")
            return dygraph_func(*args, **kwargs)
        return append(*args, **kwargs)

    return run


class TracedLayer:
    """A program that computes what a layer computed, on the layer's own parameters.

    `TracedLayer.trace` makes one.
    """

    def __init__(
        self,
        program: Program,
        parameters: Sequence[VarBase],
        feed_names: Sequence[str],
        fetch_names: Sequence[str],
    ) -> None:
        now = eager.current()
        assert now is not None, "TracedLayer belongs into fluid.dygraph.guard()"
        self._program, self._parameters = program, list(parameters)
        self._feed_names, self._fetch_names = list(feed_names), list(fetch_names)
        self._scope = Scope()
        place: Any = now.place
        self._exe = Executor(place)
        self._compiled: Any = None
        self._strategies: tuple[Any, Any] = (None, None)

    @staticmethod
    def trace(layer: Any, inputs: Sequence[VarBase]) -> tuple[Any, TracedLayer]:
        """What `layer(*inputs)` gives, and its program. Python decides alike in all later runs."""
        now = eager.current()
        assert now is not None, "TracedLayer.trace belongs into fluid.dygraph.guard()"
        outputs, made = trace(now, lambda: layer(*inputs), list(inputs))
        program = made.program.clone(for_test=True)
        return outputs, TracedLayer(program, made.held, made.feeds, made.fetches)

    @property
    def program(self) -> Program:
        """The program."""
        return self._program

    def set_strategy(
        self,
        build_strategy: BuildStrategy | None = None,
        exec_strategy: ExecutionStrategy | None = None,
    ) -> None:
        """How the program is compiled and run; before its first run."""
        assert self._compiled is None, "Cannot set strategy after run"
        self._strategies = (build_strategy, exec_strategy)

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        """Runs the program; arrays."""
        assert isinstance(inputs, list | tuple), "Inputs should be a list or tuple of variables"
        assert len(inputs) == len(self._feed_names), (
            f"the traced layer took {len(self._feed_names)} inputs, and gets {len(inputs)}"
        )
        feed = {
            name: one.numpy() if isinstance(one, VarBase) else one
            for name, one in zip(self._feed_names, inputs, strict=True)
        }
        self._share()
        with using(Blocks()), scope_guard(self._scope):
            found: list[Any] = self._exe.run(self._ready(), feed=feed, fetch_list=self._fetch_names)
        return found

    def _ready(self) -> Any:
        if self._compiled is None:
            build, execution = self._strategies
            self._compiled = self._program
            if build is not None or execution is not None:
                self._compiled = CompiledProgram(self._program).with_data_parallel(
                    build_strategy=build, exec_strategy=execution, places=[self._exe.place]
                )
        return self._compiled

    def _share(self) -> None:
        for one in self._parameters:
            self._scope.var(one.name).value = one.tensor.detach()

    def save_inference_model(
        self, dirname: str, feed: Sequence[int] | None = None, fetch: Sequence[int] | None = None
    ) -> None:
        """Saves it for inference. feed, fetch: positions of those inputs and outputs to keep."""
        block = self._program.global_block()
        feeds = at_positions("feed", self._feed_names, feed or None)
        fetches = at_positions("fetch", self._fetch_names, fetch or None)
        self._share()
        with using(Blocks()), scope_guard(self._scope):
            save_inference_model(
                dirname=dirname,
                feeded_var_names=feeds,
                target_vars=[block.var(name) for name in fetches],
                executor=self._exe,
                main_program=self._program.clone(),
            )
