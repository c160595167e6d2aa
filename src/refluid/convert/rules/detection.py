"""Operators of detection: each a call of a function in `parts.boxes`."""

from __future__ import annotations

from refluid.convert.rules.calls import Template, calls, filled
from refluid.convert.site import Site, short
from refluid.convert.table import converts

calls(
    {
        "anchor_generator": Template(
            "anchors_of({Input}, {anchor_sizes}, {aspect_ratios}, {variances}, {stride}, {offset})",
            "Anchors Variances",
            lengths="",
        ),
        "bipartite_match": Template(
            "matched({DistMat}, {DistMat.lengths}, {match_type} == 'per_prediction',"
            " {dist_threshold})",
            "ColToRowMatchIndices ColToRowMatchDist",
            lengths="",
        ),
        "density_prior_box": Template(
            "density_prior_box({Input}, {Image}, {fixed_sizes}, {fixed_ratios}, {densities},"
            " {variances}, {clip}, {flatten_to_2d}, {step_w}, {step_h}, {offset})",
            "Boxes Variances",
            lengths="",
        ),
        "iou_similarity": "overlaps({X}, {Y}, {box_normalized}, 1e-10)",
        "prior_box": Template(
            "prior_box({Input}, {Image}, {min_sizes}, {max_sizes}, {aspect_ratios}, {variances},"
            " {flip}, {clip}, {step_w}, {step_h}, {offset}, {min_max_aspect_ratios_order})",
            "Boxes Variances",
            lengths="",
        ),
        "roi_align": Template(
            "roi_align({X}, {ROIs}, {ROIs.lengths}, {spatial_scale}, {pooled_height},"
            " {pooled_width}, {sampling_ratio})",
            lengths="",
        ),
        "yolo_box": Template(
            "yolo_box({X}, {ImgSize}, {anchors}, {class_num}, {downsample_ratio}, {conf_thresh},"
            " {clip_bbox}, {scale_x_y})",
            "Boxes Scores",
            lengths="",
        ),
        "yolov3_loss": Template(
            "yolo_loss({X}, {GTBox}, {GTLabel}, {GTScore}, {anchors}, {anchor_mask}, {class_num},"
            " {downsample_ratio}, {ignore_thresh}, {use_label_smooth}, {scale_x_y})",
            "Loss",
            lengths="",
        ),
    }
)


@converts("box_coder")
def box_coder(site: Site) -> None:
    variance = filled(site, "{PriorBoxVar}")
    if site.attr("variance"):
        numbers = f"torch.tensor({short(site.attr('variance'))})"
        variance = site.writer.members.constant("box_variance", numbers)
    text = filled(site, f"{{PriorBox}}, {variance}, {{TargetBox}}, {{box_normalized}}")
    if site.attr("code_type") == "encode_center_size":
        site.give(f"encoded_boxes({text})", "OutputBox", lengths=site.value("TargetBox").lengths)
        return
    along = site.value("PriorBox" if site.attr("axis") else "TargetBox").lengths
    site.give(f"decoded_boxes({text}, {site.attr('axis') or 0})", "OutputBox", lengths=along)


@converts("target_assign")
def target_assign(site: Site) -> None:
    text = "assigned({X}, {X.lengths}, {MatchIndices}, {mismatch_value}"
    text += ", {NegIndices}, {NegIndices.lengths})" if site.has("NegIndices") else ")"
    site.give_all(filled(site, text), [("Out", 0), ("OutWeight", 0)], "")


@converts("mine_hard_examples")
def mine_hard_examples(site: Site) -> None:
    site.require(site.attr("mining_type") == "max_negative", "mining_type hard_example")
    text = "hard_negatives({ClsLoss}, {MatchIndices}, {MatchDist}, {neg_pos_ratio},"
    names = site.parts_of(filled(site, text + " {neg_dist_threshold})"), 3)
    site.give(names[0], "NegIndices", lengths=names[1])
    site.give(names[2], "UpdatedMatchIndices", lengths="")


@converts("multiclass_nms", "multiclass_nms2")
def multiclass_nms(site: Site) -> None:
    site.require(len(site.shape("Scores")) == 3, "scores of regions")
    site.require(site.shape("BBoxes")[-1] == 4, "polygons")
    site.require(not site.needed("Index"), "the indices of what is kept")
    text = (
        "multiclass_nms({BBoxes}, {Scores}, {background_label}, {score_threshold}, {nms_top_k},"
        " {nms_threshold}, {nms_eta}, {keep_top_k}, {normalized})"
    )
    site.give_with_lengths(filled(site, text))


@converts("generate_proposals")
def generate_proposals(site: Site) -> None:
    text = (
        "proposals({Scores}, {BboxDeltas}, {ImInfo}, {Anchors}, {Variances}, {pre_nms_topN},"
        " {post_nms_topN}, {nms_thresh}, {min_size}, {eta})"
    )
    names = site.parts_of(filled(site, text), 3)
    site.give(names[0], "RpnRois", lengths=names[2])
    site.give(names[1], "RpnRoiProbs", lengths=names[2])
    site.give(names[2], "RpnRoisLod", lengths="")


@converts("collect_fpn_proposals")
def collect_fpn_proposals(site: Site) -> None:
    text = "best_proposals({MultiLevelRois.all}, {MultiLevelScores.all},"
    text += " {MultiLevelRois.all_lengths}, {post_nms_topN})"
    site.give_with_lengths(filled(site, text), "FpnRois")


@converts("distribute_fpn_proposals")
def distribute_fpn_proposals(site: Site) -> None:
    text = "regions_by_level({FpnRois}, {FpnRois.lengths}, {min_level}, {max_level}, {refer_level},"
    levels, lengths, order = site.parts_of(filled(site, text + " {refer_scale})"), 3)
    for place in range(len(site.op.output("MultiFpnRois"))):
        given = f"{levels}[{place}]"
        site.give(given, "MultiFpnRois", place, lengths=f"{lengths}[{place}]")
    site.give(order, "RestoreIndex", lengths="")


@converts("deformable_conv", "deformable_conv_v1")
def deformable_conv(site: Site) -> None:
    masked = "{Mask}" if site.op.type == "deformable_conv" else "None"
    text = (
        f"deformable_conv({{Input}}, {{Offset}}, {masked}, {{Filter}}, {{strides}}, {{paddings}},"
    )
    text += " {dilations}, {groups}, {deformable_groups})"
    site.give(filled(site, text), "Output")
