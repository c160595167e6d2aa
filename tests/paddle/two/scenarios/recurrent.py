"""Recurrent layers and cells: results and gradients, at once and in programs."""

import numpy as np

T, N, F, H = 5, 3, 4, 6


def _numbers(random, *shape):
    return random.uniform(-1, 1, shape).astype("float32")


def _flat(found):
    if isinstance(found, (list, tuple)):
        return [one for part in found for one in _flat(part)]
    return [found]


def _parameters(layer):
    """Each parameter once, by the shortest of its names."""
    return sorted(layer.named_parameters(), key=lambda pair: pair[0])


def _weights(random, outs):
    return [
        random.uniform(0.5, 1.5, [int(size) for size in out.shape]).astype("float32")
        for out in outs
    ]


def _given(random, major, starts, lengths, layers):
    found = {"x": _numbers(random, *((T, N, F) if major else (N, T, F)))}
    for n in range(starts):
        found[f"start{n}"] = _numbers(random, *((layers, N, H) if layers else (N, H)))
    if lengths:
        found["lengths"] = np.array([5, 2, 3], "int64")
    return found


def _call(layer, values, starts, lengths, layers):
    states = [values[f"start{n}"] for n in range(starts)]
    start = None if not states else states[0] if starts == 1 else tuple(states)
    if lengths is None:
        return layer(values["x"], start)
    return layer(values["x"], start, values["lengths"] if lengths else None)


def _at_once(make, starts=0, lengths=False, layers=1, major=False):
    def run(paddle):
        paddle.disable_static()
        random = np.random.RandomState(11)
        layer = make(paddle.nn)
        for _, one in _parameters(layer):
            one.set_value(_numbers(random, *one.shape))
        given = _given(random, major, starts, lengths, layers)
        values = {
            name: paddle.to_tensor(one, stop_gradient=one.dtype.kind == "i")
            for name, one in given.items()
        }
        if lengths is None:
            values["x"] = values["x"][:, 0]
        outs = _flat(_call(layer, values, starts, lengths, layers))
        loss = 0.0
        for out, weights in zip(outs, _weights(random, outs), strict=True):
            loss = loss + (out * paddle.to_tensor(weights)).sum()
        loss.backward()
        found = {f"out{n}": out.numpy() for n, out in enumerate(outs)}
        found |= {f"grad_{name}": one.gradient() for name, one in _parameters(layer)}
        for name, one in values.items():
            if name != "lengths" and one.is_leaf:
                found[f"grad_{name}"] = one.gradient()
        return found

    return run


def _in_program(make, starts=0, lengths=False, layers=1, major=False):
    def run(paddle):
        paddle.enable_static()
        random = np.random.RandomState(11)
        main, startup = paddle.static.Program(), paddle.static.Program()
        with paddle.static.program_guard(main, startup):
            layer = make(paddle.nn)
            parameters = {name: one.name for name, one in _parameters(layer)}
            start = {
                one.name: _numbers(random, *[int(size) for size in one.shape])
                for _, one in _parameters(layer)
            }
            given = _given(random, major, starts, lengths, layers)
            values = {
                name: paddle.static.data(name, one.shape, str(one.dtype))
                for name, one in given.items()
            }
            outs = _flat(_call(layer, values, starts, lengths, layers))
            loss = 0.0
            for n, out in enumerate(outs):
                known = (T, N) if major else (N, T)
                usual = known if n == 0 else (N, N)
                sizes = [
                    one if one > 0 else other
                    for one, other in zip(out.shape, (*usual, 0), strict=False)
                ]
                weights = random.uniform(0.5, 1.5, sizes).astype("float32")
                given[f"weights{n}"] = weights
                loss = loss + paddle.sum(
                    out * paddle.static.data(f"weights{n}", weights.shape, "float32")
                )
            pairs = paddle.static.append_backward(loss)
            grads = {param.name: grad.name for param, grad in pairs}
        exe = paddle.static.Executor(paddle.CPUPlace())
        exe.run(startup)
        for name, value in start.items():
            paddle.static.global_scope().find_var(name).get_tensor().set(value, paddle.CPUPlace())
        names = [out.name for out in outs] + [grads[one] for one in parameters.values()]
        values = exe.run(main, feed=given, fetch_list=names)
        labels = [f"out{n}" for n in range(len(outs))] + [f"grad_{one}" for one in parameters]
        return dict(zip(labels, values, strict=True))

    return run


def _several(kind, **settings):
    return lambda nn: getattr(nn, kind)(F, H, **settings)


STACKED = {
    **{kind.lower(): (_several(kind), {}) for kind in ("SimpleRNN", "LSTM", "GRU")},
    "simplernn_relu": (_several("SimpleRNN", activation="relu"), {"starts": 1}),
    "lstm_started": (_several("LSTM"), {"starts": 2}),
    "lstm_both": (_several("LSTM", direction="bidirect"), {"starts": 2, "layers": 2}),
    "lstm_deep": (_several("LSTM", num_layers=2, direction="bidirectional"), {"lengths": True}),
    "lstm_major": (_several("LSTM", num_layers=3, time_major=True), {"major": True}),
    "gru_deep": (_several("GRU", num_layers=2), {"starts": 1, "layers": 2, "lengths": True}),
    "gru_both": (_several("GRU", direction="bidirect"), {"lengths": True}),
    "simplernn_both": (
        _several("SimpleRNN", direction="bidirect", num_layers=2),
        {"lengths": True},
    ),
}
WRAPPED = {
    "rnn_lstm": (lambda nn: nn.RNN(nn.LSTMCell(F, H)), {}),
    "rnn_gru_reverse": (
        lambda nn: nn.RNN(nn.GRUCell(F, H), is_reverse=True),
        {"starts": 1, "layers": 0},
    ),
    "rnn_simple_lengths": (lambda nn: nn.RNN(nn.SimpleRNNCell(F, H)), {"lengths": True}),
    "rnn_gru_back_lengths": (
        lambda nn: nn.RNN(nn.GRUCell(F, H), True, True),
        {"lengths": True, "major": True},
    ),
    "birnn": (lambda nn: nn.BiRNN(nn.LSTMCell(F, H), nn.LSTMCell(F, H)), {}),
    "birnn_lengths": (lambda nn: nn.BiRNN(nn.GRUCell(F, H), nn.GRUCell(F, H)), {"lengths": True}),
}
CELLS = {
    **{
        f"{kind.lower()}": (_several(kind), {"lengths": None})
        for kind in ("SimpleRNNCell", "LSTMCell", "GRUCell")
    },
    "lstmcell_started": (_several("LSTMCell"), {"lengths": None, "starts": 2, "layers": 0}),
    "grucell_started": (_several("GRUCell"), {"lengths": None, "starts": 1, "layers": 0}),
}
SCENARIOS = {
    f"{name}/at_once": _at_once(make, **how)
    for name, (make, how) in {**STACKED, **WRAPPED, **CELLS}.items()
} | {
    f"{name}/program": _in_program(make, **how)
    for name, (make, how) in {**STACKED, **WRAPPED}.items()
}
