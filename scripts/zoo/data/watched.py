"""What networks that run at once are shown: videos as frames and as features, boxes of COCO."""

from __future__ import annotations

import json
import pickle
from io import BytesIO
from pathlib import Path

import numpy as np

from zoo.data.lines import Random, write_lines
from zoo.data.scenes import save, with_box

_FRAMES = """\
MODEL:
    format: "pkl"
    num_classes: 5
    seg_num: 4
    seglen: 1
    image_mean: [0.485, 0.456, 0.406]
    image_std: [0.229, 0.224, 0.225]
    num_layers: 50
TRAIN:
    epoch: 10
    short_size: 36
    target_size: 32
    num_reader_threads: 1
    buf_size: 16
    batch_size: 8
    use_gpu: False
    num_gpus: 1
    filelist: "data/train.list"
    learning_rate: 0.01
    learning_rate_decay: 0.1
    decay_epochs: [40, 60]
    l2_weight_decay: 1e-4
    momentum: 0.9
    total_videos: 40
VALID:
    short_size: 36
    target_size: 32
    num_reader_threads: 1
    buf_size: 16
    batch_size: 8
    filelist: "data/val.list"
"""


def frames(folder: Path, random: Random) -> None:
    """Kinetics: a pickle of JPEG pictures for each video, as bright as its class says."""
    from PIL import Image

    (folder / "data").mkdir(exist_ok=True)
    for part, rows in (("train", 40), ("val", 8)):
        paths = []
        for number in range(rows):
            label, pictures = int(random.integers(0, 5)), []
            for _ in range(6):
                noise = random.integers(0, 40, (40, 48, 3)) + 50 * label
                written = BytesIO()
                Image.fromarray(noise.astype("uint8")).save(written, "JPEG")
                pictures.append(written.getvalue())
            path = f"data/{part}{number}.pkl"
            (folder / path).write_bytes(pickle.dumps((f"v{number}", label, pictures), 2))
            paths.append(path)
        write_lines(folder / f"data/{part}.list", paths)
    (folder / "data/small.yaml").write_text(_FRAMES)


def coco(folder: Path, random: Random) -> None:
    """COCO of 2017: pictures with a bright box each, and one file of all boxes."""
    where = folder / "data/coco"
    pictures, boxes = [], []
    for number in range(1, 25):
        picture, (left, top, right, bottom) = with_box(random, 120)
        name = f"{number}.jpg"
        save(where / "train2017" / name, picture)
        pictures.append({"id": number, "file_name": name, "height": 120, "width": 120})
        width, height = right - left, bottom - top
        boxes.append(
            {"id": number, "image_id": number, "category_id": 1 + number % 3, "iscrowd": 0}
            | {"bbox": [left, top, width, height], "area": width * height}
        )
    kinds = [{"id": one, "name": f"kind {one}"} for one in (1, 2, 3)]
    every = {"images": pictures, "annotations": boxes, "categories": kinds}
    (where / "annotations").mkdir(parents=True)
    (where / "annotations/instances_train2017.json").write_text(json.dumps(every))


_ACTIONS = """\
MODEL:
  name: "BMN"
  tscale: 16
  dscale: 16
  feat_dim: 400
  prop_boundary_ratio: 0.5
  num_sample: 4
  num_sample_perbin: 3
  anno_file: "data/actions.json"
  feat_path: "data/features"
TRAIN:
  subset: "train"
  epoch: 9
  batch_size: 4
  num_threads: 1
  use_gpu: False
  num_gpus: 1
  learning_rate: 0.001
  learning_rate_decay: 0.1
  lr_decay_iter: 4200
  l2_weight_decay: 1e-4
VALID:
  subset: "validation"
  batch_size: 4
  num_threads: 1
INFER:
  filelist: ""
"""


def actions(folder: Path, random: Random) -> None:
    """ActivityNet: features of 16 moments, others while something happens, and when it does."""
    where = folder / "data/features"
    where.mkdir(parents=True)
    told = {}
    for number in range(28):
        start, length = (int(one) for one in random.integers(2, 8, 2))
        feature = random.normal(0, 0.3, (16, 400))
        feature[start : start + length, :200] += 1
        np.save(where / f"v{number}.npy", feature.astype("float32"))
        part = "train" if number < 24 else "validation"
        when = [10.0 * start, 10.0 * (start + length)]
        told[f"v{number}"] = {
            "subset": part,
            "duration_second": 160.0,
            "annotations": [{"segment": when, "label": "something"}],
        }
    (folder / "data/actions.json").write_text(json.dumps(told))
    (folder / "data/small.yaml").write_text(_ACTIONS)
