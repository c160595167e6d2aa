"""Boxes over cells, and boxes as differences, against formulas told cell by cell."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import refluid.ops  # noqa: F401
from refluid.core.errors import EnforceNotMet
from refluid.core.offsets import Offsets
from tests.ops.test_nms import body, boxes_of

VARIANCES = (0.1, 0.1, 0.2, 0.2)
INPUT, IMAGE = torch.zeros(1, 2, 3, 4), torch.zeros(1, 3, 60, 100)


def _around(x: float, y: float, w: float, h: float) -> list[float]:
    return [(x - w / 2) / 100, (y - h / 2) / 60, (x + w / 2) / 100, (y + h / 2) / 60]


@pytest.mark.parametrize("max_second", [False, True])
def test_prior_box(max_second: bool) -> None:
    boxes, variances = body("prior_box")(
        INPUT,
        IMAGE,
        min_sizes=(10.0, 20.0),
        max_sizes=(15.0, 30.0),
        aspect_ratios=(1.0, 2.0, 0.5),
        variances=VARIANCES,
        flip=True,
        clip=False,
        step_w=25.0,
        step_h=20.0,
        offset=0.25,
        min_max_aspect_ratios_order=max_second,
    )
    expected = []
    for row in range(3):
        for column in range(4):
            for low, high in ((10, 15), (20, 30)):
                sizes = [(low * math.sqrt(r), low / math.sqrt(r)) for r in (1, 2, 0.5)]
                sizes.insert(1 if max_second else 3, (math.sqrt(low * high),) * 2)
                x, y = (column + 0.25) * 25, (row + 0.25) * 20
                expected += [_around(x, y, *size) for size in sizes]
    assert boxes.shape == variances.shape == (3, 4, 8, 4)
    torch.testing.assert_close(boxes.reshape(-1, 4), torch.tensor(expected))
    assert torch.equal(variances[2, 3, 7], torch.tensor(VARIANCES))


@pytest.mark.parametrize("flat", [False, True])
def test_density_prior_box(flat: bool) -> None:
    boxes, _ = body("density_prior_box")(
        INPUT,
        IMAGE,
        variances=VARIANCES,
        clip=False,
        flatten_to_2d=flat,
        fixed_sizes=(8.0, 30.0),
        fixed_ratios=(1.0, 2.0),
        densities=(3, 1),
    )
    expected = []
    for row in range(3):
        for column in range(4):
            for size, density in ((8, 3), (30, 1)):
                shift = 22 // density  # cells are 25 by 20 pixels, 22 on average
                for ratio in (1, 2):
                    for down in range(density):
                        for across in range(density):
                            x = (column + 0.5) * 25 - 11 + shift / 2 + across * shift
                            y = (row + 0.5) * 20 - 11 + shift / 2 + down * shift
                            w, h = size * math.sqrt(ratio), size / math.sqrt(ratio)
                            a, b, c, d = _around(x, y, w, h)
                            expected.append([max(a, 0), max(b, 0), min(c, 1), min(d, 1)])
    assert boxes.shape == ((240, 4) if flat else (3, 4, 20, 4))
    torch.testing.assert_close(boxes.reshape(-1, 4), torch.tensor(expected))


def test_anchor_generator_gives_the_anchors_of_faster_rcnn() -> None:
    anchors, _ = body("anchor_generator")(
        INPUT,
        anchor_sizes=(128.0, 256.0, 512.0),
        aspect_ratios=(0.5, 1.0, 2.0),
        variances=VARIANCES,
        stride=(16.0, 16.0),
        offset=0.5,
    )
    first = [[-84, -40, 99, 55], [-176, -88, 191, 103], [-360, -184, 375, 199]]
    first += [[-56, -56, 71, 71], [-120, -120, 135, 135], [-248, -248, 263, 263]]
    first += [[-36, -80, 51, 95], [-80, -168, 95, 183], [-168, -344, 183, 359]]
    wanted = torch.tensor(first, dtype=torch.float32)
    assert torch.equal(anchors[0, 0], wanted)
    assert torch.equal(anchors[2, 3], wanted + torch.tensor([48.0, 32, 48, 32]))


@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize("listed", [True, False])
def test_box_coder_decodes_what_it_encoded(normalized: bool, listed: bool) -> None:
    random = np.random.RandomState(1)
    prior, target = boxes_of(random, 5) * 50 + 1, boxes_of(random, 3) * 50 + 1
    scale = None if listed else prior.new_tensor(VARIANCES).expand(5, 4)
    given = {"box_normalized": normalized, "variance": VARIANCES if listed else ()}
    lod = (Offsets([0, 1, 3]),)
    coder = body("box_coder")
    coded, levels = coder(prior, scale, target, lod_TargetBox=lod, **given)
    assert coded.shape == (3, 5, 4) and levels == lod
    decoded, levels = coder(prior, scale, coded, code_type="decode_center_size", **given)
    assert levels == ()
    # The center of a box in pixels is told in two ways, half a pixel apart.
    moved = 0.0 if normalized else 0.5
    torch.testing.assert_close(decoded + moved, target[:, None].expand(3, 5, 4))
    along, levels = coder(
        prior,
        scale,
        coded.transpose(0, 1),
        code_type="decode_center_size",
        axis=1,
        lod_PriorBox=lod,
        **given,
    )
    assert levels == lod
    torch.testing.assert_close(along, decoded.transpose(0, 1))


def test_box_coder_knows_two_codes() -> None:
    with pytest.raises(EnforceNotMet, match="decode_center_size"):
        body("box_coder")(torch.rand(2, 4), None, torch.rand(3, 4), code_type="corner")


def test_box_clip_needs_to_know_the_image() -> None:
    boxes, info = torch.tensor([[-5.0, 4, 30, 70]]), torch.tensor([[40.0, 60, 2]])
    assert body("box_clip")(boxes, info).tolist() == [[0, 4, 29, 19]]
    with pytest.raises(EnforceNotMet, match="LoD"):
        body("box_clip")(boxes, info.expand(2, 3))
    assert body("box_clip")(boxes, torch.zeros(1, 3)).tolist() == [[0, 4, 30, 70]]


def test_box_without_likely_class_stays() -> None:
    prior = torch.tensor([[0.0, 0, 9, 9], [0, 0, 9, 9]])
    target = torch.zeros(2, 12)
    target[:, 4:8] = 0.1
    score = torch.tensor([[0.9, 0.5, 0.1], [0.0, -2.0, -3.0]])
    decoded, assigned = body("box_decoder_and_assign")(prior, torch.ones(4), target, score)
    assert torch.equal(assigned[0], decoded[0, 4:8])
    assert torch.equal(assigned[1], prior[1])
