"""What there is of Paddle 2 is compared with Paddle's, or has its reason here."""

from __future__ import annotations

import importlib
import inspect
import json
import re
from collections.abc import Iterator
from pathlib import Path

FOLDER = Path(__file__).parent
MODULES = ["", "linalg", "fft", "signal", "nn.functional", "vision.transforms", "metric"]
MODULES += [
    "vision.ops",
    "nn",
    "nn.initializer",
    "nn.utils",
    "optimizer",
    "optimizer.lr",
    "distribution",
    "vision",
]
# Why no recorded call has them, and the test that looks at them where there is one.
REASONS = {
    "draws random numbers": """bernoulli cauchy_ geometric_ multinomial poisson randint_like
        randperm standard_normal nn.functional.dropout2d nn.functional.dropout3d
        nn.functional.gumbel_softmax linalg.pca_lowrank""",
    "gives memory as it is": "as_strided empty empty_like",
    "says or sets something of the process": """check_shape disable_signal_handler enable_grad finfo
        get_cuda_rng_state get_default_dtype get_flags get_rng_state iinfo in_dynamic_mode
        is_grad_enabled set_cuda_rng_state set_default_dtype set_flags set_printoptions
        set_rng_state""",
    "says something of a variable, or gives it in Python": """broadcast_shape is_complex
        is_floating_point is_integer is_tensor tolist""",
    "reads and writes files": "load save",
    "is Fluid's own, whose recordings it agrees with": "increment",
    "Paddle has no such kernel on the CPU": """view nn.functional.margin_cross_entropy
        nn.SyncBatchNorm""",
    "test_quasi_newton": "optimizer.LBFGS",
    "isn't there, as an error says": """nn.functional.class_center_sample
        nn.functional.sparse_attention""",
    "test_vision_ops; its kernel is for GPUs": "vision.ops.decode_jpeg",
    "is a base, which others that are compared are made of": """nn.Layer nn.RNNCellBase
        optimizer.Optimizer metric.Metric distribution.Transform
        distribution.Distribution distribution.ExponentialFamily
        vision.transforms.BaseTransform""",
    "is part of nn.Transformer, which is compared": "nn.TransformerEncoder nn.TransformerDecoder",
    "is called by another name in scenarios/layers": "nn.MaxUnPool1D nn.MaxUnPool2D nn.MaxUnPool3D",
    "test_found_by_examples": "LazyGuard nn.BeamSearchDecoder nn.dynamic_decode",
    "chooses what else computes": """distribution.register_kl vision.get_image_backend
        vision.image_load vision.set_image_backend""",
}


def _compared() -> set[str]:
    """Functions that recorded calls or scenarios call; those without their `_` too."""
    found: set[str] = set()
    for path in FOLDER.glob("*_cases.py"):
        cases = importlib.import_module(f"tests.paddle.two.{path.stem}").CASES
        found.update(one.function for one in cases.values())
    for path in FOLDER.glob("scenarios/*.py"):
        found.update(re.findall(r"\w+", path.read_text()))
    return found


def _functions() -> Iterator[tuple[str, str]]:
    """(module, name) of the functions, layers and other classes that are there."""
    names = json.loads((FOLDER / "paddle2_names.json").read_text())
    for module in MODULES:
        full = f"paddle.{module}".rstrip(".")
        room = importlib.import_module(f"refluid.{full}")
        for name in names[full]:
            try:
                found = getattr(room, name)
            except (AttributeError, NotImplementedError):
                continue  # test_names says which
            if callable(found) and (module or not inspect.isclass(found)):
                yield module, name


def _missing() -> set[str]:
    compared, found = _compared(), set[str]()
    for module, name in _functions():
        full = f"{module}.{name}".lstrip(".")
        known = {full, full.rstrip("_"), name, name.rstrip("_")}
        if known.isdisjoint(compared):
            found.add(full)
    return found


def test_functions_are_compared_or_there_is_a_reason() -> None:
    reasons = {name for names in REASONS.values() for name in names.split()}
    assert _missing() == reasons
