"""LocalSGD whose workers take their mean the more often the faster they learn.

Wang and Joshi (2018), https://arxiv.org/abs/1810.08313: after each mean the next one is due after

    k = ceil(sqrt(rate_0 * loss / (rate * loss_0)) * init_k)

updates, at least 1 and at most 16; loss and learning rate are those of the mean, loss_0 and rate_0
those when it began.
"""

from __future__ import annotations

from collections.abc import Sequence

from refluid.fluid import layers
from refluid.fluid.transpiler.collective import LocalSGD
from refluid.ir.defaults import program_guard
from refluid.ir.variable import Variable
from refluid.passes.data_parallel import updates

_LONGEST = 16
_LEAST = 1e-30


class AdaptiveLocalSGD(LocalSGD):
    """init_steps: the first k. begin: up to this update each has its mean. loss: its name."""

    def __init__(self, nrings: int, init_steps: int, begin: int, loss: str) -> None:
        super().__init__(nrings)
        self.init_steps, self.begin, self.loss = init_steps, begin, loss

    def _transpile_main_program(self) -> None:
        main = self.main_program
        block = main.global_block()
        pairs = [(one, self._snapshot(block, one)) for one in main.all_parameters()]
        rate = block.var(next(updates(main)).input("LearningRate")[0])
        with program_guard(main, self.startup_program), main._optimized_guard([]):
            step = layers.autoincreased_step_counter("@LOCAL_SGD_UPDATES@")
            last = _kept("local_sgd_last", "int64", 0)
            every = _kept("local_sgd_every", "int64", self.init_steps)
            begin = layers.fill_constant([1], "int64", self.begin)
            warm = layers.less_equal(step, begin)
            waited = layers.greater_equal(layers.elementwise_sub(step, last), every)
            due = layers.logical_or(waited, warm)
            layers.cond(due, lambda: self._meet(pairs, rate, step, warm, last, every))

    def _meet(
        self,
        pairs: Sequence[tuple[Variable, Variable]],
        rate: Variable,
        step: Variable,
        warm: Variable,
        last: Variable,
        every: Variable,
    ) -> None:
        """Takes the mean of parameters, and says when the next one is due."""
        self._take_means(pairs)
        loss = layers.reshape(self.main_program.global_block().var(self.loss), [1])
        mean = layers.scale(layers.collective._c_allreduce(loss), 1.0 / self.nranks)
        first = {name: _kept(f"local_sgd_{name}", "float32", 1.0) for name in ("loss", "rate")}
        flag = layers.cast(warm, "float32")
        for name, now in (("loss", mean), ("rate", rate)):
            kept = first[name] + flag * (now - first[name])
            layers.assign(kept, first[name])
        least = layers.fill_constant([1], "float32", _LEAST)
        divisor = layers.elementwise_max(rate * first["loss"], least)
        ratio = layers.relu(layers.elementwise_div(first["rate"] * mean, divisor))
        found = layers.ceil(layers.scale(layers.sqrt(ratio), float(self.init_steps)))
        found = found + flag * (float(self.init_steps) - found)  # where the ratio is 1
        layers.assign(layers.cast(layers.clip(found, 1.0, float(_LONGEST)), "int64"), every)
        layers.assign(step, last)


def _kept(name: str, dtype: str, value: float) -> Variable:
    """A variable that outlives runs."""
    found: Variable = layers.create_global_var([1], value, dtype, persistable=True, name=name)
    return found
