"""`paddle.static.nn`: layers that make their parameters in the program. Most are Fluid's."""

from refluid.paddle.naming import name_table

name_table(
    __name__,
    """
    refluid.fluid.functions.control.branching: case switch_case
    refluid.fluid.functions.control.static_rnn: StaticRNN
    refluid.fluid.functions.control.while_loop: while_loop
    refluid.fluid.functions.io.python_functions: py_func
    refluid.fluid.functions.loss.sampled: nce
    refluid.fluid.functions.math.products: bilinear_tensor_product
    refluid.fluid.functions.nn.convolution: conv2d conv2d_transpose conv3d conv3d_transpose
    refluid.fluid.functions.norm.normalization: batch_norm group_norm instance_norm layer_norm
    refluid.fluid.functions.norm.normalization: spectral_norm
    refluid.fluid.layers: row_conv sequence_concat sequence_conv sequence_enumerate
    refluid.fluid.layers: sequence_expand sequence_expand_as sequence_first_step
    refluid.fluid.layers: sequence_last_step sequence_pad sequence_pool sequence_reshape
    refluid.fluid.layers: sequence_reverse
    refluid.fluid.layers: sequence_scatter sequence_slice sequence_softmax sequence_unpad
    refluid.fluid.layers: continuous_value_model crf_decoding multi_box_head
    refluid.fluid.layers: data_norm
    refluid.fluid.input: embedding
    refluid.paddle.static.nn.layers: cond deform_conv2d fc prelu
    refluid.paddle.static.nn.sparse_tables: sparse_embedding
    """,
)
