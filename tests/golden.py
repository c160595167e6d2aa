"""Where the recordings of Fluid 1.8.5 lie, and the marker for tests that need them.

They are not part of this repository. `REFLUID_GOLDEN` names their folder; without it they are
looked for in `shared/golden`, in the checkout or beside it.
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from refluid.ir.framework_pb2 import ProgramDesc
from tests.choices import often

_ROOT = Path(__file__).resolve().parents[1]


def _find() -> Path:
    named = os.environ.get("REFLUID_GOLDEN")
    if named:
        return Path(named)
    candidates = [_ROOT / "shared" / "golden", _ROOT.parent / "shared" / "golden"]
    return next((path for path in candidates if path.is_dir()), candidates[-1])


GOLDEN: Path = _find()

needs_golden = pytest.mark.skipif(
    not GOLDEN.is_dir(),
    reason="no golden recordings: set REFLUID_GOLDEN to the folder that holds program_schema.json",
)

# Recorded networks for images that take long, and all of whose operators others have.
LARGE = frozenset(
    {
        *("darknet53", "dpn68", "metric_triplet", "res2net50", "resnet50", "resnet50_nhwc"),
        *("resnet50_vc", "resnext50", "se_resnext50", "shufflenet_v2", "video_tsn", "xception41"),
        *("xception41_deeplab", "yolov3"),
    }
)

# What Fluid computed from memory that another step left; docs/deviations.md says how far that is
# known.
FAULTS_OF_FLUID = {
    "simnet_cnn": "a row of the sparse Adam of `emb`",
    "dcn_sparse": "rows of the sparse Adam of `embedding_6.w_0` and `embedding_18.w_0`",
}
# With two threads, which sum in another order and take whichever kernel is faster, ReLUs flip: in
# `se_resnet18_vd` at step 4, which moves a velocity by 3%, and in `ocr_attention`, whose Adadelta
# moves a bias by 24% then. Rounding of refluid's own moves these by as much (parameters changed by
# up to 8 units in the last place move that bias by 1% to 47% in 10 of 16 draws, by one thread), but
# the models have no spreads that say so.
BY_ONE_THREAD = {"se_resnet18_vd", "ocr_attention"}
# Compiled kernels sum in another order with any number of threads: the step at which one flips.
FLIPS = {"se_resnet18_vd": 4}


def quick_ones(paths: Iterable[Path]) -> list[Any]:
    """Files of recorded models as cases of a test: those of large models are slow."""
    found = list(paths)
    return often(found, [one for one in found if one.parent.name not in LARGE])


@cache
def recorded_models() -> dict[str, Any]:
    """What is known of each recorded model, by name; nothing without recordings."""
    index = GOLDEN / "zoo" / "index.json"
    return dict(json.loads(index.read_text())) if index.exists() else {}


@cache
def recorded_programs() -> dict[Path, bytes]:
    """The messages of recorded programs by their files, small ones first."""
    files = [*GOLDEN.glob("zoo/*/*.pb*"), *GOLDEN.glob("formats/**/__model__")]
    found = {path: path.read_bytes() for path in files}
    return {
        path: gzip.decompress(data) if path.suffix == ".gz" else data
        for path, data in sorted(found.items(), key=lambda one: (len(one[1]), one[0]))
    }


@cache
def telling_programs() -> list[Path]:
    """Few recorded programs in which all attributes of operators occur: a quarter of the bytes."""
    recorded, own = recorded_programs(), {}
    for path, data in recorded.items():
        ops = [op for block in ProgramDesc.FromString(data).blocks for op in block.ops]
        own[path] = {(op.type, attr.name, attr.type) for op in ops for attr in op.attrs}
    left, found = set().union(*own.values()), []
    while left:
        found.append(max(own, key=lambda one: len(own[one] & left) / len(recorded[one])))
        left -= own[found[-1]]
    return found
