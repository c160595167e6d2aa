"""Loops, branches and recurrent networks."""

from __future__ import annotations

from typing import Any

from refluid import fluid
from tests.fluid.examples.feeds import Build, free, x

L = fluid.layers
VOCABULARY, HIDDEN = 10000, 200


def _sentence(width: int = 32) -> fluid.Variable:
    return fluid.data(name="sentence", shape=[None, width], dtype="float32", lod_level=1)


def _fill(value: float, *shape: int, dtype: str = "float32") -> fluid.Variable:
    return L.fill_constant(shape=list(shape) or [1], dtype=dtype, value=value)


def _array(write: bool) -> None:
    tensor = _fill(5, 3, 2, dtype="int64")
    place = _fill(10, dtype="int64")
    if write:
        array, message = L.array_write(tensor, i=place), "The content of i-th LoDTensor:"
    else:
        array = L.create_array(dtype="int64")
        L.array_write(tensor, place, array=array)
        message = "The LoDTensor of the i-th position:"
    L.Print(L.array_read(array, place), message=message)


def _while() -> None:
    i, limit = _fill(0, dtype="int64"), _fill(10, dtype="int64")
    going = L.less_than(x=i, y=limit)
    with L.While(cond=going).block():
        L.increment(x=i, value=1, in_place=True)
        L.less_than(x=i, y=limit, cond=going)


def _cond() -> None:
    a = free(-1, 1, name="a")
    b = free(-1, 1, name="b")
    product = a * b
    L.cond(a < b, lambda: a + product, lambda: b * b)


def _cond_of_pairs() -> None:
    pred = L.less_than(_fill(0.1), _fill(0.23))
    L.cond(
        pred,
        lambda: (_fill(1, 1, 2, dtype="int32"), _fill(1.0, 2, 3, dtype="bool")),
        lambda: (_fill(3, 3, 4), _fill(2, 4, 5, dtype="int64")),
    )


def _case() -> None:
    a, b, c = _fill(0.3), _fill(0.1), _fill(0.2)
    first, second, third = L.less_than(c, a), L.less_than(a, b), L.equal(a, b)

    def one() -> fluid.Variable:
        return _fill(1, 1, 2)

    def two() -> fluid.Variable:
        return _fill(2, 2, 2, dtype="int32")

    def three() -> fluid.Variable:
        return _fill(3, 3, dtype="int32")

    L.case(pred_fn_pairs=[(first, one), (second, two)], default=three)
    L.case(pred_fn_pairs=[(second, two), (third, three)])


def _ifelse() -> None:
    one, other = x(4, 1), x(4, 1, name="y")
    either = L.IfElse(L.greater_than(one, other))
    with either.true_block():
        either.output(either.input(one) - 10)
    with either.false_block():
        either.output(either.input(one) + 10)
    (out,) = either()
    L.reduce_sum(out)


def _static(boot: bool) -> None:
    ids = free(-1, 1, 1, dtype="int64")
    start = L.data("boot", shape=[HIDDEN], dtype="float32", lod_level=1) if boot else None
    words = L.embedding(ids, size=[VOCABULARY, HIDDEN], dtype="float32", is_sparse=False)
    words = L.transpose(words, perm=[1, 0, 2])
    rnn = L.StaticRNN()
    with rnn.step():
        word = rnn.step_input(words)
        if start is None:
            prev = rnn.memory(shape=[-1, HIDDEN], batch_ref=word)
        else:
            prev = rnn.memory(init=start)
        rnn.update_memory(prev, L.fc(input=[word, prev], size=HIDDEN, act="relu"))


def _dynamic_boot() -> None:
    sentence, boot = _sentence(), x(-1, 10, name="boot")
    rnn = L.DynamicRNN()
    with rnn.block():
        word = rnn.step_input(sentence)
        memory = rnn.memory(init=boot, need_reorder=True)
        hidden = L.fc(input=[word, memory], size=10, act="tanh")
        rnn.update_memory(ex_mem=memory, new_mem=hidden)
        rnn.output(hidden)
    rnn()


def _dynamic(embed: bool) -> None:
    size, act = (200, "relu") if embed else (10, "tanh")
    if embed:
        ids = fluid.data(name="sentence", shape=[None, 1], dtype="int64", lod_level=1)
        sentence = L.embedding(input=ids, size=[65536, 32], is_sparse=True)
    else:
        sentence = _sentence()
    rnn = L.DynamicRNN()
    with rnn.block():
        word = rnn.step_input(sentence)
        memory = rnn.memory(shape=[size], dtype="float32", value=0)
        hidden = L.fc(input=[word, memory], size=size, act=act)
        rnn.update_memory(ex_mem=memory, new_mem=hidden)
        rnn.output(hidden)
    rnn()


def _dynamic_decoder() -> None:
    sentence = _sentence()
    encoded = fluid.data(name="encoder_proj", shape=[None, 32], dtype="float32", lod_level=1)
    boot = x(-1, 10, name="boot")
    rnn = L.DynamicRNN()
    with rnn.block():
        word = rnn.step_input(sentence)
        static = rnn.static_input(encoded)
        memory = rnn.memory(init=boot, need_reorder=True)
        first = L.fc(input=static, size=30)
        inputs = first + L.fc(input=word, size=30)
        hidden, _, _ = L.gru_unit(input=inputs, hidden=memory, size=30)
        rnn.update_memory(ex_mem=memory, new_mem=hidden)
        rnn.output(hidden, L.fc(input=hidden, size=10, act="softmax"))
    _, last = rnn()
    L.sequence_last_step(last)


def _rnn() -> None:
    inputs = x(-1, 32, 128, name="inputs")
    L.rnn(cell=L.GRUCell(hidden_size=128), inputs=inputs)


def _decode() -> None:
    encoded = x(-1, 32, 128, name="encoder_output")

    def embed(ids: fluid.Variable) -> fluid.Variable:
        attr = fluid.ParamAttr(name="trg_embedding")
        return fluid.embedding(ids, size=[VOCABULARY, 128], param_attr=attr)

    def score(outputs: fluid.Variable) -> fluid.Variable:
        return L.fc(
            outputs,
            size=VOCABULARY,
            num_flatten_dims=len(outputs.shape) - 1,
            param_attr=fluid.ParamAttr(name="output_w"),
            bias_attr=False,
        )

    cell = L.GRUCell(hidden_size=128)
    decoder = L.BeamSearchDecoder(
        cell, start_token=0, end_token=1, beam_size=4, embedding_fn=embed, output_fn=score
    )
    L.dynamic_decode(decoder=decoder, inits=cell.get_initial_states(encoded))


def _basic_decoder() -> None:
    start: Any = 0
    x(-1, -1, 128, name="trg_emb")
    L.SampleEmbeddingHelper(lambda ids: ids, start_tokens=start, end_token=1)


def _basic_gru() -> Any:
    return fluid.contrib.basic_gru(
        free(-1, 20, 128, name="input"),
        free(-1, 256, name="pre_hidden"),
        256,
        num_layers=2,
        sequence_length=free(-1, name="sequence_length", dtype="int32"),
        dropout_prob=0.5,
        bidirectional=True,
        batch_first=False,
    )


def _lstm_unit() -> Any:
    unit = fluid.contrib.layers.BasicLSTMUnit("gru_unit", 256)
    return unit(*(x(-1, size, name=name) for name, size in _LSTM_INPUTS))


_LSTM_INPUTS = (("input", 128), ("pre_hidden", 256), ("pre_cell", 256))
EXAMPLES: dict[str, Build] = {
    "contrib.BasicLSTMUnit-0": _lstm_unit,
    "contrib.basic_gru-0": _basic_gru,
    "layers.BasicDecoder-0": _basic_decoder,
    "layers.DynamicRNN.__call__-0": _dynamic_decoder,
    "layers.DynamicRNN.memory-0": _dynamic_boot,
    "layers.DynamicRNN.memory-1": lambda: _dynamic(embed=False),
    "layers.DynamicRNN.step_input-0": lambda: _dynamic(embed=True),
    "layers.IfElse-0": _ifelse,
    "layers.StaticRNN.memory-0": lambda: _static(boot=False),
    "layers.StaticRNN.memory-1": lambda: _static(boot=True),
    "layers.While-0": _while,
    "layers.array_read-0": lambda: _array(write=False),
    "layers.array_write-0": lambda: _array(write=True),
    "layers.case-0": _case,
    "layers.cond-0": _cond,
    "layers.cond-1": _cond_of_pairs,
    "layers.dynamic_decode-0": _decode,
    "layers.rnn-0": _rnn,
}
