"""Attributes that programs carry for kernels refluid doesn't use: they don't change the numbers."""

from __future__ import annotations

from typing import Any

Extras = dict[str, Any]

MKLDNN: Extras = {"use_mkldnn": False}
ACTIVATION: Extras = {"use_mkldnn": False, "use_cudnn": False}
ELEMENTWISE: Extras = {"use_mkldnn": False, "x_data_format": "", "y_data_format": ""}
MUL: Extras = {
    "use_mkldnn": False,
    "scale_x": 1.0,
    "scale_y": [1.0],
    "scale_out": 1.0,
    "force_fp32_output": False,
}
CONVOLUTION: Extras = {
    "is_test": False,
    "use_cudnn": False,
    "fuse_relu_before_depthwise_conv": False,
    "use_mkldnn": False,
    "use_quantizer": False,
    "fuse_relu": False,
    "fuse_brelu": False,
    "fuse_brelu_threshold": 6.0,
    "fuse_activation": "",
    "fuse_alpha": 0.0,
    "fuse_beta": 0.0,
    "fuse_residual_connection": False,
    "Scale_in": 1.0,
    "Scale_out": 1.0,
    "Scale_in_eltwise": 1.0,
    "Scale_weights": [1.0],
    "force_fp32_output": False,
    "workspace_size_MB": 512,
    "exhaustive_search": False,
}
POOLING: Extras = {
    "use_cudnn": False,
    "use_mkldnn": False,
    "use_quantizer": False,
    "is_test": False,
}
MATMUL: Extras = {
    "use_mkldnn": False,
    "fused_reshape_Out": [],
    "fused_transpose_Out": [],
    "use_quantizer": False,
    "Scale_x": 1.0,
    "Scale_y": 1.0,
    "Scale_out": 1.0,
    "force_fp32_output": False,
}
TRANSPOSED: Extras = {
    "is_test": False,
    "use_cudnn": False,
    "use_mkldnn": False,
    "fuse_relu": False,
    "fuse_activation": "",
    "fuse_alpha": 0.0,
    "fuse_beta": 0.0,
    "workspace_size_MB": 512,
}
POOL3D: Extras = {"use_cudnn": False, "use_mkldnn": False}
VOLUME: Extras = {
    "is_test": False,
    "use_cudnn": False,
    "use_mkldnn": False,
    "fuse_relu": False,
    "fuse_activation": "",
    "fuse_alpha": 0.0,
    "fuse_beta": 0.0,
    "fuse_residual_connection": False,
    "force_fp32_output": False,
    "workspace_size_MB": 512,
    "exhaustive_search": False,
}
