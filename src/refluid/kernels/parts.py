"""The private names of torch: each is looked for once, and done without where torch lacks it.

What takes its place gives the same numbers from torch's public functions, if slower.
"""

from __future__ import annotations

import importlib
from functools import reduce
from types import ModuleType
from typing import Any

_EACH = "each tensor by itself"
_LISTS = """
    abs add add_ addcdiv_ addcmul_ div div_ maximum_ mul mul_ norm pow sqrt sqrt_ sub sub_ zero_
"""
_CALLS = "_softmax _softmax_backward_data _log_softmax _log_softmax_backward_data"
# What torch asks about sizes when it infers a shape.
SHAPE_RULES = "torch.fx.experimental.symbolic_shapes"
# The rule that imports sympy to see what a number is, under each of its names.
IMPORTING_RULES = (
    "torch._prims_common.elementwise_dtypes",
    "torch._meta_registrations.elementwise_dtypes",
)
_SYMPY = "torch imports sympy when it first infers a shape"
_WEIGHTS = "a product, a softmax and a product, with the weights in memory"
_NOT_RECORDED = "steps aren't recorded, and the memory of a step can't be measured"
_ENTERED = "compiled functions are entered through autograd's wrapper"
_BY_PYTHON = "compiled steps with kernels that give lists are run by Python"
_IN_ORDER = "products that bring weights in order each time"
_ALONE = "kernels' objects are made as torch makes them"
# The name, and what is done without it.
PARTS: dict[str, str] = {
    **{f"torch._foreach_{name}": _EACH for name in _LISTS.split()},
    "torch._fused_sgd_": _EACH,
    "torch._fused_adam_": _EACH,
    "torch._fused_adagrad_": _EACH,
    "torch._amp_foreach_non_finite_check_and_unscale_": _EACH,
    **{f"torch.{name}": "the operator, which takes longer to call" for name in _CALLS.split()},
    "torch.ops.aten._softmax_backward_data": "its formula",
    "torch.ops.aten._add_relu": "a sum and relu, in two passes over memory",
    "torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default": _WEIGHTS,
    "torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward.default": _WEIGHTS,
    "torch._ctc_loss": "the sums over alignments, written out",
    "torch.ops.aten._ctc_loss_backward": "the sums over alignments, written out",
    "torch.ops.mkldnn._linear_pointwise.default": "MKL's matrix products",
    "torch.ops.mkl._mkl_reorder_linear_weight.default": _IN_ORDER,
    "torch.ops.mkl._mkl_linear.default": _IN_ORDER,
    "torch.ops.mkldnn._is_mkldnn_bf16_supported": "nothing is said of the processor",
    "torch._C._set_grad_enabled": "torch.set_grad_enabled, which makes an object",
    "torch._C._storage_Use_Count": "fetched values are copied",
    "torch.Tensor._use_count": "fetched values of another shape than they were made in are copied",
    "torch.UntypedStorage._cdata": "a weak reference's number",
    "torch._C.DisableTorchFunction": _NOT_RECORDED,
    "torch.utils._python_dispatch.TorchDispatchMode": _NOT_RECORDED,
    "torch.ops.aten.add.Tensor._schema": _NOT_RECORDED,
    "torch._ops._OpNamespace": _ALONE,
    "torch._ops.OpOverloadPacket": _ALONE,
    "torch.distributed.ProcessGroupGloo._Options": "processes meet where the machine's name points",
    **{
        f"torch._C._functorch.{name}": "vmap calls what it has no rule for in a loop, and warns"
        for name in ("_is_vmap_fallback_enabled", "_set_vmap_fallback_enabled")
    },
    "torch.autograd.Variable._execution_engine.run_backward": "torch.autograd.backward",
    "torch._compile._disable_dynamo": "torch._dynamo is imported where torch wants it",
    "torch._inductor.compile_fx.compile_fx": "recorded steps aren't compiled",
    "torch._inductor.compile_fx.compile_fx_inner": _ENTERED,
    "torch._guards.TracingContext.try_get": _ENTERED,
    "torch._inductor.decomposition.select_decomp_table": "a fused sum and relu stays a call",
    "torch._inductor.lowering.lowerings": _BY_PYTHON,
    "torch._inductor.lowering.fallbacks": _BY_PYTHON,
    "torch._inductor.inductor_prims.force_stride_order": "steps whose results lie so stay recorded",
    "torch._subclasses.fake_tensor.FakeTensorMode": "examples with memory",
    "torch.fx.experimental": _SYMPY,
    **dict.fromkeys(IMPORTING_RULES, _SYMPY),
}
# Those that this process does without although torch has them.
left_out: set[str] = set()


def part(name: str, otherwise: Any) -> Any:
    """What torch has under one of the names in `PARTS`; `otherwise` where it has nothing."""
    if name not in PARTS:
        raise KeyError(f"{name} isn't in the table of torch's private names")
    if name in left_out:
        return otherwise
    root, *names = name.split(".")
    try:
        return reduce(_inside, names, importlib.import_module(root))
    except (AttributeError, ImportError):
        return otherwise


def _inside(owner: Any, name: str) -> Any:
    """A name of an object, or a module in a package, imported if need be."""
    try:
        return getattr(owner, name)
    except AttributeError:
        if not isinstance(owner, ModuleType) or not hasattr(owner, "__path__"):
            raise
        return importlib.import_module(f"{owner.__name__}.{name}")
