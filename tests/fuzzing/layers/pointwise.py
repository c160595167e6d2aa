"""Layers that compute element by element, or normalize."""

from __future__ import annotations

from typing import Any

from refluid import fluid
from tests.fuzzing.table import Net, known, layer, need

L = fluid.layers
ALL = (1, 2, 3, 4, 5)
SMOOTH = "sigmoid tanh softplus softsign swish gelu logsigmoid stanh sin cos erf square mish"
KINKED = """
    relu relu6 leaky_relu elu abs hard_sigmoid hard_swish brelu soft_relu thresholded_relu
    hard_shrink softshrink tanh_shrink selu
"""
STEPPED = "floor ceil round sign"


@layer(ALL, weight=2)
def smooth(net: Net, x: Any) -> Any:
    return getattr(L, net.one(*SMOOTH.split()))(x)


@layer(ALL, weight=2)
def kinked(net: Net, x: Any) -> Any:
    return getattr(L, net.one(*KINKED.split()))(x)


@layer(ALL, weight=0.5, exact=True)
def stepped(net: Net, x: Any) -> Any:
    return getattr(L, net.one(*STEPPED.split()))(x)


@layer(ALL)
def positive(net: Net, x: Any) -> Any:
    above = L.scale(L.abs(x), 1.0, 0.5)
    return getattr(L, net.one("sqrt", "rsqrt", "log", "log1p", "reciprocal"))(above)


@layer(ALL)
def scale(net: Net, x: Any) -> Any:
    return L.scale(x, net.one(-0.5, 0.3, 2.0), net.one(0.0, 1.5), net.chance(0.5))


@layer(ALL)
def clip(net: Net, x: Any) -> Any:
    return L.clip(x, net.one(-1.0, -0.1, 0.0), net.one(0.2, 1.0))


@layer(ALL, weight=0.5)
def clip_by_norm(net: Net, x: Any) -> Any:
    return L.clip_by_norm(x, net.one(0.1, 10.0))


@layer(ALL, weight=2)
def elementwise(net: Net, x: Any) -> Any:
    kind = net.one("add", "sub", "mul", "max", "min")
    return getattr(L, f"elementwise_{kind}")(x, net.like(x), act=net.one(None, "tanh", "relu"))


@layer(ALL, weight=0.5)
def divided(net: Net, x: Any) -> Any:
    return L.elementwise_div(x, L.scale(L.square(net.like(x)), 1.0, 1.0))


@layer((2, 3, 4, 5))
def broadcast(net: Net, x: Any) -> Any:
    """With a parameter of some axes of x that are known."""
    axes = [axis for axis, size in enumerate(x.shape) if known(size)]
    need(axes)
    axis = net.draw.choice(axes)
    weight = L.create_parameter([x.shape[axis]], "float32")
    return getattr(L, net.one("elementwise_add", "elementwise_mul"))(x, weight, axis=axis)


@layer((2, 3, 4))
def summed_back(net: Net, x: Any) -> Any:
    """Minus its own mean along an axis, which broadcasts."""
    axis = net.axis(x)
    return L.elementwise_sub(x, L.reduce_mean(x, axis, keep_dim=True))


@layer(weight=2)
def softmax(net: Net, x: Any) -> Any:
    return L.softmax(x, axis=net.axis(x))


@layer(weight=0.5)
def log_softmax(net: Net, x: Any) -> Any:
    return L.log_softmax(x, axis=-1)


@layer()
def l2_normalize(net: Net, x: Any) -> Any:
    return L.l2_normalize(x, axis=net.axis(x))


@layer()
def layer_norm(net: Net, x: Any) -> Any:
    sizes = [known(size) for size in x.shape]
    first = net.one(*[one for one in range(1, len(sizes)) if all(sizes[one:])] or [0])
    need(first)
    return L.layer_norm(x, net.chance(0.8), net.chance(0.8), first, act=net.one(None, "relu"))


@layer((2, 4), weight=2)
def batch_norm(net: Net, x: Any) -> Any:
    need(known(x.shape[1]))
    momentum = net.one(0.9, 0.5)
    act = net.one(None, "relu", "sigmoid")
    return L.batch_norm(x, act=act, momentum=momentum, use_global_stats=net.chance(0.15))


@layer((4,))
def group_norm(net: Net, x: Any) -> Any:
    need(known(x.shape[1]))
    groups = net.one(*[n for n in (1, 2, 3) if x.shape[1] % n == 0])
    scale, offset = (fluid.ParamAttr() if net.chance(0.6) else None for _ in range(2))
    return L.group_norm(x, groups, param_attr=scale, bias_attr=offset)


@layer((4,))
def instance_norm(net: Net, x: Any) -> Any:
    need(known(x.shape[1]))
    return L.instance_norm(x)


@layer((4,), weight=0.5)
def local_response(net: Net, x: Any) -> Any:
    return L.lrn(x, n=net.one(1, 3, 5))


@layer((2, 3, 4))
def dropout(net: Net, x: Any) -> Any:
    how = net.one("downgrade_in_infer", "upscale_in_train")
    seed = net.one(None, 5)
    return L.dropout(x, net.one(0.2, 0.7), net.chance(0.2), seed, dropout_implementation=how)


@layer((2, 3, 4))
def prelu(net: Net, x: Any) -> Any:
    mode = net.one("all", "channel")
    need(mode == "all" or known(x.shape[1]))
    return L.prelu(x, mode)


@layer((2, 3, 4), weight=0.5)
def power(net: Net, x: Any) -> Any:
    return L.pow(x, net.one(2.0, 3.0, 1.0))


@layer((2, 3, 4))
def cumsum(net: Net, x: Any) -> Any:
    return L.cumsum(x, net.axis(x), net.chance(0.3), net.chance(0.3))
