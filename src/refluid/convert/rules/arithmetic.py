"""Elementwise arithmetic, comparisons and activations."""

from __future__ import annotations

from refluid.convert.rules.indices import aligned
from refluid.convert.site import Site, short, torch_dtype
from refluid.convert.table import converts

# Fluid's type -> what is written of x.
_ONE = {
    "abs": "{x}.abs()",
    "ceil": "{x}.ceil()",
    "cos": "{x}.cos()",
    "elu": "F.elu({a}, {alpha!r})",
    "exp": "{x}.exp()",
    "floor": "{x}.floor()",
    "gelu": "F.gelu({a})",
    "hard_shrink": "F.hardshrink({a}, {threshold!r})",
    "hard_sigmoid": "({x} * {slope!r} + {offset!r}).clamp(0.0, 1.0)",
    "hard_swish": "{x} * ({x} + {offset!r}).clamp(0.0, {threshold!r}) / {scale!r}",
    "leaky_relu": "F.leaky_relu({a}, {alpha:.7g})",
    "log": "{x}.log()",
    "logical_not": "{x}.logical_not()",
    "logsigmoid": "F.logsigmoid({a})",
    "pow": "{x} ** {factor!r}",
    "reciprocal": "{x}.reciprocal()",
    "relu": "F.relu({a})",
    "relu6": "{x}.clamp(0.0, {threshold!r})",
    "round": "{x}.round()",
    "rsqrt": "{x}.rsqrt()",
    "sigmoid": "torch.sigmoid({a})",
    "sign": "{x}.sign()",
    "sin": "{x}.sin()",
    "soft_relu": "{x}.clamp(-{threshold!r}, {threshold!r}).exp().log1p()",
    "softplus": "F.softplus({a})",
    "softsign": "F.softsign({a})",
    "sqrt": "{x}.sqrt()",
    "square": "{x}.square()",
    "stanh": "{scale_b!r} * torch.tanh({x} * {scale_a!r})",
    "swish": "F.silu({a})",
    "tanh": "torch.tanh({a})",
    "tanh_shrink": "F.tanhshrink({a})",
    "thresholded_relu": "torch.where({x} > {threshold!r}, {a}, 0.0)",
}
_LOOSE = {"hard_swish", "pow", "stanh"}
_USUAL = {
    "alpha": {"elu": 1.0, "leaky_relu": 0.02},
    "threshold": {"relu6": 6.0, "hard_swish": 6.0, "thresholded_relu": 1.0, "soft_relu": 40.0,
                  "hard_shrink": 0.5},
    "slope": {"hard_sigmoid": 0.2},
    "offset": {"hard_sigmoid": 0.5, "hard_swish": 3.0},
    "scale": {"hard_swish": 6.0},
    "factor": {"pow": 1.0},
    "scale_a": {"stanh": 0.67},
    "scale_b": {"stanh": 1.7159},
}  # fmt: skip


@converts(*_ONE)
def one_argument(site: Site) -> None:
    kind, value = site.op.type, site.value("X")
    site.require(not site.has("FactorTensor"), "its exponent is computed")
    site.require(kind != "swish" or site.attr("beta", 1.0) == 1.0, "beta is not 1")
    numbers = {name: site.attr(name, usual.get(kind)) for name, usual in _USUAL.items()}
    numbers = {name: short(one) for name, one in numbers.items()}
    template = _ONE[kind]
    if kind == "gelu" and site.attr("approximate"):
        template = 'F.gelu({a}, approximate="tanh")'
    if template.count("{x}") + template.count("{a}") > 1:
        site.held()
        value = site.value("X")
    text = template.format(x=site.number(), a=value.text, **numbers)
    site.give(text, loose=kind in _LOOSE, scalar=value.scalar)


_TWO = {
    "elementwise_add": "{x} + {y}",
    "elementwise_div": "{x} / {y}",
    "elementwise_floordiv": 'torch.div({x}, {y}, rounding_mode="trunc")',
    "elementwise_max": "torch.maximum({x}, {y})",
    "elementwise_min": "torch.minimum({x}, {y})",
    "elementwise_mod": "{x} % {y}",
    "elementwise_mul": "{x} * {y}",
    "elementwise_pow": "{x} ** {y}",
    "elementwise_sub": "{x} - {y}",
    "equal": "{x} == {y}",
    "greater_equal": "{x} >= {y}",
    "greater_than": "{x} > {y}",
    "less_equal": "{x} <= {y}",
    "less_than": "{x} < {y}",
    "logical_and": "{x} & {y}",
    "logical_or": "{x} | {y}",
    "logical_xor": "{x} ^ {y}",
    "not_equal": "{x} != {y}",
}


@converts(*_TWO)
def two_arguments(site: Site) -> None:
    x, y = site.value("X"), site.value("Y")
    integers = not site.writer.source.values or site.var("X").dtype in (2, 3)
    site.require(
        site.op.type != "elementwise_div" or not integers or _is_float(site), "of integers"
    )
    if x.scalar or y.scalar:
        left, right, scalar = site.number("X"), site.number("Y"), x.scalar and y.scalar
    else:
        left, right, scalar = *aligned(site), False
    template = _TWO[site.op.type]
    if site.op.type == "elementwise_mod" and not (_is_float(site) or x.scalar):
        template = "torch.fmod({x}, {y})"  # of integers it has the sign of X
    text = template.format(x=left, y=right)
    site.give(text, loose=not template.startswith("torch."), scalar=scalar)


def _is_float(site: Site) -> bool:
    return site.var("X").dtype in (4, 5, 6)


@converts("scale")
def scale(site: Site) -> None:
    value, x = site.value("X"), site.number()
    factor, bias = short(site.attr("scale", 1.0)), short(site.attr("bias", 0.0))
    site.require(not site.has("ScaleTensor"), "its factor is computed")
    if not _is_float(site):
        factor, bias = int(factor), int(bias)
    if factor == 1.0 and bias == 0.0:
        site.give(value.text, loose=value.loose, scalar=value.scalar)
        return
    if not site.attr("bias_after_scale", True):
        inner = f"({x} {_signed(bias)})" if bias else x
        text = f"{inner} * {factor!r}" if factor != 1.0 else f"{x} {_signed(bias)}"
    else:
        text = f"-{x}" if factor == -1.0 else f"{x} * {factor!r}" if factor != 1.0 else x
        text = f"{bias!r} - {x}" if factor == -1.0 and bias else text
        text += f" {_signed(bias)}" if bias and factor != -1.0 else ""
    site.give(text, loose=True, scalar=value.scalar)


def _signed(number: object) -> str:
    return f"- {-number!r}" if number < 0 else f"+ {number!r}"  # type: ignore[operator]


@converts("sum")
def add_all(site: Site) -> None:
    count = len(site.names("X"))
    scalars = [site.value("X", index).scalar for index in range(count)]
    texts = [site.number("X", index) for index in range(count)]
    site.give(" + ".join(texts), loose=count > 1, scalar=all(scalars))


@converts("clip")
def clip(site: Site) -> None:
    site.require(not site.has("Min") and not site.has("Max"), "its bounds are computed")
    low, high = short(site.attr("min")), short(site.attr("max"))
    site.give(f"{site.number()}.clamp({low!r}, {high!r})", scalar=site.value("X").scalar)


@converts("cast")
def cast(site: Site) -> None:
    kind = torch_dtype(site.attr("out_dtype"))
    method = {"torch.float32": "float()", "torch.int64": "long()", "torch.bool": "bool()"}
    text = f"{site.number()}.{method.get(kind, f'to({kind})')}"
    site.give(text, scalar=site.value("X").scalar)


@converts("assign")
def assign(site: Site) -> None:
    value = site.value("X")
    site.give(value.text, loose=value.loose, scalar=value.scalar)


@converts("dropout")
def dropout(site: Site) -> None:
    chance = short(site.attr("dropout_prob", 0.5))
    downgrades = site.attr("dropout_implementation", "downgrade_in_infer") == "downgrade_in_infer"
    if site.attr("is_test"):
        keep = short(1.0 - chance) if downgrades else 1.0
        text = f"{site.x()} * {keep!r}" if keep != 1.0 else site.value("X").text
        site.give(text, loose=keep != 1.0 or site.value("X").loose)
        return
    text = f"F.dropout({site.arg()}, {chance!r}, self.training)" if chance else site.value("X").text
    if downgrades and chance:
        text += f" * {short(1.0 - chance)!r}"
    site.give(text, loose=(downgrades and bool(chance)) or site.value("X").loose)


@converts("softmax")
def softmax(site: Site) -> None:
    site.give(f"F.softmax({site.arg()}, dim={site.attr('axis', -1)})")


@converts("maxout")
def maxout(site: Site) -> None:
    groups, axis = site.attr("groups"), site.attr("axis", 1)
    site.require(axis == 1, "along other axes than the channels")
    site.give(f"{site.x()}.unflatten(1, (-1, {groups})).amax(2)")
