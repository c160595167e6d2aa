"""`paddle.vision.ops`: detection, images of regions, and files of images."""

from refluid.paddle.naming import name_table

name_table(
    __name__,
    """
    refluid.paddle.vision.ops.boxes: box_coder matrix_nms nms prior_box yolo_box yolo_loss
    refluid.paddle.vision.ops.convolution: DeformConv2D deform_conv2d
    refluid.paddle.vision.ops.files: decode_jpeg read_file
    refluid.paddle.vision.ops.regions: PSRoIPool RoIAlign RoIPool psroi_pool roi_align roi_pool
    refluid.paddle.vision.ops.regions: distribute_fpn_proposals generate_proposals
    """,
)
