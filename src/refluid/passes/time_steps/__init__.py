"""for t: y[t] = f(x[t]·W, h·U)  ->  p = x·W ; for t: y[t] = f(p[t], h·U)

What a time step of `recurrent` computes without the states is computed for all steps at once,
before the loop; gradients of weights, and what leads back to the inputs, after the loop of the
gradients. So are those of the matrices that attention multiplies each step's vectors by: the
vectors of all steps are one matrix. The loop is left with the chain from one state to the next.

A product with joined inputs, as `LSTMCell` has it, is split first: [x, h]·W = x·W₁ + h·W₂.
"""

from __future__ import annotations

from refluid.ir.program import Program
from refluid.passes.protocol import Options, Report
from refluid.passes.time_steps.hoisting import hoist
from refluid.passes.time_steps.joined import split_joined
from refluid.passes.time_steps.loop import find_loops
from refluid.passes.time_steps.sinking import sink

STARTS = frozenset({"recurrent"})


def batch_time_steps(program: Program, _options: Options) -> Report:
    """Rewrites all such loops of the program, in place."""
    report = Report()
    for loop in find_loops(program):
        split_joined(loop)
        report.made += [f"{type_} of all time steps" for type_ in (*hoist(loop), *sink(loop))]
        loop.drop_unread()
    return report
