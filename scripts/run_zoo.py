"""Runs scripts of the public PaddlePaddle/models repository, unmodified, under `refluid run`.

python scripts/run_zoo.py CLONE [--only WORD] [--branch 1.8] [--into DIR] [--out results.json]

CLONE is a clone of the repository, bare or not, with its branches release/1.5 to release/1.8; with
`--repository NAME` that of another one (`zoo/others.py`).
Each script gets the small data that `zoo/recipes.py` names. It counts where it ends by itself and
its loss falls (the mean of the last fifth is below that of the first), or its reward rises. Where a
script that infers belongs to it, that one has to end by itself too, on what was saved.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from zoo.checkout import check_out
from zoo.recipes import RECIPES, Recipe

_OBSERVER = Path(__file__).parent / "zoo" / "observer.py"


def main() -> int:
    options = _options()
    into = Path(options.into or tempfile.mkdtemp(prefix="zoo"))
    results = []
    for recipe in RECIPES:
        for branch in recipe.branches:
            wanted = recipe.repository == options.repository and options.only in recipe.name
            if not wanted or options.branch not in (None, branch):
                continue
            result = run_recipe(recipe, branch, options.clone, into, options.limit)
            results.append(result)
            print(line_of(result), flush=True)
            if options.out:
                Path(options.out).write_text(json.dumps(results, indent=1) + "\n")
    good = sum(one["verdict"] == "trains" for one in results)
    print(f"{good} of {len(results)} runs train with a falling loss; files in {into}")
    return 0 if good == len(results) else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("clone", type=Path)
    parser.add_argument("--only", default="", help="scripts whose path has this in it")
    parser.add_argument("--branch", help="one branch: 1.5, 1.6, 1.7 or 1.8")
    parser.add_argument("--repository", default="", help="the clone is of this one: PaddleSeg")
    parser.add_argument("--into", help="the scratch folder (default: a new one)")
    parser.add_argument("--out", help="a JSON file of results")
    parser.add_argument("--limit", type=int, default=300, help="seconds for each script")
    return parser.parse_args()


def run_recipe(recipe: Recipe, branch: str, clone: Path, into: Path, limit: int) -> dict[str, Any]:
    """Checks the script's folder out, makes data, trains, infers; what came of it."""
    folder = recipe.elsewhere.get(branch, recipe.folder)
    number = RECIPES.index(recipe)
    root = into / f"{branch.replace('/', '-')}-{number}"
    top = [*recipe.beside] if folder == "." else [folder, *recipe.beside]
    check_out(clone, branch if recipe.repository else f"release/{branch}", top, root)
    where = root / folder
    result: dict[str, Any] = {
        "script": str(Path(folder) / recipe.train.split()[0]),
        "repository": recipe.repository,
        "branch": branch,
        "arguments": recipe.train.split(maxsplit=1)[1:],
        "options": recipe.options,
    } | ({"rises": True} if recipe.rises else {})
    if not (where / recipe.train.split()[0]).is_file():
        return result | {"verdict": "not in this branch"}
    recipe.make(where, np.random.default_rng(7))
    began = time.perf_counter()
    ran, losses = _run(recipe.train, where, root / "train", limit, recipe)
    result |= {"seconds": round(time.perf_counter() - began), "losses": losses, "status": ran}
    result["verdict"] = verdict_of(ran, losses, rises=recipe.rises)
    if recipe.infer and ran == 0:
        result["infer"], _ = _run(recipe.infer, where, root / "infer", limit, recipe)
        if result["infer"] and result["verdict"] == "trains":
            result["verdict"] = "trains, but what infers fails"
    return result


def _run(
    command: str, where: Path, log: Path, limit: int, recipe: Recipe
) -> tuple[int, list[float]]:
    """The exit status (None: out of time) and the losses of `refluid run COMMAND`."""
    words, environment = observed(recipe, command, log)
    with open(log.with_suffix(".log"), "w", encoding="utf-8") as output:
        try:
            status = subprocess.run(
                words,
                cwd=where,
                env=environment,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=limit,
                check=False,
            ).returncode
        except subprocess.TimeoutExpired:
            status = 124
    return status, losses_seen(recipe, log.with_suffix(".log"))


def observed(recipe: Recipe, command: str, log: Path) -> tuple[list[str], dict[str, str]]:
    """The words and the environment of `refluid run COMMAND` whose losses are written down."""
    run = ["run", *shlex.split(f"{recipe.options} {command}")]
    environment = {"CPU_NUM": "1", "OMP_NUM_THREADS": "1"} | os.environ
    environment |= {"ZOO_STEPS": str(recipe.steps)}
    if recipe.samples:
        environment["ZOO_DATA"] = recipe.samples
    return [sys.executable, str(_OBSERVER), str(log.with_suffix(".jsonl")), *run], environment


def losses_seen(recipe: Recipe, log: Path) -> list[float]:
    """What a script printed, or what its observer wrote down beside its log."""
    if recipe.printed:
        text = log.read_text(encoding="utf-8", errors="replace")
        return [float(one) for one in re.findall(recipe.printed, text)]
    seen = log.with_suffix(".jsonl")
    lines = seen.read_text(encoding="utf-8").splitlines() if seen.exists() else []
    program, number = recipe.judged
    runs = [one for one in map(json.loads, lines) if one["program"] == program]
    return [run["numbers"][number] for run in runs if len(run["numbers"]) > number]


def verdict_of(status: int, losses: list[float], *, rises: bool = False) -> str:
    """In words. rises: they are rewards."""
    if status == 124:
        return "out of time"
    if status != 0:
        return f"fails ({status})"
    if len(losses) < 5:
        return f"shows {len(losses)} losses"
    if not np.isfinite(losses).all():
        return "loss is not finite"
    part = max(1, len(losses) // 5)
    first, last = np.mean(losses[:part]), np.mean(losses[-part:])
    return "trains" if (last > first if rises else last < first) else "loss does not fall"


def course_of(losses: list[float]) -> str:
    """How many there are, and the means of the first and the last fifth."""
    part = max(1, len(losses) // 5)
    means = (f"{np.mean(some):.4g}" for some in (losses[:part], losses[-part:]) if some)
    return f"{len(losses)} losses, {' -> '.join(means)}" if losses else "no losses"


def line_of(result: dict[str, Any]) -> str:
    """One line of the report."""
    numbers = course_of(result.get("losses") or [])
    return f"{result['branch']} {result['script']}: {result['verdict']}; {numbers}"


if __name__ == "__main__":
    sys.exit(main())
