"""`fluid.layers.layer_function_generator`: layers that are one operator without arguments."""

from refluid.fluid.functions.math.generated import generate_activation_fn

__all__ = ["generate_activation_fn"]
