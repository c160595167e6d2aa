"""Which operators changed since Fluid 1.5, as files of programs tell it to those that load them."""

from __future__ import annotations

from refluid.fluid.graphs.descriptions import ProgramDesc

_SINCE = "1.5.0"
_CHANGED = "1.6.0"
# What an earlier Fluid makes of them: perhaps the same, nothing, or another result.
_OPERATORS = {
    "POSSIBLE": "bilinear_interp chunk_eval conditional_block conditional_block_infer conv2d "
    "conv2d_transpose conv3d conv3d_transpose crf_decoding ctc_align data_norm depthwise_conv2d "
    "depthwise_conv2d_transpose edit_distance expand fc fused_embedding_seq_pool group_norm hash "
    "leaky_relu linear_chain_crf lod_reset matmul mul nearest_interp one_hot pow prior_box "
    "reshape2 slice uniform_random uniform_random_batch_size_like warpctc",
    "DEFINITELY_NOT": "center_loss coalesce_tensor crop_tensor deformable_conv deformable_conv_v1 "
    "dpsgd eye fill_any_like filter_by_instag gather_nd hard_swish instance_norm lookup_table_v2 "
    "match_matrix_tensor multiclass_nms2 one_hot_v2 prroi_pool pull_box_sparse scatter_nd_add "
    "sequence_pad sequence_topk_avg_pooling sequence_unpad shard_index size strided_slice "
    "trilinear_interp unfold unique unique_with_counts var_conv_2d",
    "BUG_FIX": "layer_norm",
}


def save_op_compatible_info(desc: ProgramDesc) -> None:
    """Has the program's file tell it from here on."""
    from refluid.ir import framework_pb2 as pb

    table = pb.OpCompatibleMap(default_required_version=_SINCE)
    kinds = {op: kind for kind, ops in _OPERATORS.items() for op in ops.split()}
    for op in sorted(kinds):
        pair = table.pair.add(op_name=op)
        pair.compatible_info.version = _CHANGED
        pair.compatible_info.type = getattr(pb.CompatibleInfo, kinds[op])
    desc._program.op_versions = table.SerializeToString()
