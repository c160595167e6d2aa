"""Operators on images that are one call."""

from __future__ import annotations

from refluid.convert.rules.calls import Template, calls, filled
from refluid.convert.site import Site
from refluid.convert.table import converts

_NCHW = {"data_layout": "NCHW", "data_format": "NCHW"}

calls(
    {
        "grid_sampler": Template("F.grid_sample({X}, {Grid}, align_corners=True)", "Output"),
        "affine_channel": Template(
            "{X.x} * {Scale.x}[:, None, None] + {Bias.x}[:, None, None]", loose=True, only=_NCHW
        ),
        "lrn": "local_response_norm({X}, {n}, {k}, {alpha}, {beta})",
        "pixel_shuffle": "F.pixel_shuffle({X}, {upscale_factor})",
        "shuffle_channel": "F.channel_shuffle({X}, {group})",
        "space_to_depth": "space_to_depth({X}, {blocksize})",
        "temporal_shift": "temporal_shift({X}, {seg_num}, {shift_ratio})",
    }
)


@converts("im2sequence")
def im2sequence(site: Site) -> None:
    site.require(not site.has("Y"), "the sizes of the images before")
    text = "image_rows({X}, {kernels}, {strides}, {paddings})"
    site.give_with_lengths(filled(site, text))
