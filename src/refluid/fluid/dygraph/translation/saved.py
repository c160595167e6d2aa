"""Programs that were saved for inference, as layers: they run at once, and train on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from refluid import eager
from refluid.build import Blocks, using
from refluid.core.dtypes import FLOATING
from refluid.core.errors import EnforceNotMet
from refluid.core.places import CPUPlace
from refluid.core.scope import Scope
from refluid.eager import ParamBase, VarBase
from refluid.fluid.dygraph.layers import Layer
from refluid.fluid.dygraph.translation.arguments import as_tensor
from refluid.fluid.dygraph.translation.running import ProgramRunner
from refluid.fluid.executor import Executor, scope_guard
from refluid.fluid.saving.inference_model import ends
from refluid.fluid.saving.persistence import is_persistable
from refluid.ir.editor import Editor
from refluid.ir.program import Program

_ENDS = ("feed", "fetch")


class SavedProgram:
    """A program without its `feed` and `fetch`, with variables of dygraph for its own.

    What operators write, such as running means, isn't trained; all other numbers are.
    """

    def __init__(self, program: Program, scope: Scope) -> None:
        now = eager.current()
        if now is None:
            raise EnforceNotMet(
                "a saved program is a layer where operators run at once: load it within "
                "fluid.dygraph.guard(), or after paddle.disable_static()"
            )
        self.feeds = [one.name for one in ends(program, "feed")]
        self.fetches = [one.name for one in ends(program, "fetch")]
        self._place = now.place
        block = program.global_block()
        Editor(block).keep(lambda op: op.type not in _ENDS)
        self._program = program
        written = {name for op in block.ops for name in op.output_arg_names}
        names = sorted(one.name for one in program.list_vars() if is_persistable(one))
        self.held = {name: _held(name, scope, name in written, now.device) for name in names}
        self._runner = cache(self._made)

    def _made(self, training: bool) -> ProgramRunner:
        program = self._program.clone()
        for block in program.blocks:
            for op in block.ops:
                if op.has_attr("is_test"):
                    op.set_attr("is_test", not training)
        return ProgramRunner(program, self.feeds, self.fetches, self.held, self._place)

    def run(self, inputs: Sequence[Any], training: bool) -> list[VarBase]:
        """The results. ValueError for another number of inputs than the program is fed."""
        if len(inputs) != len(self.feeds):
            raise ValueError(
                f"the saved program takes {len(self.feeds)} inputs ({', '.join(self.feeds)}), "
                f"{len(inputs)} were given"
            )
        runner = self._runner(training)
        tensors = [as_tensor(one, runner.device) for one in inputs]
        return runner.run(tensors, [getattr(one, "lod", []) for one in inputs])

    def write(self, scope: Scope) -> None:
        """Puts the values of its variables into a scope."""
        for name, one in self.held.items():
            scope.var(name).value = one.tensor.detach()

    @property
    def program(self) -> Program:
        """The program, without `feed` and `fetch`."""
        return self._program


def loaded(load: Callable[[Any], Sequence[Any]]) -> SavedProgram:
    """What `load(executor)` puts into the current scope; the program is its first result."""
    scope = Scope()
    with using(Blocks()), scope_guard(scope):
        program = load(Executor(CPUPlace()))[0]
    return SavedProgram(program, scope)


class RunsSaved:
    """A layer that computes what a saved program does."""

    _saved: SavedProgram
    training: bool

    def forward(self, *inputs: Any) -> Any:
        """The result, or a list of several, of variables or arrays in the order of what is fed."""
        found = self._saved.run(inputs, self.training)
        return found[0] if len(found) == 1 else found

    def program(self) -> Program:
        """The program."""
        return self._saved.program


class SavedLayer(RunsSaved, Layer):
    """A layer of `fluid.dygraph` that computes what a saved program does."""

    def __init__(self, saved: SavedProgram) -> None:
        super().__init__()
        self._saved = saved
        for name, one in saved.held.items():
            if isinstance(one, ParamBase):
                self.add_parameter(name, one)


def _held(name: str, scope: Scope, written: bool, device: Any) -> VarBase:
    cell = scope.find_var(name)
    assert cell is not None, f"{name} was not loaded"
    tensor: Any = cell.value.to(device)
    if written or VarBase(tensor).dtype not in FLOATING:
        return VarBase(tensor, name, stop_gradient=True, persistable=True)
    made = ParamBase(list(tensor.shape), tensor.dtype, name=name)
    made.held = tensor
    return made
