"""Small programs that between them use the loops of refluid's own: `refluid prepare` runs them."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from refluid import fluid
from refluid.core import flags
from refluid.fluid.dataset import DatasetFactory
from refluid.kernels.few_rows.product import by_rows, spanned
from refluid.kernels.machine_code import unkept
from refluid.kernels.panels.filters import by_panels
from refluid.kernels.panels.product import laid_product, lay_panels, panel_product
from refluid.kernels.rows.dealing import DealtIds
from refluid.kernels.rows.draws import NORMAL, UNIFORM, RowDraws
from refluid.kernels.rows.ids import PARTS, IdMap, merge_ids

layers: Any = fluid.layers
# So many runs that the later ones are recorded steps, which have loops of their own.
_STEPS = 8
_DENSE = """
    SGD Momentum LarsMomentum Adagrad DecayedAdagrad Adadelta Adam Adamax RMSProp Ftrl Lamb
"""
_OF_ROWS = """
    SGD Momentum Adagrad Adam
"""


def tables() -> None:
    """Rows of tables looked up and updated: one table and several, few rows and many."""
    for name in _OF_ROWS.split():
        for widths, rows in (((16,), 64), ((16, 16, 8), 64), ((16, 16), 2048), ((16, 16), 4096)):
            lazy = {"lazy_mode": True} if name == "Adam" else {}
            ids = np.random.default_rng(0).integers(0, 1000, (rows, 1))
            _train(partial(_bag, widths), _optimizer(name, **lazy), {"ids": ids})


def sequences() -> None:
    """Steps of LSTMs and GRUs over sequences, with and without peepholes: large and small ones."""
    rows = np.random.default_rng(0).random((96, 64)).astype("float32")
    x = fluid.create_lod_tensor(rows, [[30, 41, 25]], fluid.CPUPlace())
    for width, loops_at_once in ((512, False), (16, True)):  # small ones get loops after some steps
        with flags.override({"FLAGS_cpu_deterministic": loops_at_once}):
            for unit in (_lstm, _gru):
                _train(partial(unit, width), _optimizer("SGD"), {"x": x})


def labelling() -> None:
    """Likelihoods and best tags of a few words and of many, their chunks, areas under curves."""
    rng = np.random.default_rng(0)
    for lengths in ([2, 3], [20, 30]):
        rows = sum(lengths), 1
        made = {"x": rng.random((rows[0], 64)).astype("float32"), "tag": rng.integers(0, 40, rows)}
        feed = {
            name: fluid.create_lod_tensor(one, [lengths], fluid.CPUPlace())
            for name, one in made.items()
        }
        with flags.override({"FLAGS_cpu_deterministic": True}):  # loops at once
            _train(_tagger, _optimizer("SGD"), feed)


def optimizers() -> None:
    """Updates of dense parameters, with gradients clipped by the norm of all."""
    x = np.ones((64, 256), np.float32)
    for name in _DENSE.split():
        clip = fluid.clip.GradientClipByGlobalNorm(1.0)
        _train(_layers, _optimizer(name, grad_clip=clip), {"x": x})


def losses() -> None:
    """Cross entropy of many classes and of many labels, that of sigmoids, and dropout."""
    rng = np.random.default_rng(0)
    for network, rows, classes in ((_of_many_classes, 256, 4096), (_of_many_labels, 9000, 8)):
        feed = {
            "x": rng.random((rows, 64)).astype("float32"),
            "label": rng.integers(0, classes, (rows, 1)),
        }
        _train(partial(network, classes), _optimizer("SGD"), feed)


def products() -> None:
    """Products by panels, of a right factor that is laid for one, of one that was before, and of
    windows of images; products of few rows."""
    a, b = torch.ones(64, 64), torch.ones(64, 64)
    for right in (b, b.t()):
        by_rows(a[:5], right, None)
    spanned(a[:, :5], b[:5])
    for side in (4, 80):  # few windows, and many
        images = torch.ones(1, 16, side, side).contiguous(memory_format=torch.channels_last)
        by_panels(images, images, torch.ones(16, 16, 3, 3), (1, 1), (1, 1), (1, 1))
    panel_product(a, b)
    for rows in range(1, 65):
        laid_product(a[:rows], b, lay_panels(b))


def text() -> None:
    """Lines of samples as a Dataset reads and shuffles them."""
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup):
        ids = fluid.data("ids", [None, 1], "int64", lod_level=1)
        rate = fluid.data("rate", [None, 1])
        words = layers.sequence_pool(layers.embedding(ids, (10, 4)), "sum")
        fluid.optimizer.SGD(0.1).minimize(layers.mean(layers.concat([words, rate], 1)))
    dataset: Any = DatasetFactory().create_dataset("InMemoryDataset")
    dataset.set_use_var([ids, rate])
    dataset.set_batch_size(4)
    exe: Any = fluid.Executor(fluid.CPUPlace())
    with tempfile.TemporaryDirectory() as folder, fluid.scope_guard(fluid.Scope()):
        path = Path(folder, "part")
        path.write_text("2 7 9 1 0.5\n1 3 1 1e-3\n" * 8)
        dataset.set_filelist([str(path)])
        dataset.load_into_memory()
        dataset.local_shuffle()
        exe.run(startup)
        exe.train_from_dataset(main, dataset)


def search() -> None:
    """A step of a search by beams."""
    main, words = fluid.Program(), np.ones((4, 1), np.int64)
    lod = [[2, 2], [1, 1, 1, 1]]
    with fluid.program_guard(main):
        ids = fluid.data("ids", [None, 1], "int64", lod_level=2)
        kept = fluid.data("kept", [None, 1], lod_level=2)
        chosen, scores = layers.topk(layers.softmax(layers.expand(kept, [1, 8])), 4)
        found = layers.beam_search(ids, kept, scores, layers.log(chosen), 2, 0)
    feed = {
        "ids": fluid.create_lod_tensor(words, lod, fluid.CPUPlace()),
        "kept": fluid.create_lod_tensor(words.astype("float32"), lod, fluid.CPUPlace()),
    }
    exe: Any = fluid.Executor(fluid.CPUPlace())
    exe.run(main, feed=feed, fetch_list=[found[0]], return_numpy=False)


def servers() -> None:
    """Ids of tables on servers: dealt, merged, mapped to rows, and the rows' first values."""
    ids = torch.arange(4096) % 1000
    for kind in (torch.float32, torch.float64):
        value, sums = torch.ones(4096, 8, dtype=kind), np.zeros((1000, 8), str(kind)[6:])
        merge_ids(ids, value)
        dealt = DealtIds(ids.numpy(), torch.zeros(PARTS, dtype=torch.int16), 1)
        dealt.spread(0, sums, value.numpy())
        dealt.add_up(0, value.numpy(), sums)
        for how in (UNIFORM, NORMAL):
            RowDraws(how, 0.0, 1.0).fill(ids, value)
    places = IdMap()
    places.add(ids)
    places.find(ids[:8].contiguous())


def _bag(widths: Sequence[int]) -> Any:
    ids = fluid.data("ids", [None, 1], "int64")
    found = [layers.embedding(ids, (1000, width), is_sparse=True) for width in widths]
    return layers.mean(layers.fc(layers.concat(found, 1), 4))


def _lstm(width: int) -> Any:
    x, gates = fluid.data("x", [None, 64], lod_level=1), 4 * width
    hidden = [
        layers.dynamic_lstm(layers.fc(x, gates), gates, use_peepholes=peepholes)[0]
        for peepholes in (False, True)
    ]
    return layers.mean(layers.concat(hidden, 1))


def _gru(width: int) -> Any:
    x = fluid.data("x", [None, 64], lod_level=1)
    return layers.mean(layers.dynamic_gru(layers.fc(x, 3 * width), width))


def _tagger() -> Any:
    x, tag = fluid.data("x", [None, 64], lod_level=1), fluid.data("tag", [None, 1], "int64", 1)
    emission, weights = layers.fc(x, 40), fluid.ParamAttr("transition")
    cost = layers.linear_chain_crf(emission, tag, weights)
    layers.chunk_eval(layers.crf_decoding(emission, weights), tag, "IOB", 20)
    layers.auc(layers.softmax(emission), tag)
    return layers.mean(cost)


def _layers() -> Any:
    return layers.mean(layers.fc(layers.fc(fluid.data("x", [None, 256]), 512), 256))


def _samples() -> tuple[Any, Any]:
    return fluid.data("x", [None, 64]), fluid.data("label", [None, 1], "int64")


def _of_many_classes(classes: int) -> Any:
    x, label = _samples()
    scores = layers.fc(layers.dropout(layers.fc(x, 512), 0.5), classes)
    one = layers.softmax_with_cross_entropy(scores, label)
    each = layers.sigmoid_cross_entropy_with_logits(scores, layers.relu(scores))
    return layers.mean(one) + layers.mean(each)


def _of_many_labels(classes: int) -> Any:
    x, label = _samples()
    scores = layers.fc(x, classes)
    logits = layers.softmax_with_cross_entropy(scores, label)
    return layers.mean(logits) + layers.mean(layers.cross_entropy(layers.softmax(scores), label))


def _optimizer(name: str, **more: Any) -> Any:
    """One by its name, with what it needs."""
    made = getattr(fluid.optimizer, f"{name}Optimizer")
    momentum = {"momentum": 0.9} if "Momentum" in name else {}
    return partial(made, learning_rate=0.01, **momentum, **more)


def _train(network: Callable[[], Any], optimizer: Callable[[], Any], feed: Any) -> None:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        loss = network()
        optimizer().minimize(loss)
    # Some loops are for teams alone, which a loaded machine would be spared.
    whole = flags.override({"FLAGS_refluid_adaptive_threads": False})
    with fluid.scope_guard(fluid.Scope()), whole:
        exe: Any = fluid.Executor(fluid.CPUPlace())
        exe.run(startup)
        for _ in range(_STEPS):
            exe.run(main, feed=feed, fetch_list=[loss])


PROGRAMS: Mapping[str, Callable[[], None]] = {
    one.__name__: one
    for one in (
        *(products, tables, sequences, labelling, optimizers),
        *(losses, servers, text, search),
    )
}

if __name__ == "__main__":
    torch.set_num_threads(2)  # a team at least
    PROGRAMS[sys.argv[1]]()
    if unkept:
        sys.exit("; ".join(f"{name} isn't kept: {why}" for name, why in unkept.items()))
