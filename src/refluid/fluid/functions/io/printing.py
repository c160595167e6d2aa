"""Print: shows a tensor while the program runs."""

from __future__ import annotations

from refluid.build import check_variables, op
from refluid.fluid.layer_helper import LayerHelper
from refluid.ir.variable import Variable


def Print(
    input: Variable,
    first_n: int = -1,
    message: str | None = None,
    summarize: int = 20,
    print_tensor_name: bool = True,
    print_tensor_type: bool = True,
    print_tensor_shape: bool = True,
    print_tensor_lod: bool = True,
    print_phase: str = "both",
) -> Variable:
    """Returns `input`, and prints it (and its gradient) whenever it is computed.

    first_n: how many times, -1 for always. summarize: how many elements, -1 for all.
    print_phase: "forward", "backward" or "both".
    """
    check_variables("Print", {"input": input})
    helper = LayerHelper(f"print_{input.name}", input=input)
    attrs = {
        "first_n": first_n,
        "summarize": summarize,
        "message": message or "",
        "print_tensor_name": print_tensor_name,
        "print_tensor_type": print_tensor_type,
        "print_tensor_shape": print_tensor_shape,
        "print_tensor_lod": print_tensor_lod,
        "print_phase": print_phase.upper(),
    }
    return op("print", {"In": input}, attrs, layer=helper)
