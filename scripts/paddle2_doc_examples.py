"""Runs the examples of Paddle 2's docstrings in Paddle and in refluid, and compares.

    PYTHON_WITH_PADDLE scripts/paddle2_doc_examples.py collect examples.json
    PYTHON_WITH_PADDLE scripts/paddle2_doc_examples.py run examples.json paddle.json
    python scripts/paddle2_doc_examples.py run examples.json refluid.json --refluid
    python scripts/paddle2_doc_examples.py compare examples.json paddle.json refluid.json

Examples are those of the names in tests/paddle/two/paddle2_names.json. Each runs in a process of
its own. What is printed is noted as values: a tensor as its element type, shape and numbers. Where
random numbers are drawn only types and shapes are compared.
"""

import argparse
import contextlib
import doctest
import importlib
import io
import json
import os
import re
import signal
import sys
import tempfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NAMES = ROOT / "tests" / "paddle" / "two" / "paddle2_names.json"
SECONDS = 20
_RANDOM = re.compile(
    r"rand|seed|uniform|normal|[dD]ropout|shuffle|multinomial|bernoulli|poisson|exponential|nn\.[A-Z]"
    r"|create_parameter|Linear|Conv|LSTM|GRU|empty|models\.|init|static\.nn|Sampler|gumbel"
)
_ELSEWHERE = re.compile(
    r"doctest: \+(REQUIRES|SKIP)|MNIST|Cifar|Flowers|VOC|download|set_device\('g"
)


def collect(out):
    """Writes the code of all examples, by name and number."""
    import paddle

    found, parser = {}, doctest.DocTestParser()
    for module, names in json.loads(NAMES.read_text()).items():
        for name in names:
            try:
                text = getattr(importlib.import_module(module), name).__doc__ or ""
            except Exception:  # a name that this build hasn't got
                continue
            blocks = re.split(r"\.\. code-block::.*\n", text)[1:]
            for number, block in enumerate(blocks):
                try:
                    examples = parser.get_examples(block)
                except ValueError:
                    continue
                code = "".join(one.source for one in examples)
                if code.strip() and not _ELSEWHERE.search(block):
                    found[f"{module}.{name}-{number}"] = code
    Path(out).write_text(json.dumps(found, indent=1))
    print(len(found), "examples of Paddle", paddle.__version__)


def noted(value, tensor):
    """What is printed, as values that can be compared."""
    if isinstance(value, tensor):
        kind = str(value.dtype).rpartition(".")[2].lower()
        kind = {"fp32": "float32", "fp64": "float64", "fp16": "float16", "bf16": "bfloat16"}.get(
            kind, kind
        )
        try:
            array = value.numpy()
        except Exception:  # a variable of a program
            return ["variable", list(value.shape)]
        if array.dtype.kind == "c":
            array = array.view(array.real.dtype)
        numbers = (
            array.astype("float64").reshape(-1).tolist()
            if array.dtype.kind in "fiub"
            else str(array)
        )
        return ["tensor", kind, list(array.shape) or [1], numbers]
    if isinstance(value, (list, tuple)):
        return [noted(one, tensor) for one in value]
    if isinstance(value, dict):
        return {str(key): noted(one, tensor) for key, one in value.items()}
    if hasattr(value, "item") and getattr(value, "shape", None) == ():
        return value.item()
    if hasattr(value, "tolist"):
        return ["array", list(getattr(value, "shape", [])) or [1], noted(value.tolist(), tensor)]
    if isinstance(value, (int, float, bool, str, type(None))):
        return value
    return type(value).__name__


def one_run(code, refluid):
    """What an example prints, or the error that it ends with."""
    import paddle

    lines = []
    if refluid:
        paddle.disable_static()
    tensor = (
        importlib.import_module("refluid.ir.variable").Variable
        if refluid
        else (
            paddle.Tensor,
            paddle.static.Variable,
        )
    )

    def printed(*values, **_settings):
        lines.extend(noted(one, tensor) for one in values)

    namespace = {"__name__": "__main__", "print": printed}
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            exec(compile(code, "example", "exec"), namespace)
    except BaseException as error:
        return {"printed": lines, "error": f"{type(error).__name__}: {str(error).strip()[:200]}"}
    return {"printed": lines, "error": None}


def run(examples, out, refluid, only):
    """Runs all examples, each in a process of its own."""
    if refluid:
        importlib.import_module("refluid.paddle.alias").install()
    paddle = importlib.import_module("paddle")
    if refluid:  # what each process would import anew
        paddle.disable_static()
        net = paddle.nn.Linear(2, 2)
        adam = paddle.optimizer.Adam(parameters=net.parameters())
        paddle.nn.functional.relu(net(paddle.rand([2, 2]))).mean().backward()
        adam.step()
        paddle.enable_static()
    results = {}
    for name, code in json.loads(Path(examples).read_text()).items():
        if only and only not in name:
            continue
        with tempfile.NamedTemporaryFile("r+", suffix=".json") as file:
            child = os.fork()
            if child == 0:
                signal.alarm(SECONDS)
                with tempfile.TemporaryDirectory() as folder:
                    os.chdir(folder)
                    Path(file.name).write_text(json.dumps(one_run(code, refluid), default=str))
                os._exit(0)
            _, status = os.waitpid(child, 0)
            text = Path(file.name).read_text()
        Path(out).write_text(json.dumps(results, indent=1))
        results[name] = json.loads(text) if text else {"printed": [], "error": f"died: {status}"}
    Path(out).write_text(json.dumps(results, indent=1))
    print(
        len(results), "ran,", sum(one["error"] is None for one in results.values()), "without error"
    )


def same(one, other, exact):
    """Whether two printed values agree; numbers to 1e-4, where `exact`."""
    if isinstance(one, bool) or isinstance(other, bool):
        return not exact or bool(one) == bool(other)
    if isinstance(one, (int, float)) and isinstance(other, (int, float)):
        close = one == other or abs(one - other) <= 1e-4 * max(1.0, abs(one)) or one != one
        return close or not exact
    if isinstance(one, int | float) and isinstance(other, list):  # without dimensions there
        only = other[2] if other[:2] == ["array", [1]] else other
        return len(only) == 1 and same(one, only[0], exact)
    if isinstance(one, list) and isinstance(other, list):
        if (one == [] and other == [1]) or (one == [1] and other == []):
            return True
        return len(one) == len(other) and all(
            same(a, b, exact) for a, b in zip(one, other, strict=True)
        )
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[k], other[k], exact) for k in one)
    if isinstance(one, str) and isinstance(other, str):
        return not exact or one == other or one.lower() in other.lower() or "Var" in other + one
    return one == other or not exact


def outcome(code, paddles, own):
    """What became of an example in refluid: same, other, error, or `Paddle's own error`."""
    if paddles["error"]:
        return "paddle"
    if own["error"]:
        return "absent" if "refluid does not have" in own["error"] else "error"
    exact = not _RANDOM.search(code)
    return "same" if same(paddles["printed"], own["printed"], exact) else "other"


def compare(examples, paddles, own, only):
    """Prints a row for each module, and the examples that differ."""
    codes = json.loads(Path(examples).read_text())
    first, second = json.loads(Path(paddles).read_text()), json.loads(Path(own).read_text())
    rows: dict[str, Counter] = {}
    for name, found in second.items():
        if name not in first or (only and only not in name):
            continue
        became = outcome(codes[name], first[name], found)
        module = name.rpartition("-")[0].rpartition(".")[0]
        rows.setdefault(module, Counter())[became] += 1
        if became in ("error", "other"):
            print(name, became, found["error"] or "")
            if became == "other" and only:
                print("   paddle: ", str(first[name]["printed"])[:600])
                print("   refluid:", str(found["printed"])[:600])
    total: Counter = Counter()
    print("\n| module | same | other | error | not there | of |\n|---|---|---|---|---|---|")
    for module, counts in sorted(rows.items()):
        total += counts
        count = sum(counts.values()) - counts["paddle"]
        shown = [counts[one] for one in ("same", "other", "error", "absent")]
        print(f"| `{module}` | " + " | ".join(map(str, [*shown, count])) + " |")
    print(dict(total))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["collect", "run", "compare"])
    parser.add_argument("files", nargs="+")
    parser.add_argument("--refluid", action="store_true")
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    if given.what == "collect":
        collect(*given.files)
    elif given.what == "run":
        run(*given.files, given.refluid, given.only)
    else:
        compare(*given.files, given.only)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    main()
