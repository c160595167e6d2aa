"""Which kinds of elements an operator takes, as Fluid's CPU kernels do.

Floating types stand for each other, and so do whole-number types: refluid has more kernels than
Fluid, half precision for example. What an operator refuses is the other kind.
"""

from __future__ import annotations

from re import findall

from refluid.core.advice import fix_line
from refluid.core.dtypes import COMPLEX, FLOATING, VarType, dtype_name
from refluid.core.errors import EnforceNotMet
from refluid.ir.operator import Operator
from refluid.ir.variable import Variable

_FLOATING = """
    accuracy acos adadelta adagrad adam adamax add_position_encoding addmm affine_channel
    affine_grid allclose anchor_generator asin atan attention_lstm auc average_accumulates
    batch_norm bce_loss bicubic_interp bilinear_tensor_product bipartite_match bmm box_clip
    box_coder box_decoder_and_assign bpr_loss brelu ceil center_loss clip clip_by_norm
    collect_fpn_proposals conv2d conv2d_transpose conv3d conv3d_transpose conv_shift cos cos_sim
    crf_decoding crop cross_entropy cross_entropy2 cudnn_lstm cvm data_norm decayed_adagrad
    deformable_conv deformable_conv_v1 deformable_psroi_pooling density_prior_box
    depthwise_conv2d depthwise_conv2d_transpose detection_map dgc_clip_by_norm dgc_momentum dist
    distribute_fpn_proposals dpsgd dropout elu erf fake_channel_wise_dequantize_max_abs
    fake_channel_wise_quantize_abs_max fake_dequantize_max_abs fake_quantize_abs_max
    fake_quantize_dequantize_moving_average_abs_max fake_quantize_moving_average_abs_max
    fake_quantize_range_abs_max fc floor frobenius_norm fsp ftrl
    fused_elemwise_activation fused_embedding_fc_lstm fused_embedding_seq_pool fusion_gru
    fusion_lstm fusion_repeated_fc_relu fusion_seqconv_eltadd_relu fusion_seqexpand_concat_fc
    fusion_seqpool_concat fusion_seqpool_cvm_concat fusion_squared_mat_sub gelu
    generate_mask_labels generate_proposal_labels generate_proposals grid_sampler group_norm gru
    gru_unit hard_shrink hard_sigmoid hard_swish hierarchical_sigmoid hinge_loss huber_loss
    im2sequence inplace_abn instance_norm iou_similarity kldiv_loss l1_norm label_smooth lamb
    lars_momentum layer_norm leaky_relu linear_chain_crf linspace locality_aware_nms log log1p
    log_loss logsigmoid lookup_table_v2 lrn lstm lstm_unit lstmp margin_rank_loss
    match_matrix_tensor matmul matrix_nms max_pool2d_with_index max_pool3d_with_index maxout
    mean merge_ids merge_selected_rows mine_hard_examples minus mish modified_huber_loss
    momentum moving_average_abs_max_scale mul multiclass_nms multiclass_nms2 nce nll_loss norm
    p_norm pixel_shuffle polygon_box_transform pool2d pool3d positive_negative_pair
    precision_recall prelu prior_box proximal_adagrad proximal_gd psroi_pool rank_attention
    rank_loss reciprocal relu relu6 retinanet_detection_output retinanet_target_assign rmsprop
    roi_perspective_transform round row_conv rpn_target_assign rsqrt sample_logits sampling_id
    selu sequence_conv sequence_pool sequence_softmax sequence_topk_avg_pooling sgd
    shuffle_channel sigmoid sigmoid_cross_entropy_with_logits sigmoid_focal_loss sign
    similarity_focus sin smooth_l1_loss soft_relu softmax softmax_with_cross_entropy softplus
    softshrink softsign spectral_norm split_selected_rows spp sqrt squared_l2_distance
    squared_l2_norm stanh swish tanh tanh_shrink teacher_student_sigmoid_loss temporal_shift
    thresholded_relu top_k transpose tree_conv unfold unpool var_conv_2d warpctc yolo_box
    yolov3_loss
"""
_WHOLE = """
    ctc_align elementwise_floordiv gather_tree hash mean_iou one_hot one_hot_v2 randint randperm
    seed sequence_enumerate sequence_erase shard_index
"""
_NUMBERS = """
    abs allreduce arg_max arg_min argsort beam_search bilinear_interp broadcast coalesce_tensor
    concat crop_tensor cross cumsum diag diag_embed dot elementwise_add elementwise_div
    elementwise_max elementwise_min elementwise_mod elementwise_mul elementwise_pow
    elementwise_sub equal exp eye fill filter_by_instag flatten flatten2 gather
    get_tensor_from_selected_rows greater_equal greater_than increment index_sample index_select
    is_empty isfinite isinf isnan kron less_equal less_than lod_reset lookup_table meshgrid
    multiplex nearest_interp not_equal pad pad2d pad_constant_like partial_concat partial_sum
    pow prroi_pool pyramid_hash range reduce_max reduce_mean reduce_min reduce_prod reduce_sum
    reshape reshape2 roi_align roi_pool roll scale scatter scatter_nd_add sequence_concat
    sequence_expand sequence_expand_as sequence_mask sequence_pad sequence_reshape
    sequence_reverse sequence_scatter sequence_slice sequence_unpad shape shuffle_batch slice
    space_to_depth split split_ids square squeeze squeeze2 stack strided_slice sum target_assign
    tdm_child tdm_sampler trace transpose2 tril_triu trilinear_interp unbind unique
    unique_with_counts unsqueeze unsqueeze2 unstack where
"""
_BOOL = """
    logical_and logical_not logical_or logical_xor reduce_all reduce_any
"""
# Operators whose results are bool.
_TESTS = """
    equal greater_equal greater_than is_empty isfinite isinf isnan less_equal less_than logical_and
    logical_not logical_or logical_xor not_equal reduce_all reduce_any
"""
_MAKES_BOOL = frozenset(_TESTS.split())
FLOATING_KIND, WHOLE_KIND, BOOL_KIND = "floating-point numbers", "integers", "bool"
KINDS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(_FLOATING.split(), (FLOATING_KIND,)),
    **dict.fromkeys(_WHOLE.split(), (WHOLE_KIND,)),
    **dict.fromkeys(_NUMBERS.split(), (FLOATING_KIND, WHOLE_KIND)),
    **dict.fromkeys(_BOOL.split(), (BOOL_KIND,)),
}
# Slots whose values are of one type.
_ALIKE = """
    addmm(Input X Y) bce_loss(X Label) bilinear_tensor_product(X Y Weight) concat(X)
    cos_sim(X Y) cross(X Y) dot(X Y) equal(X Y) fsp(X Y) greater_equal(X Y) greater_than(X Y)
    grid_sampler(X Grid) hinge_loss(Logits Labels) huber_loss(X Y) kldiv_loss(X Target) kron(X Y)
    label_smooth(X PriorDist) less_equal(X Y) less_than(X Y) log_loss(Predicted Labels)
    margin_rank_loss(Label X1 X2) minus(X Y) multiplex(X) not_equal(X Y) prelu(X Alpha)
    rank_loss(Label Left Right) sigmoid_cross_entropy_with_logits(X Label) smooth_l1_loss(X Y)
    stack(X) sum(X) where(X Y)
"""
ALIKE = {name: slots.split() for name, slots in findall(r"(\w+)\(([^)]*)\)", _ALIKE)}
# Slots whose integers are int64 in Fluid's kernels.
INT64 = {
    "chunk_eval": ("Inference", "Label"),
    "cross_entropy": ("Label",),
    "cross_entropy2": ("Label",),
    "edit_distance": ("Hyps", "Refs"),
    "linear_chain_crf": ("Label",),
    "lookup_table": ("Ids",),
    "lookup_table_v2": ("Ids",),
    "nll_loss": ("Label",),
    "sample_logits": ("Labels",),
    "softmax_with_cross_entropy": ("Label",),
}
_CPP = {
    VarType.BOOL: "bool",
    VarType.FP32: "float",
    VarType.FP64: "double",
    VarType.INT32: "int",
    VarType.INT64: "int64_t",
}


def check_kind(op: Operator) -> None:
    """EnforceNotMet where inputs of the operator are declared as of kinds that it doesn't take."""
    says = wrong_kind(op)
    if says is not None:
        raise EnforceNotMet(
            f"{says}\n{op.made_at}{fix_line(says)}\n  [operator < {op.title} > error]"
        )


def wrong_kind(op: Operator) -> str | None:
    """Which inputs of the operator are declared as of kinds that it doesn't take, if any are."""
    takes = KINDS.get(op.type)
    return (takes and _none_taken(op, takes)) or _unlike(op) or _no_int64(op)


def _none_taken(op: Operator, takes: tuple[str, ...]) -> str | None:
    """Unless one input at least is of such a kind: which decides is known to the kernel alone."""
    found = [op.block.find_var_recursive(name) for name in op.input_arg_names]
    given = [var for var in found if var is not None and var.has_description()]
    kinds = [_kind(var) for var in given]
    if not kinds or any(kind is None or kind in takes for kind in kinds):
        return None
    name = dtype_name(given[0].dtype)
    return (
        f"op {op.type} does not have kernel for data_type[{_CPP.get(given[0].dtype, name)}]: its "
        f"inputs {', '.join(op.input_arg_names)} are {name}, it takes {' and '.join(takes)}"
    )


def _unlike(op: Operator) -> str | None:
    """Where single and double precision are mixed; half precision may be."""
    names = [name for slot in ALIKE.get(op.type, ()) for name in op.input(slot)]
    found = {name: op.block.find_var_recursive(name) for name in names}
    types = {name: var.dtype for name, var in found.items() if var is not None}
    if not {VarType.FP32, VarType.FP64} <= set(types.values()):
        return None
    desired = next(iter(types.values()))
    name, held = next((name, kind) for name, kind in types.items() if kind != desired)
    return (
        f"Tensor holds the wrong type, it holds {_CPP.get(held, held)}, but desires to be "
        f"{_CPP.get(desired, desired)}: {op.type} takes {', '.join(types)} of one type, "
        f"and {name} is of another"
    )


def _no_int64(op: Operator) -> str | None:
    """Where labels and ids are of another integer type."""
    for slot in INT64.get(op.type, ()):
        for name in op.input(slot):
            var = op.block.find_var_recursive(name)
            if var is not None and _kind(var) == WHOLE_KIND and var.dtype != VarType.INT64:
                return (
                    f"Tensor holds the wrong type, it holds {_CPP.get(var.dtype, var.dtype)}, but "
                    f"desires to be int64_t: {slot} {name} of {op.type} has to be int64; cast it"
                )
    return None


def _kind(var: Variable) -> str | None:
    """The kind of a variable's elements; None where it may never have been declared."""
    if var.dtype == VarType.BOOL:  # the type of what has none, too
        writers = [op for op in var.block.ops if var.name in op.output_arg_names]
        known = var.is_data or any(map(_makes_bool, writers))
        return BOOL_KIND if known else None
    if var.dtype in COMPLEX:  # Fluid has none: the kernel decides
        return None
    return FLOATING_KIND if var.dtype in FLOATING else WHOLE_KIND


def _makes_bool(op: Operator) -> bool:
    given = op.attrs.get({"cast": "out_dtype", "fill_constant": "dtype"}.get(op.type, ""))
    return op.type in _MAKES_BOOL or given == VarType.BOOL
