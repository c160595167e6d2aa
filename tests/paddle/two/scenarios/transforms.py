"""Transforms of `paddle.distribution`, and distributions made by them."""

import numpy as np

_X = np.random.RandomState(7).uniform(-1.2, 1.2, (2, 3, 4)).astype("float32")
_A = np.float32([0.5, -1.5, 2.5, 0.7])
_P = np.abs(_X) + 0.2


def _t(paddle, *arrays):
    return [paddle.to_tensor(one) for one in arrays]


# What makes a transform, what it is given, and whether it knows volumes.
_MADE = {
    "abs": (lambda d, t: d.AbsTransform(), _X, False),
    "affine": (lambda d, t: d.AffineTransform(*t(_A, _A + 4)), _X, True),
    "exp": (lambda d, t: d.ExpTransform(), _X, True),
    "power": (lambda d, t: d.PowerTransform(*t(np.float32([1.7]))), _P, True),
    "sigmoid": (lambda d, t: d.SigmoidTransform(), _X, True),
    "tanh": (lambda d, t: d.TanhTransform(), _X, True),
    "softmax": (lambda d, t: d.SoftmaxTransform(), _X, False),
    "stick": (lambda d, t: d.StickBreakingTransform(), _X, True),
    "reshape": (lambda d, t: d.ReshapeTransform((3, 4), (2, 6)), _X, True),
    "independent": (lambda d, t: d.IndependentTransform(d.ExpTransform(), 2), _X, True),
    "chain": (
        lambda d, t: d.ChainTransform([d.AffineTransform(*t(_A, _A + 4)), d.TanhTransform()]),
        _X * 0.2,
        True,
    ),
    "chain_ranks": (
        lambda d, t: d.ChainTransform([d.ExpTransform(), d.ReshapeTransform((4,), (2, 2))]),
        _X,
        True,
    ),
    "stack": (
        lambda d, t: d.StackTransform([d.ExpTransform(), d.SigmoidTransform()], 0),
        _X,
        True,
    ),
}


def _of(name):
    def run(paddle):
        paddle.disable_static()
        make, value, grows = _MADE[name]
        made = make(paddle.distribution, lambda *arrays: _t(paddle, *arrays))
        x = paddle.to_tensor(value, stop_gradient=False)
        y = made.forward(x)
        back = made.inverse(y)
        found = {"forward": y.numpy()}
        for number, one in enumerate(back if isinstance(back, tuple) else (back,)):
            found[f"inverse{number}"] = one.numpy()
        if grows:
            volume = made.forward_log_det_jacobian(x)
            found["volume"] = volume.numpy()
            found["less"] = made.inverse_log_det_jacobian(y).numpy()
            (y.sum() + volume.sum()).backward()
            found["grad"] = x.grad.numpy()
        found["shapes"] = np.array(
            [*made.forward_shape(tuple(x.shape)), -1, *made.inverse_shape(tuple(y.shape))]
        )
        return found

    return run


def _mapped(transforms, value, base="Normal"):
    def run(paddle):
        paddle.disable_static()
        d = paddle.distribution
        own = getattr(d, base)(*_t(paddle, _A, np.abs(_A)))
        made = d.TransformedDistribution(own, transforms(d, paddle))
        point = paddle.to_tensor(value)
        return {
            "density": made.log_prob(point).numpy(),
            "prob": made.prob(point).numpy(),
            "sample": np.array(made.sample([7, 2]).shape),
            "batch": np.array([*made.batch_shape, -1, *made.event_shape]),
        }

    return run


def _together(paddle):
    paddle.disable_static()
    d = paddle.distribution
    own = d.Normal(*_t(paddle, _X, _P))
    made = d.Independent(own, 2)
    return {
        "density": made.log_prob(paddle.to_tensor(_X + 0.3)).numpy(),
        "entropy": made.entropy().numpy(),
        "mean": made.mean.numpy(),
        "variance": made.variance.numpy(),
        "sample": np.array(made.sample([7]).shape),
        "batch": np.array([*made.batch_shape, -1, *made.event_shape]),
    }


def _called(paddle):
    paddle.disable_static()
    d = paddle.distribution
    made = d.ExpTransform()(d.Normal(*_t(paddle, _A, np.abs(_A))))
    chain = d.ExpTransform()(d.AffineTransform(*_t(paddle, _A, _A)))
    x = paddle.to_tensor(_P)
    return {
        "kind": np.array([type(made).__name__, type(chain).__name__]),
        "density": made.log_prob(x).numpy(),
        "chain": chain.forward(x).numpy(),
        "plain": d.ExpTransform()(x).numpy(),
    }


SCENARIOS = {name: _of(name) for name in _MADE} | {
    "mapped": _mapped(lambda d, p: [d.ExpTransform()], _P),
    "mapped_twice": _mapped(
        lambda d, p: [d.AffineTransform(*_t(p, _A, np.abs(_A))), d.SigmoidTransform()],
        _P / 2,
    ),
    "together": _together,
    "called": _called,
}
