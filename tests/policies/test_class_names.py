"""A class name means one thing in all of refluid, and nothing else has the name of a class."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2] / "src" / "refluid"
# Copied to another machine alone, where it is a program of its own.
APART = {"record/fluid_recorder.py"}
# Names that Fluid gives: it has two of them, or one that is the field's word here as well.
GIVEN = {
    "Bilinear": {"paddle/nn/layer/parameters.py"},
    "BeamSearchDecoder": {"fluid/contrib/decoder/searching.py"},
    "Collective": {"fluid/transpiler/collective.py"},
    "Communicator": {"fluid/communicator.py"},
    "ChunkEvaluator": {"fluid/evaluator.py"},
    "DataType": {"paddle/dataset/imikolov.py"},
    "DetectionMAP": {"fluid/evaluator.py"},
    "DistributedBatchSampler": {"paddle/incubate/hapi/distributed.py"},
    "DistributedStrategy": {
        "fluid/incubate/fleet/collective/strategy.py",
        "fluid/incubate/fleet/parameter_server/distribute_transpiler/distributed_strategy.py",
    },
    "EditDistance": {"fluid/evaluator.py"},
    "Graph": {"fluid/graphviz.py"},
    "LRScheduler": {"paddle/hapi/callbacks.py"},
    "HDFSClient": {"fluid/incubate/fleet/utils/hdfs.py"},
    "Mode": {"fluid/incubate/fleet/base/mode.py"},
    "Normal": {"fluid/layers/distributions.py", "paddle/distribution/unbounded.py"},
    "Operator": {"fluid/op.py"},
    "OpRole": {"fluid/core.py"},
    "Strategy": {"fluid/contrib/slim/core/strategy.py"},
    "Trainer": {"fluid/contrib/trainer.py"},
    "Uniform": {"fluid/layers/distributions.py", "paddle/distribution/bounded.py"},
    "While": {"fluid/functions/control/while_loop.py"},
}
_TRANSFORMS = "BrightnessTransform ColorJitter ContrastTransform HueTransform SaturationTransform"
GIVEN |= {
    name: {"paddle/incubate/hapi/vision/transforms/transforms.py"} for name in _TRANSFORMS.split()
}
# Paddle 2 gives its names again, with other arguments, so they may be twice: once there.
PADDLE = "paddle/"


def places(files: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Names that a class has, and where else they are given to something."""
    classes: defaultdict[str, list[str]] = defaultdict(list)
    others: list[tuple[str, str]] = []
    for name, source in files:
        tree = ast.parse(source)
        nodes = ast.walk(tree) if "class " in source else ()
        for node in nodes:
            if isinstance(node, ast.ClassDef):
                classes[node.name].append(name)
        others += [(one, name) for one in assigned(tree)]
    for one, name in others:
        if one in classes:
            classes[one].append(name)
    return classes


def assigned(tree: ast.Module) -> Iterator[str]:
    """Names in capitals that a module gives to types, and whatever else."""
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        for target in targets:
            if isinstance(target, ast.Name) and not target.id.isupper():
                yield target.id


def several(known: dict[str, list[str]]) -> dict[str, list[str]]:
    """Names that mean more than one thing, with the files."""
    found = {}
    for name, where in known.items():
        left = [one for one in where if one not in GIVEN.get(name, ())]
        of_paddle = [one for one in left if one.startswith(PADDLE)]
        if len(of_paddle) > 1 or len(left) - len(of_paddle) > 1:
            found[name] = sorted(left)
    return found


def own_files() -> list[tuple[str, str]]:
    paths = sorted(path for path in SOURCE.rglob("*.py") if not path.name.endswith("_pb2.py"))
    named = [(path.relative_to(SOURCE).as_posix(), path) for path in paths]
    return [(name, path.read_text(encoding="utf-8")) for name, path in named if name not in APART]


def test_a_class_name_means_one_thing() -> None:
    known = places(own_files())
    found = several(known)
    assert not found, "\n".join(f"{name}: {', '.join(where)}" for name, where in found.items())
    assert all(where <= set(known[name]) for name, where in GIVEN.items()), "take these out"


def test_other_meanings_are_found() -> None:
    files = [("one.py", "class Step: ..."), ("other.py", "Step = int\nKEPT = 1\nclass Kept: ...")]
    assert several(places(files)) == {"Step": ["one.py", "other.py"]}
    nested = [("one.py", "class Step:\n    class Kind: ..."), ("b.py", "class Kind: ...")]
    assert several(places(nested))
