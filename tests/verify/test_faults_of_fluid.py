"""Where recorded models differ because Fluid's sparse Adam read what another step had left.

Its search for a row goes on to the place after the last row of the gradient. What a former
gradient left there is applied once more if it is of the row that is looked for: with it, refluid's
moments are the recorded ones. Another model with the same words (`simnet_lstm`) has none of it, so
that it depends on the memory that Fluid is given.
"""

from __future__ import annotations

import pytest

from refluid.verify.metrics import digest, digest_error
from refluid.verify.recordings import load_recording
from refluid.verify.replay import run
from tests.golden import GOLDEN, needs_golden

BETA1, BETA2 = 0.9, 0.999
# Model, table, row, the step of its only gradient, the step that applied it again.
READ_AGAIN = [("simnet_cnn", "emb", 119, 1, 3)]


@needs_golden
@pytest.mark.parametrize(("model", "table", "row", "given", "again"), READ_AGAIN)
def test_a_gradient_was_applied_twice(
    model: str, table: str, row: int, given: int, again: int
) -> None:
    recording = load_recording(GOLDEN / "zoo" / model)
    last = len(recording.steps) - 1
    found, wanted = run(recording)[last], recording.digests[last]
    for name, beta, power in ((f"{table}_moment1_0", BETA1, 1), (f"{table}_moment2_0", BETA2, 2)):
        moment = found[name].array.copy()
        assert digest_error(digest(moment), wanted[name], moment.size) > 1e-2
        gradient = (moment[row] / ((1 - beta) * beta ** (last - given))) ** (1 / power)
        moment[row] += (1 - beta) * beta ** (last - again) * gradient**power
        assert digest_error(digest(moment), wanted[name], moment.size) < 1e-4
