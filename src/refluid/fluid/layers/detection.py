"""The layers of `fluid.layers.detection`, which live in one file per topic."""

from refluid.fluid.functions.detection.boxes import (
    box_clip,
    box_coder,
    box_decoder_and_assign,
    iou_similarity,
    polygon_box_transform,
)
from refluid.fluid.functions.detection.heads import multi_box_head
from refluid.fluid.functions.detection.matching import bipartite_match, target_assign
from refluid.fluid.functions.detection.mean_precision import detection_map as detection_map
from refluid.fluid.functions.detection.nms import (
    detection_output,
    locality_aware_nms,
    matrix_nms,
    multiclass_nms,
)
from refluid.fluid.functions.detection.priors import anchor_generator, density_prior_box, prior_box
from refluid.fluid.functions.detection.proposals import (
    collect_fpn_proposals,
    distribute_fpn_proposals,
    generate_proposals,
    retinanet_detection_output,
)
from refluid.fluid.functions.detection.rois import (
    roi_perspective_transform,
)
from refluid.fluid.functions.detection.ssd import ssd_loss
from refluid.fluid.functions.detection.targets import (
    generate_mask_labels,
    generate_proposal_labels,
    retinanet_target_assign,
    rpn_target_assign,
)
from refluid.fluid.functions.detection.yolo import sigmoid_focal_loss, yolo_box, yolov3_loss

__all__ = [
    "anchor_generator",
    "bipartite_match",
    "box_clip",
    "box_coder",
    "box_decoder_and_assign",
    "collect_fpn_proposals",
    "density_prior_box",
    "detection_output",
    "distribute_fpn_proposals",
    "generate_mask_labels",
    "generate_proposal_labels",
    "generate_proposals",
    "iou_similarity",
    "locality_aware_nms",
    "matrix_nms",
    "multi_box_head",
    "multiclass_nms",
    "polygon_box_transform",
    "prior_box",
    "retinanet_detection_output",
    "retinanet_target_assign",
    "roi_perspective_transform",
    "rpn_target_assign",
    "sigmoid_focal_loss",
    "ssd_loss",
    "target_assign",
    "yolo_box",
    "yolov3_loss",
]
