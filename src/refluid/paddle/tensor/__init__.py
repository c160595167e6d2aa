"""`paddle.tensor`: the functions on variables that `paddle` has at its root."""

from refluid.paddle.naming import name_table

TENSOR = """
    refluid.paddle.tensor.creation: arange assign clone diag diagflat diagonal empty empty_like
    refluid.paddle.tensor.creation: eye full full_like linspace logspace meshgrid numel ones
    refluid.paddle.tensor.creation: ones_like to_tensor tril tril_indices triu triu_indices zeros
    refluid.paddle.tensor.creation: zeros_like
    refluid.paddle.tensor.complexes: abs angle as_complex as_real conj imag polar real sgn
    refluid.paddle.tensor.derived: as_strided atleast_1d atleast_2d atleast_3d combinations
    refluid.paddle.tensor.derived: cumulative_trapezoid diff frexp hypot
    refluid.paddle.tensor.derived: ldexp multigammaln
    refluid.paddle.tensor.derived: nextafter polygamma reverse
    refluid.paddle.tensor.derived: trapezoid unflatten unfold vander
    refluid.paddle.tensor.derived: view_as vsplit
    refluid.paddle.tensor.in_place: abs_ acos_ addmm_ atan_ bitwise_and_ bitwise_not_ bitwise_or_
    refluid.paddle.tensor.in_place: bitwise_xor_ cast_ cauchy_ cos_ cumprod_ cumsum_ digamma_
    refluid.paddle.tensor.in_place: divide_ equal_ erf_ expm1_ floor_divide_ floor_mod_ frac_ gcd_
    refluid.paddle.tensor.in_place: geometric_ greater_equal_ greater_than_ hypot_ i0_ index_add_
    refluid.paddle.tensor.in_place: index_fill_ index_put_ lcm_ ldexp_ less_equal_ less_than_
    refluid.paddle.tensor.in_place: lgamma_ log10_ log2_ log_ logical_and_ logical_not_
    refluid.paddle.tensor.in_place: logical_or_ logit_ masked_fill_ mod_ multigammaln_ multiply_
    refluid.paddle.tensor.in_place: nan_to_num_ neg_ normal_ polygamma_ pow_ remainder_ renorm_
    refluid.paddle.tensor.in_place: reshape_ scatter_ sin_ sinh_ square_ squeeze_ t_ tan_ tanh_
    refluid.paddle.tensor.in_place: transpose_ tril_ triu_ trunc_ unsqueeze_ where_
    refluid.paddle.tensor.matrices: cdist
    refluid.paddle.tensor.places: diagonal_scatter index_fill index_put mode nanmedian nanquantile
    refluid.paddle.tensor.places: quantile renorm select_scatter take
    refluid.fluid.functions.tensor.arranging: diag_embed
    refluid.paddle.tensor.linalg: addmm bincount bmm cholesky cross dist dot einsum histogram inner
    refluid.paddle.tensor.linalg: inverse kron matmul mm multi_dot mv norm outer t tensordot trace
    refluid.paddle.tensor.logic: allclose bitwise_and bitwise_not bitwise_or bitwise_xor
    refluid.paddle.tensor.logic: broadcast_shape equal equal_all greater_equal greater_than
    refluid.paddle.tensor.logic: is_empty is_tensor isclose less_equal less_than logical_and
    refluid.paddle.tensor.logic: logical_not logical_or logical_xor not_equal
    refluid.paddle.tensor.manipulation: broadcast_tensors broadcast_to cast chunk concat crop
    refluid.paddle.tensor.manipulation: expand expand_as flatten flip moveaxis rank reshape roll
    refluid.paddle.tensor.manipulation: rot90 shape shard_index slice split squeeze stack
    refluid.paddle.tensor.manipulation: strided_slice tile tolist transpose unbind unsqueeze
    refluid.paddle.tensor.manipulation: unstack view
    refluid.paddle.tensor.math: acos acosh add add_n asin asinh atan atan2 atanh ceil clip cos
    refluid.paddle.tensor.math: cosh deg2rad digamma divide erf erfinv exp expm1 floor floor_divide
    refluid.paddle.tensor.math: floor_mod fmax fmin frac gcd heaviside i0 i0e i1 i1e increment
    refluid.paddle.tensor.math: isfinite isinf isnan lcm lerp lgamma log log10 log1p log2
    refluid.paddle.tensor.math: logaddexp logit maximum minimum mod multiplex multiply nan_to_num
    refluid.paddle.tensor.math: neg pow rad2deg reciprocal remainder round rsqrt scale sign sin
    refluid.paddle.tensor.math: sinh sqrt square stanh subtract tan tanh trunc
    refluid.paddle.tensor.random: bernoulli multinomial normal poisson rand randint randint_like
    refluid.paddle.tensor.random: randn randperm standard_normal uniform
    refluid.paddle.tensor.reduction: all amax amin any count_nonzero cummax cummin cumprod cumsum
    refluid.paddle.tensor.reduction: logcumsumexp logsumexp max mean median min nanmean nansum prod
    refluid.paddle.tensor.reduction: std sum var
    refluid.paddle.tensor.search: argmax argmin argsort bucketize gather gather_nd index_add
    refluid.paddle.tensor.search: index_sample index_select kthvalue masked_fill masked_select
    refluid.paddle.tensor.search: nonzero put_along_axis repeat_interleave scatter scatter_nd
    refluid.paddle.tensor.search: scatter_nd_add searchsorted sort take_along_axis topk where
    refluid.paddle.tensor.uniqueness: unique unique_consecutive
"""
name_table(__name__, TENSOR)
