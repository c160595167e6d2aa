"""Records what Paddle 2 gives for the calls and scenarios in tests/paddle/two.

    PYTHON_WITH_PADDLE scripts/paddle2_recordings.py [MODULE ..]

Paddle (2.6.2) has an environment of its own, without refluid. Writes tests/paddle/two/recorded/,
for all modules of calls (results and gradients) and scenarios unless some are named.
"""

import importlib
import sys
from pathlib import Path

import numpy as np
import paddle

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "tests" / "paddle" / "two"
sys.path.insert(0, str(ROOT))


def function(name):
    found = paddle
    for part in name.split("."):
        found = getattr(found, part)
    return found


def variables(given, drawn, taking):
    """An argument as Paddle takes it; what takes a gradient is noted in `taking`."""
    if isinstance(given, list) and drawn and isinstance(drawn[0], np.ndarray):
        return [variables(one, value, taking) for one, value in zip(given, drawn, strict=False)]
    if not isinstance(drawn, np.ndarray):
        return drawn
    made = paddle.to_tensor(drawn)
    if drawn.dtype.kind in "fc" and not given.fixed:
        made.stop_gradient = False
        taking.append(made)
    return made


def run(name, call):
    taking = []
    drawn = call.arrays(name)
    args = [variables(given, one, taking) for given, one in zip(call.args, drawn, strict=False)]
    result = function(call.function)(*args, **call.settings)
    outs = list(result) if isinstance(result, (list, tuple)) else [result]
    found = {f"{name}/out{n}": out.numpy() for n, out in enumerate(outs)}
    loss = None
    random = np.random.RandomState(1)
    for out in outs:
        out = paddle.as_real(out) if out.is_complex() else out
        weights = random.uniform(0.5, 1.5, out.shape).astype("float32")
        if str(out.dtype) in ("paddle.float32", "paddle.float64") and not out.stop_gradient:
            term = (out * paddle.to_tensor(weights).astype(out.dtype)).sum().astype("float32")
            loss = term if loss is None else loss + term
    if loss is not None and taking:
        grads = paddle.grad(loss, taking, allow_unused=True)
        for n, grad in enumerate(grads):
            if grad is not None:
                found[f"{name}/grad{n}"] = grad.numpy()
    return found


def scenarios(module):
    """What the scenarios of a module give."""
    found = {}
    made = importlib.import_module(f"tests.paddle.two.scenarios.{module}").SCENARIOS
    for name, scenario in made.items():
        with paddle.utils.unique_name.guard():
            try:
                for part, array in scenario(paddle).items():
                    found[f"{name}|{part}"] = array
            except Exception as error:  # what Paddle itself refuses has nothing to compare with
                print(f"{module} {name}: {type(error).__name__}: {str(error).strip()[:300]}")
    paddle.disable_static()
    np.savez_compressed(FOLDER / "recorded" / f"{module}.npz", **found)
    print(module, len(made), "scenarios")


def main():
    (FOLDER / "recorded").mkdir(exist_ok=True)
    wanted = sys.argv[1:]
    for path in sorted((FOLDER / "scenarios").glob("[a-z]*.py")):
        if not wanted or path.stem in wanted:
            scenarios(path.stem)
    for module in sorted(FOLDER.glob("*_cases.py")):
        if wanted and module.stem not in wanted:
            continue
        cases = importlib.import_module(f"tests.paddle.two.{module.stem}").CASES
        found = {}
        for name, call in cases.items():
            try:
                found.update(run(name, call))
            except Exception as error:  # Paddle's own refusal: nothing to compare with
                print(f"{name}: {type(error).__name__}: {str(error).strip().splitlines()[-1]}")
        np.savez_compressed(FOLDER / "recorded" / f"{module.stem}.npz", **found)
        print(module.stem, len(cases), "calls")


if __name__ == "__main__":
    main()
