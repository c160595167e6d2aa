"""Recurrent layers, CRF, sampled losses and beam search."""

from __future__ import annotations

from refluid import fluid
from tests.fluid.examples.feeds import Build, x

L = fluid.layers


def _words(name: str, is_sparse: bool = False, rows: int = 128, width: int = 64) -> fluid.Variable:
    words = fluid.data(name=name, shape=[None], dtype="int64", lod_level=1)
    return fluid.embedding(words, size=[rows, width], is_sparse=is_sparse)


def _dynamic_lstm() -> None:
    projected = L.fc(_words("x", True, 10000, 256), size=2048, bias_attr=False)
    L.dynamic_lstm(projected, size=2048, use_peepholes=False)


def _dynamic_lstmp() -> None:
    projected = L.fc(_words("sequence"), size=2048)
    L.dynamic_lstmp(
        projected,
        size=2048,
        proj_size=256,
        use_peepholes=False,
        is_reverse=True,
        cell_activation="tanh",
        proj_activation="tanh",
    )


def _dynamic_gru() -> None:
    L.dynamic_gru(L.fc(_words("sequence"), size=3 * 512), size=512)


def _gru_unit() -> None:
    words = x(None, name="step_data", dtype="int64")
    step = L.fc(fluid.embedding(words, size=[128, 64]), size=3 * 512)
    L.gru_unit(step, x(None, 512, name="pre_hidden"), size=3 * 512)


def _crf_decoding() -> None:
    words = fluid.data("word_emb", [None, 784], "float32", 1)
    label = fluid.data("label", [None, 1], "int64", 1)
    attr = fluid.ParamAttr(name="crfw")
    emission = L.fc(words, size=10)
    L.linear_chain_crf(emission, label, param_attr=attr)
    L.crf_decoding(emission, param_attr=attr)
    words, label = (
        x(None, 20, 784, name="word_emb_pad"),
        x(None, 20, 1, name="label_pad", dtype="int64"),
    )
    length = x(None, 1, name="length", dtype="int64")
    attr = fluid.ParamAttr(name="crfw_pad")
    emission = L.fc(words, size=10, num_flatten_dims=2)
    L.linear_chain_crf(emission, label, length=length, param_attr=attr)
    L.crf_decoding(emission, length=length, param_attr=attr)


def _chunk_eval() -> None:
    words = fluid.data("id", [None, 1], "int64", 1)
    label = fluid.data("label", [None, 1], "int64", 1)
    emission = L.fc(fluid.embedding(words, size=[10000, 512]), size=512)
    attr = fluid.ParamAttr(name="crfw")
    L.linear_chain_crf(emission, label, param_attr=attr)
    L.chunk_eval(L.crf_decoding(emission, attr), label, "IOB", 3)


def _hsigmoid() -> None:
    data = L.fill_constant([4, 3], "float32", 0.9)
    label = L.fill_constant([4, 1], "int64", 1)
    given = [fluid.initializer.Constant(value=value) for value in (0.05, 0.0)]
    L.hsigmoid(data, label, num_classes=2, param_attr=given[0], bias_attr=given[1])


def _beam_search() -> None:
    before = [
        fluid.data(name, [None, 1], dtype, 2)
        for name, dtype in (("pre_id", "int64"), ("pre_scores", "float32"))
    ]
    scores, ids = L.topk(x(None, 10000, name="probs"), k=4)
    total = L.elementwise_add(L.log(scores), L.reshape(before[1], shape=[-1]), axis=0)
    L.beam_search(before[0], before[1], ids, total, beam_size=4, end_id=1)


EXAMPLES: dict[str, Build] = {
    "layers.beam_search-0": _beam_search,
    "layers.chunk_eval-4": _chunk_eval,
    "layers.crf_decoding-0": _crf_decoding,
    "layers.dynamic_gru-0": _dynamic_gru,
    "layers.dynamic_lstm-0": _dynamic_lstm,
    "layers.dynamic_lstmp-0": _dynamic_lstmp,
    "layers.gru_unit-0": _gru_unit,
    "layers.hsigmoid-0": _hsigmoid,
    "layers.sampling_id-0": lambda: L.sampling_id(x(13, 11, name="X")),
}
