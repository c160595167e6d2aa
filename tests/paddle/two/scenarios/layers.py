"""Layers with parameters that are set, and what `nn.utils` does to them: results and gradients."""

import numpy as np


def _set(layer, random):
    for one in layer.state_dict().values():
        one.set_value(
            random.uniform(-0.7, 0.7, one.shape or [1]).astype("float32").reshape(one.shape)
        )


def _numbers(random, *shape):
    return random.uniform(-1.5, 1.5, shape).astype("float32")


def _gradients(paddle, layer, x, *outs):
    random, loss = np.random.RandomState(9), 0.0
    for out in outs:
        weights = random.uniform(0.5, 1.5, out.shape).astype("float32")
        loss = loss + (out * paddle.to_tensor(weights)).sum()
    loss.backward()
    found = {f"out{n}": out.numpy() for n, out in enumerate(outs)}
    for name, one in layer.named_parameters():
        if one.grad is not None:
            found[f"grad_{name}"] = one.gradient()
    if x.grad is not None:
        found["grad_x"] = x.gradient()
    return found


def _changed(make, change, *shape):
    def run(paddle):
        paddle.disable_static()
        random = np.random.RandomState(3)
        layer = make(paddle.nn)
        _set(layer, random)
        change(paddle.nn.utils, layer)
        for name, one in layer.state_dict().items():
            if name in ("weight_u", "weight_v"):
                one.set_value(_numbers(random, *one.shape))
        x = paddle.to_tensor(_numbers(random, *shape), stop_gradient=False)
        layer(x)
        found = _gradients(paddle, layer, x, layer(x))
        layer.eval()
        return found | {"later": layer(x).numpy()}

    return run


def _removed(paddle):
    paddle.disable_static()
    layer = paddle.nn.Linear(3, 4)
    _set(layer, np.random.RandomState(3))
    paddle.nn.utils.weight_norm(layer, dim=1)
    layer.weight_g.set_value(np.arange(1, 5).astype("float32"))
    paddle.nn.utils.remove_weight_norm(layer)
    return {name: one.numpy() for name, one in layer.state_dict().items()}


def _unpooled(size, **settings):
    def run(paddle):
        paddle.disable_static()
        count = len(size)
        random = np.random.RandomState(3)
        x = paddle.to_tensor(_numbers(random, 2, 3, *size), stop_gradient=False)
        functional = paddle.nn.functional
        pooled, places = getattr(functional, f"max_pool{count}d")(x, 2, 2, return_mask=True)
        layer = getattr(paddle.nn, f"MaxUnPool{count}D")(2, 2, **settings)
        return _gradients(paddle, layer, x, layer(pooled, places))

    return run


def _gradients_cut(change):
    def run(paddle):
        paddle.disable_static()
        random = np.random.RandomState(3)
        layer = paddle.nn.Linear(3, 4)
        _set(layer, random)
        layer(paddle.to_tensor(_numbers(random, 5, 3))).square().sum().backward()
        made = change(paddle.nn.utils, layer.parameters())
        found = {name: one.gradient() for name, one in layer.named_parameters()}
        return found if made is None else found | {"norm": made.numpy().reshape(1)}

    return run


def _vectors(paddle):
    paddle.disable_static()
    layer = paddle.nn.Linear(3, 4)
    _set(layer, np.random.RandomState(3))
    vector = paddle.nn.utils.parameters_to_vector(layer.parameters())
    paddle.nn.utils.vector_to_parameters(vector * 2, layer.parameters())
    return {"vector": vector.numpy(), "weight": layer.weight.numpy(), "bias": layer.bias.numpy()}


def _singular(paddle):
    paddle.disable_static()
    random = np.random.RandomState(3)
    layer = paddle.nn.SpectralNorm([2, 8, 3], dim=1, power_iters=2)
    _set(layer, random)
    x = paddle.to_tensor(_numbers(random, 2, 8, 3), stop_gradient=False)
    return _gradients(paddle, layer, x, layer(x))


def _tree(paddle):
    paddle.disable_static()
    random = np.random.RandomState(3)
    layer = paddle.nn.HSigmoidLoss(4, 6)
    _set(layer, random)
    x = paddle.to_tensor(_numbers(random, 5, 4), stop_gradient=False)
    label = paddle.to_tensor(random.randint(0, 6, (5, 1)))
    return _gradients(paddle, layer, x, layer(x, label))


def _spread(paddle):
    """What alpha dropout keeps: the mean and the deviation."""
    paddle.disable_static()
    x = paddle.to_tensor(np.random.RandomState(3).normal(0, 1, (400, 500)).astype("float32"))
    found = paddle.nn.AlphaDropout(0.3)(x).numpy()
    values, counts = np.unique(found, return_counts=True)
    dropped = counts.max() / found.size
    return {
        "moments": np.array([found.std(), np.abs(found).mean(), dropped, values[counts.argmax()]])
    }


def _held(paddle):
    """Layers and parameters that are held: which there are, in order, after changes."""
    paddle.disable_static()
    nn = paddle.nn
    named = nn.LayerDict({"a": nn.Linear(1, 2), "b": nn.Linear(2, 3)})
    named["c"] = nn.Linear(3, 4)
    named.update([("a", nn.Linear(5, 6))])
    named.pop("b")
    listed = nn.LayerList([nn.Linear(n, n + 1) for n in range(1, 5)])
    listed.insert(1, nn.Linear(9, 9))
    listed.append(nn.Linear(7, 7))
    listed[0] = nn.Linear(8, 8)
    del listed[2]
    listed.extend([nn.Linear(6, 5)])
    parameters = nn.ParameterList([paddle.create_parameter([n, 2], "float32") for n in (1, 3)])
    parameters.append(paddle.create_parameter([4], "float32"))
    found = {}
    for number, one in enumerate((named, listed, listed[1:3], parameters)):
        for name, value in one.state_dict().items():
            found[f"{number}_{name}"] = np.array(value.shape)
    return found | {"keys": np.array(list(named.keys())), "counts": np.array([len(listed)])}


def _gains(paddle):
    gain = paddle.nn.initializer.calculate_gain
    names = ["sigmoid", "linear", "conv2d", "tanh", "relu", "selu", "leaky_relu"]
    found = {name: np.array([gain(name)], "float32") for name in names}
    return found | {"slope": np.array([gain("leaky_relu", 0.4)], "float32")}


def _started(paddle):
    paddle.disable_static()
    initializer = paddle.nn.initializer
    initializer.set_global_initializer(initializer.Constant(0.4), initializer.Constant(0.2))
    try:
        first = paddle.nn.Linear(
            2,
            3,
            bias_attr=paddle.ParamAttr(
                initializer=initializer.Assign(np.arange(3).astype("float32"))
            ),
        )
        second = paddle.nn.Conv2D(1, 2, 2)
    finally:
        initializer.set_global_initializer(None)
    pairs = {"first": first, "second": second}
    return {f"{n}_{m}": p.numpy() for n, one in pairs.items() for m, p in one.named_parameters()}


SCENARIOS = {
    "holders": _held,
    "gains": _gains,
    "global_initializer": _started,
    "weight_norm": _changed(lambda nn: nn.Linear(3, 4), lambda u, x: u.weight_norm(x), 5, 3),
    "weight_norm_columns": _changed(
        lambda nn: nn.Linear(3, 4), lambda u, x: u.weight_norm(x, dim=1), 5, 3
    ),
    "weight_norm_whole": _changed(
        lambda nn: nn.Conv2D(3, 4, 2), lambda u, x: u.weight_norm(x, dim=None), 2, 3, 5, 5
    ),
    "weight_norm_filters": _changed(
        lambda nn: nn.Conv2D(3, 4, 2), lambda u, x: u.weight_norm(x), 2, 3, 5, 5
    ),
    "remove_weight_norm": _removed,
    "spectral_norm": _changed(lambda nn: nn.Linear(3, 4), lambda u, x: u.spectral_norm(x), 5, 3),
    "spectral_norm_rounds": _changed(
        lambda nn: nn.Conv2D(3, 4, 2),
        lambda u, x: u.spectral_norm(x, n_power_iterations=3),
        2,
        3,
        5,
        5,
    ),
    "spectral_layer": _singular,
    "unpool1": _unpooled((8,)),
    "unpool2": _unpooled((6, 8)),
    "unpool2_odd": _unpooled((7, 5), output_size=(7, 5)),
    "unpool3": _unpooled((4, 6, 4)),
    "clip_norm": _gradients_cut(lambda u, p: u.clip_grad_norm_(p, 0.7)),
    "clip_norm_largest": _gradients_cut(lambda u, p: u.clip_grad_norm_(p, 0.7, float("inf"))),
    "clip_norm_not": _gradients_cut(lambda u, p: u.clip_grad_norm_(p, 1e5, 1.0)),
    "clip_value": _gradients_cut(lambda u, p: u.clip_grad_value_(p, 0.3)),
    "vectors": _vectors,
    "tree": _tree,
    "alpha_dropout": _spread,
}
