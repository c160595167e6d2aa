"""Two parameters trained for twelve steps by given gradients, with each optimizer."""

import numpy as np

STEPS = 12


def _drawn():
    random = np.random.RandomState(0)
    start = [random.uniform(-1, 1, shape).astype("float32") for shape in ((4, 3), (3,))]
    # Gradients of very different sizes: epsilons and clips count.
    slopes = [
        [
            random.uniform(-1, 1, w.shape).astype("float32") * 10 ** random.uniform(-6, 1)
            for w in start
        ]
        for _ in range(STEPS)
    ]
    return start, slopes


def _at_once(make):
    def run(paddle):
        paddle.disable_static()
        start, slopes = _drawn()
        layer = paddle.nn.Linear(4, 3)
        layer.weight.set_value(start[0])
        layer.bias.set_value(start[1])
        optimizer = make(paddle, layer.parameters())
        for slope in slopes:
            terms = [
                (one * paddle.to_tensor(grad)).sum()
                for one, grad in zip(layer.parameters(), slope, strict=True)
            ]
            (terms[0] + terms[1]).backward()
            optimizer.step()
            optimizer.clear_grad()
            _next(optimizer)
        return {"weight": layer.weight.numpy(), "bias": layer.bias.numpy()}

    return run


def _next(optimizer):
    rate = optimizer._learning_rate
    if hasattr(rate, "step"):
        rate.step()


def _in_program(make):
    def run(paddle):
        paddle.enable_static()
        start, slopes = _drawn()
        main, startup = paddle.static.Program(), paddle.static.Program()
        with paddle.static.program_guard(main, startup):
            made, terms = [], []
            for n, array in enumerate(start):
                attr = paddle.ParamAttr(
                    name=f"w{n}", initializer=paddle.nn.initializer.Assign(array)
                )
                made.append(paddle.create_parameter(array.shape, "float32", attr=attr))
                slope = paddle.static.data(f"g{n}", array.shape, "float32")
                terms.append(paddle.sum(made[-1] * slope))
            optimizer = make(paddle, made)
            optimizer.minimize(terms[0] + terms[1])
        exe = paddle.static.Executor(paddle.CPUPlace())
        exe.run(startup)
        for slope in slopes:
            feed = {f"g{n}": one for n, one in enumerate(slope)}
            found = exe.run(main, feed=feed, fetch_list=["w0", "w1"])
            _next(optimizer)
        return {"weight": found[0], "bias": found[1]}

    return run


def _kind(name, *args, **settings):
    def make(paddle, parameters):
        given = {
            key: value(paddle)
            if callable(value) and key != "exclude_from_weight_decay_fn"
            else value
            for key, value in settings.items()
        }
        return getattr(paddle.optimizer, name)(*args, parameters=parameters, **given)

    return make


def _grouped(name, first, second, **settings):
    def make(paddle, parameters):
        groups = [
            {key: value(paddle) if callable(value) else value for key, value in one.items()}
            | {"params": [parameter]}
            for one, parameter in zip((first, second), parameters, strict=True)
        ]
        return _kind(name, 0.1, **settings)(paddle, groups)

    return make


def _clip(name, *args):
    return lambda paddle: getattr(paddle.nn, name)(*args)


def _every_third(paddle):
    return paddle.optimizer.lr.StepDecay(0.1, 3, 0.5)


MAKES = {
    "sgd": _kind("SGD", 0.1, weight_decay=0.01),
    "sgd_l1": _kind("SGD", 0.1, weight_decay=lambda paddle: paddle.regularizer.L1Decay(0.1)),
    "momentum": _kind("Momentum", 0.1, 0.9, use_nesterov=True, weight_decay=0.01),
    "momentum_scheduled": _kind("Momentum", momentum=0.9, learning_rate=_every_third),
    "adam": _kind("Adam", 0.1),
    "adam_epsilon": _kind("Adam", 0.1, epsilon=1e-3, weight_decay=0.01),
    "adamw": _kind("AdamW", 0.1, epsilon=1e-4),
    "adamw_scheduled": _kind("AdamW", learning_rate=_every_third, weight_decay=0.1),
    "adamax": _kind("Adamax", 0.1, weight_decay=0.01),
    "adagrad": _kind("Adagrad", 0.1, initial_accumulator_value=0.1),
    "adadelta": _kind("Adadelta", 0.1),
    "rmsprop": _kind("RMSProp", 0.1),
    "rmsprop_centered": _kind("RMSProp", 0.1, momentum=0.5, centered=True),
    "lamb": _kind("Lamb", 0.1),
    "lamb_free": _kind("Lamb", 0.1, exclude_from_weight_decay_fn=lambda _: True),
    "clip_global": _kind("SGD", 0.1, grad_clip=_clip("ClipGradByGlobalNorm", 0.5)),
    "clip_norm": _kind("SGD", 0.1, grad_clip=_clip("ClipGradByNorm", 0.5)),
    "clip_value": _kind("SGD", 0.1, grad_clip=_clip("ClipGradByValue", 0.05)),
}
GROUPS = {
    "rates": _grouped("SGD", {"learning_rate": 0.5}, {}),
    "decays": _grouped("SGD", {"weight_decay": 0.5}, {}, weight_decay=0.1),
    "decay_l1": _grouped(
        "Momentum",
        {"weight_decay": lambda paddle: paddle.regularizer.L1Decay(0.1)},
        {"momentum": 0.5},
        weight_decay=0.1,
    ),
    "adam": _grouped(
        "Adam", {"beta1": 0.5, "weight_decay": 0.001, "learning_rate": 0.1}, {"epsilon": 1e-3}
    ),
    "adamw": _grouped("AdamW", {"beta2": 0.5, "weight_decay": 0.5}, {}, weight_decay=0.1),
    "adamax": _grouped("Adamax", {"beta1": 0.5, "beta2": 0.5}, {}),
    "rmsprop": _grouped("RMSProp", {"rho": 0.5, "epsilon": 1e-2}, {"momentum": 0.3}),
    "lamb": _grouped("Lamb", {"lamb_weight_decay": 0.5}, {}),
    "clips": _grouped(
        "SGD",
        {"grad_clip": _clip("ClipGradByNorm", 0.1)},
        {},
        grad_clip=_clip("ClipGradByGlobalNorm", 0.5),
    ),
}

SCENARIOS = {
    **{f"{name}/at_once": _at_once(make) for name, make in MAKES.items()},
    **{f"{name}/program": _in_program(make) for name, make in MAKES.items()},
    # Groups are for networks that run at once; Paddle's programs take none.
    **{f"groups_{name}/at_once": _at_once(make) for name, make in GROUPS.items()},
}
