"""`python scripts/zoo/page.py RESULTS.json ... > docs/model-zoo.md`: results as a page."""

from __future__ import annotations

import json
import re
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

_HEAD = """\
# Public scripts that run unmodified

Training scripts of the public repository PaddlePaddle/models, branches release/1.5 to release/1.8,
run as they are by `refluid run`, on CPU, on small data made for each (`scripts/zoo/data/`). This
page is written by `scripts/zoo/page.py` from results of

    python scripts/run_zoo.py CLONE --out results.json   # CLONE: of PaddlePaddle/models
    python scripts/zoo/page.py results.json > docs/model-zoo.md

A script **trains** where it ends by itself with status 0 and the mean of the last fifth of its
losses is below that of the first; rewards have to rise instead. The losses are what `Executor.run`
fetched in runs of a program that updates parameters (`judged` of its recipe says which); of scripts
that train on a dataset, and of rewards, what is printed. *infers*: a second script of the same
folder ran on what was saved. *seconds* are those of training on a busy machine of two cores,
starting included.

The data is small and easy: falling losses show that the scripts run and learn, not that they reach
what their papers say. Scripts need packages that Fluid didn't bring (pandas, opencv, pycocotools,
gym 0.17) where they import them.

"""
_TAIL = """\
## Those that can't

Found when the training scripts of the four branches were tried as they are (not those of PaddleSlim
and those that train in several processes):

| scripts | why |
|---|---|
| PointNet++, PointRCNN, rrpn | [operators compiled for Fluid](custom_operators.md) |
| fast_imagenet, ssd (quantised), rcnn of 1.5 | names that the repository itself lacks |
| icnet, sequence_tagging_for_ner | thousands of steps that no argument makes fewer |
| DeepASR's two that infer | one unpacks four values as three, one needs a decoder in C++ |
| dialogue_general_understanding, SPADE, ERNIE | begin with pretrained weights |
| dygraph/word2vec, and dygraph of 1.5 and 1.6 | give layers a name scope, and optimizers no list \
of parameters: Fluid 1.8 takes neither |
"""
_OTHERS = """\
Of other projects of PaddlePaddle, by `--repository NAME` of `run_zoo.py` and a clone of that one
(`scripts/zoo/others.py`). Configurations are made to ask for small pictures and few of them."""
_NETWORK = r"(?:--(?:model|model_net|model_name|rnn_model|config_path|cfg)|-c)[ =](\S+)"
_TRAINS = "trains"
_AT_ONCE = "dygraph/"
_TABLE = (
    "| script | branch | losses | first fifth | last fifth | infers | seconds |",
    "|---|---|---|---|---|---|---|",
)


def page_of(results: list[dict[str, Any]]) -> str:
    """The page. Of several results for a script, branch and arguments the last counts."""
    latest = {(r["script"], r["branch"], " ".join(r["arguments"])): r for r in results}
    every = [latest[key] for key in sorted(latest) if "losses" in latest[key]]
    rows = [one for one in every if not one.get("repository")]
    trained = [one for one in rows if one["verdict"].startswith(_TRAINS)]
    at_once = [one for one in trained if one["script"].startswith(_AT_ONCE)]
    good = [one for one in trained if one not in at_once]
    scripts = {one["script"] for one in good}
    files = {(one["script"], one["branch"]) for one in good}
    lines = [
        f"{len(good)} runs train with a falling loss: {len(scripts)} scripts, some with "
        f"several networks or in several branches ({len(files)} files).",
        "",
        *_TABLE,
    ]
    lines += [_row(one) for one in good]
    if at_once:
        lines += ["", *section_of(at_once)]
    lines += ["", "## Arguments", "", *_arguments(trained)]
    bad = [one for one in rows if one not in trained]
    if bad:
        lines += ["", "## Those that don't", "", "| script | branch | arguments | what happens |"]
        lines += ["|---|---|---|---|"]
        lines += [
            f"| `{r['script']}` | {r['branch']} | `{' '.join(r['arguments'])}` | {r['verdict']} |"
            for r in bad
        ]
    elsewhere = [one for one in every if one not in rows]
    if elsewhere:
        lines += ["", *section_of_others(elsewhere)]
    by_hand = Path(__file__).with_name("by_hand.md").read_text("utf-8")
    return _HEAD + "\n".join(lines) + "\n\n" + by_hand + _TAIL


def section_of(results: list[dict[str, Any]]) -> list[str]:
    """The scripts whose networks run at once."""
    scripts = {one["script"] for one in results}
    return [
        "## Networks that run at once",
        "",
        f"The {len(scripts)} scripts of the `dygraph` folders that train. Their losses are those "
        "whose gradients were computed; most are ended after some tens of steps.",
        "",
        *_TABLE,
        *map(_row, results),
    ]


def section_of_others(results: list[dict[str, Any]]) -> list[str]:
    """The scripts of other repositories, and with which arguments each was run."""
    results = sorted(results, key=lambda one: str(one["repository"]))
    trained = [one for one in results if one["verdict"].startswith(_TRAINS)]
    lines = ["## Other repositories", "", _OTHERS, "", *_TABLE]
    lines += [*(_row(one, f"{one['repository']}/") for one in trained), ""]
    for one in results:
        says = "" if one in trained else f" ({one['verdict']})"
        arguments = " ".join(one["arguments"])
        lines.append(f"- `{one['repository']}/{one['script']} {arguments}`{says}")
    return lines


def _row(result: dict[str, Any], before: str = "") -> str:
    losses = result["losses"]
    part = max(1, len(losses) // 5)
    first, last = (f"{np.mean(some):.4g}" for some in (losses[:part], losses[-part:]))
    told = " (rewards)" if result.get("rises") else ""
    infers = {None: "", 0: "yes"}.get(result.get("infer"), "no")
    return (
        f"| `{before}{result['script']}`{_network(result)}{told} | {result['branch']} "
        f"| {len(losses)} | {first} | {last} | {infers} | {result.get('seconds', '')} |"
    )


def _network(result: dict[str, Any]) -> str:
    """The network that the arguments name, where one script has several."""
    text = " ".join(result["arguments"])
    found = re.search(_NETWORK, text)
    return f" {Path(found[1]).stem}" if found else ""


def _arguments(results: list[dict[str, Any]]) -> list[str]:
    by_script: dict[str, dict[str, None]] = defaultdict(dict)
    for one in results:
        options = f"(`refluid run {one['options']}`) " if one.get("options") else ""
        command = " ".join(one["arguments"])
        by_script[one["script"]][f"{options}`{command}`" if command else "none"] = None
    lines = []
    for script, commands in by_script.items():
        lines.append(f"- `{script}`")
        lines += [f"  - {command}" for command in commands]
    return lines


if __name__ == "__main__":
    found = [one for path in sys.argv[1:] for one in json.loads(Path(path).read_text())]
    sys.stdout.write(page_of(found))
