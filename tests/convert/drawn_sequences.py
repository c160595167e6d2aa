"""Recurrent layers, loops, sequences and labels at random sizes and attributes."""

from __future__ import annotations

from typing import Any

import refluid.fluid as fluid
from tests.convert.drawing import Random, case, floats, pick, rows, with_lengths
from tests.convert.networks import Network

layers = fluid.layers


@case
def gru(draw: Random) -> Any:
    size, first = int(draw.randint(1, 6)), draw.rand() < 0.5
    options = {
        "is_reverse": bool(draw.randint(2)),
        "origin_mode": bool(draw.randint(2)),
        "candidate_activation": pick(draw, "tanh", "relu", "identity"),
        "gate_activation": pick(draw, "sigmoid", "tanh"),
        "bias_attr": pick(draw, None, False),
    }
    x = rows(draw, 3 * size)
    h = floats(draw, len(x.recursive_sequence_lengths()[0]), size)

    def build() -> Network:
        given = fluid.data("x", [None, 3 * size], lod_level=1)
        state = fluid.data("h", [None, size]) if first else None
        out = layers.dynamic_gru(given, size, h_0=state, **options)
        return (["x", "h"] if first else ["x"]), [out], None

    return build, {"x": x, "h": h}


@case
def lstm(draw: Random) -> Any:
    size, first = int(draw.randint(1, 6)), draw.rand() < 0.5
    options = {
        "use_peepholes": bool(draw.randint(2)),
        "is_reverse": bool(draw.randint(2)),
        "candidate_activation": pick(draw, "tanh", "relu"),
        "cell_activation": pick(draw, "tanh", "sigmoid"),
    }
    x = rows(draw, 4 * size)
    h, c = (floats(draw, len(x.recursive_sequence_lengths()[0]), size) for _ in range(2))

    def build() -> Network:
        given = fluid.data("x", [None, 4 * size], lod_level=1)
        states = {}
        if first:
            states = {name: fluid.data(name[0], [None, size]) for name in ("h_0", "c_0")}
        hidden, cell = layers.dynamic_lstm(given, 4 * size, **states, **options)
        return ["x", *(["h", "c"] if first else [])], [hidden, cell], None

    return build, {"x": x, "h": h, "c": c}


@case
def lstmp(draw: Random) -> Any:
    size, projected = (int(one) for one in draw.randint(1, 6, 2))
    options = {
        "use_peepholes": bool(draw.randint(2)),
        "is_reverse": bool(draw.randint(2)),
        "cell_clip": pick(draw, None, 0.3),
        "proj_clip": pick(draw, None, 0.2),
        "proj_activation": pick(draw, "tanh", "identity"),
    }

    def build() -> Network:
        given = fluid.data("x", [None, 4 * size], lod_level=1)
        hidden, cell = layers.dynamic_lstmp(given, 4 * size, projected, **options)
        return ["x"], [hidden, cell], None

    return build, {"x": rows(draw, 4 * size)}


@case
def static_rnn(draw: Random) -> Any:
    size, steps, batch = (int(one) for one in draw.randint(2, 5, 3))

    def build() -> Network:
        given = fluid.data("x", [steps, batch, size])
        rnn = layers.StaticRNN()
        with rnn.step():
            word = rnn.step_input(given)
            one = rnn.memory(shape=[-1, size], batch_ref=word)
            two = rnn.memory(shape=[-1, size], batch_ref=word, init_value=0.5)
            new = layers.fc([word, two], size, act="tanh")
            rnn.update_memory(one, new)  # the two change places
            rnn.update_memory(two, layers.elementwise_add(one, word))
            rnn.step_output(new)
            rnn.step_output(layers.scale(one, 2.0))
        outs = rnn()
        return ["x"], [layers.reduce_sum(outs[0], dim=[0]), outs[1]], None

    return build, {"x": floats(draw, steps, batch, size)}


@case
def dynamic_rnn(draw: Random) -> Any:
    width, size = (int(one) for one in draw.randint(2, 5, 2))
    x = rows(draw, width)
    first = floats(draw, len(x.recursive_sequence_lengths()[0]), size)

    def build() -> Network:
        given = fluid.data("x", [None, width], lod_level=1)
        state = fluid.data("h", [None, size])
        rnn = layers.DynamicRNN()
        with rnn.block():
            word = rnn.step_input(given)
            memory = rnn.memory(init=state, need_reorder=True)
            new = layers.fc([word, memory], size, act="tanh")
            rnn.update_memory(memory, new)
            rnn.output(new, layers.softmax(new))
        first_out, second = rnn()
        return ["x", "h"], [layers.sequence_last_step(first_out), second], None

    return build, {"x": x, "h": first}


@case
def while_loop(draw: Random) -> Any:
    count, width = (int(one) for one in draw.randint(2, 6, 2))

    def build() -> Network:
        given = fluid.data("x", [None, width])
        place = layers.fill_constant([1], "float32", 0.0)
        limit = layers.fill_constant([1], "float32", float(count))

        def test(one: Any, *_: Any) -> Any:
            return layers.less_than(one, limit)

        def body(one: Any, total: Any, before: Any) -> Any:
            return [one + 1.5, before, layers.tanh(total + before)]

        found = layers.while_loop(test, body, [place, given, layers.scale(given, 0.5)])
        return ["x"], found[1:], None

    return build, {"x": floats(draw, 3, width)}


@case
def branches(draw: Random) -> Any:
    def build() -> Network:
        given = fluid.data("x", [None, 3])
        positive = layers.reduce_sum(given) > 0.0
        out = layers.cond(positive, lambda: layers.tanh(given), lambda: given * 2.0 - 1.0)
        return ["x"], [layers.scale(out, 3.0)], None

    return build, {"x": floats(draw, 4, 3)}


@case
def crf(draw: Random) -> Any:
    tags = int(draw.randint(2, 6))
    x = rows(draw, tags)
    labels = with_lengths(draw, x, 1, tags)

    def build() -> Network:
        given = fluid.data("x", [None, tags], lod_level=1)
        label = fluid.data("y", [None, 1], "int64", lod_level=1)
        attr = fluid.ParamAttr(name="crfw")
        cost = layers.linear_chain_crf(given, label, attr)
        return ["x", "y"], [cost, layers.crf_decoding(given, attr)], None

    return build, {"x": x, "y": labels}


@case
def sequences(draw: Random) -> Any:
    width = int(draw.randint(1, 4)) * 2
    x = rows(draw, width)
    each = floats(draw, len(x.recursive_sequence_lengths()[0]), 3)
    length = pick(draw, None, 9)

    def build() -> Network:
        given = fluid.data("x", [None, width], lod_level=1)
        row = fluid.data("r", [None, 3])
        zero = layers.fill_constant([1], "float32", pick(draw, 0.0, 0.5))
        dense, lengths = layers.sequence_pad(given, zero, maxlen=length)
        again = layers.sequence_unpad(layers.scale(dense, 2.0), lengths)
        shorter = layers.sequence_reshape(given, 2)
        return (
            ["x", "r"],
            [
                layers.sequence_pool(layers.sequence_reverse(again), "first"),
                layers.sequence_expand(row, given),
                layers.sequence_pool(layers.sequence_expand_as(row, given), "sqrt"),
                layers.sequence_pool(shorter, "max"),
                layers.sequence_conv(given, 3, pick(draw, 3, 5)),
                layers.sequence_softmax(layers.reduce_sum(given, 1, keep_dim=True)),
                layers.sequence_pool(layers.sequence_concat([given, again]), "average"),
                layers.sequence_mask(lengths, maxlen=length, dtype="float32"),
                dense,
            ],
            None,
        )

    return build, {"x": x, "r": each}


@case
def labels(draw: Random) -> Any:
    classes = int(draw.randint(3, 6))
    x = rows(draw, classes, 8)
    counts = [max(1, one // 3) for one in x.recursive_sequence_lengths()[0]]
    y = draw.randint(0, classes - 1, (sum(counts), 1))
    label = fluid.create_lod_tensor(y.astype("int32"), [counts], fluid.CPUPlace())

    def build() -> Network:
        given = fluid.data("x", [None, classes], lod_level=1)
        wanted = fluid.data("y", [None, 1], "int32", lod_level=1)
        cost = layers.warpctc(given, wanted, blank=classes - 1, norm_by_times=pick(draw, 0, 1) > 0)
        found = layers.ctc_greedy_decoder(given, blank=classes - 1)
        found = layers.sequence_pool(layers.cast(found, "float32"), "sum")
        return ["x", "y"], [cost, found], None

    return build, {"x": x, "y": label}
