"""Pictures with places in them: boxes, joints, areas; and videos as features."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np

from zoo.data.lines import Random, write_lines


def save(path: Path, picture: np.ndarray[Any, Any]) -> None:
    """Writes a picture of whole numbers below 256 (height, width, 3)."""
    from PIL import Image

    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(picture.astype("uint8")).save(path)


def with_box(random: Random, size: int) -> tuple[np.ndarray[Any, Any], list[int]]:
    """A dark picture with a bright box, and its left, top, right and bottom."""
    picture = random.integers(0, 60, (size, size, 3))
    left, top = (int(one) for one in random.integers(5, size // 3, 2))
    right, bottom = left + size // 2, top + size // 2
    picture[top:bottom, left:right] = 220
    return picture, [left, top, right, bottom]


_OBJECT = (
    "<annotation><object><name>{}</name><difficult>0</difficult><bndbox><xmin>{}</xmin>"
    "<ymin>{}</ymin><xmax>{}</xmax><ymax>{}</ymax></bndbox></object></annotation>"
)


def boxes(folder: Path, random: Random) -> None:
    """Pascal VOC: a picture and its boxes as XML."""
    where = folder / "data/pascalvoc"
    for part, rows in (("trainval", 40), ("test", 4)):
        lines = []
        for number in range(rows):
            picture, box = with_box(random, 120)
            save(where / f"{part}/{number}.jpg", picture)
            (where / f"{part}/{number}.xml").write_text(_OBJECT.format("cat", *box))
            lines.append(f"{part}/{number}.jpg {part}/{number}.xml")
        write_lines(where / f"{part}.txt", lines)


def faces(folder: Path, random: Random) -> None:
    """WIDER FACE: pictures and boxes in one file of lines."""
    lines = []
    for number in range(44):
        picture, (left, top, right, bottom) = with_box(random, 128)
        name = f"0--Parade/0_Parade_{number}.jpg"
        save(folder / "data/WIDER_train/images" / name, picture)
        lines += [name, "1", f"{left} {top} {right - left} {bottom - top} 0 0 0 0 0 0 "]
    write_lines(folder / "data/wider_face_split/wider_face_train_bbx_gt.txt", lines)


def poses(folder: Path, random: Random) -> None:
    """MPII: sixteen joints of a figure, each at a bright spot."""
    where = folder / "data/mpii"
    for part, rows in (("train", 10), ("valid", 2)):
        people = []
        for number in range(rows):
            joints = random.integers(30, 170, (16, 2))
            picture = random.integers(0, 40, (200, 200, 3))
            for x, y in joints:
                picture[y - 4 : y + 4, x - 4 : x + 4] = 230
            save(where / f"images/{part}{number}.jpg", picture)
            person = {"image": f"{part}{number}.jpg", "center": [100.0, 100.0], "scale": 0.9}
            people.append(person | {"joints": joints.tolist(), "joints_vis": [1] * 16})
        (where / "annot").mkdir(parents=True, exist_ok=True)
        (where / f"annot/{part}.json").write_text(json.dumps(people))


def areas(folder: Path, random: Random) -> None:
    """Cityscapes: a picture and the class of each of its points."""
    where = folder / "data/city"
    for part, rows in (("train", 8), ("val", 2)):
        lines = []
        for number in range(rows):
            picture, (left, top, right, bottom) = with_box(random, 120)
            classes = np.zeros((120, 120, 3))
            classes[top:bottom, left:right] = 1
            save(where / f"{part}/{number}.png", picture)
            save(where / f"{part}/{number}_class.png", classes)
            lines.append(f"{part}/{number}.png {part}/{number}_class.png")
        write_lines(where / f"{part}.list", lines)


_FEATURES = """\
MODEL:
    name: "{name}"
    dataset: "YouTube-8M"
    bone_network: None
    bone_nework: None
    drop_rate: 0.0
    feature_num: 2
    feature_names: ['rgb', 'audio']
    feature_dims: [16, 8]
    seg_num: 6
    cluster_nums: [4, 4]
    embedding_size: 16
    lstm_size: 16
    num_classes: 5
    topk: 2
    video_feature_size: 16
    audio_feature_size: 8
    cluster_size: 4
    hidden_size: 16
    groups: 2
    expansion: 2
    gating_reduction: 2
    eigen_file: "data/eigen.npy"
    UNIQUE:
        good: 20
        bad: 30
TRAIN:
    epoch: 4
    learning_rate: 0.01
    decay_epochs: [50]
    decay_gamma: 0.1
    weight_decay: 0.0
    num_samples: 80
    pretrain_base: None
    lr_boundary_examples: 2000000
    max_iter: 700000
    learning_rate_decay: 0.8
    l2_penalty: 1e-5
    gradient_clip_norm: 1.0
    batch_size: 8
    use_gpu: False
    num_gpus: 1
    filelist: "data/train.list"
VALID:
    batch_size: 8
    filelist: "data/val.list"
TEST:
    batch_size: 8
    filelist: "data/val.list"
INFER:
    batch_size: 1
    filelist: "data/infer.list"
"""


def videos(folder: Path, random: Random) -> None:
    """YouTube-8M: frames as features, brighter where the label says; a configuration each."""
    (folder / "data").mkdir(exist_ok=True)
    np.save(folder / "data/eigen.npy", np.ones((16, 1), "float32"))
    for part, rows in (("train", 80), ("val", 16), ("infer", 4)):
        records = []
        for number in range(rows):
            label, frames = int(random.integers(0, 5)), int(random.integers(6, 12))
            feature = random.integers(60, 180, (frames, 16))
            feature[:, 3 * label : 3 * label + 3] = 255
            record = {b"nframes": frames, b"label": [label], b"video": f"v{number}".encode()}
            record[b"feature"] = feature.astype("uint8")
            record[b"audio"] = random.integers(60, 180, (frames, 8)).astype("uint8")
            records.append(record)
        (folder / f"data/{part}.pkl").write_bytes(pickle.dumps(records, protocol=2))
        write_lines(folder / f"data/{part}.list", [f"data/{part}.pkl"])
    for name in ("AttentionCluster", "AttentionLSTM", "NEXTVLAD"):
        (folder / f"data/{name}.yaml").write_text(_FEATURES.format(name=name))
