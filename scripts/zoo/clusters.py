"""Training scripts that run as servers of tables and trainers, with what they are run with."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from zoo.data import recommendation as make
from zoo.recipe import Recipe
from zoo.recommendation import DATASET_LOSS

_REC = "PaddleRec"


@dataclass(frozen=True)
class ClusterRecipe(Recipe):
    """A script that is told its role: by arguments (`told`), or by the environment.

    cut: files, each of which is cut into one for each trainer.
    """

    judged: tuple[int | None, int] = (None, 0)  # servers update
    told: bool = True
    cut: tuple[str, ...] = ()

    def prepare(self, where: Path, trainers: int) -> None:
        """Makes its data."""
        self.make(where, np.random.default_rng(7))
        for name in self.cut:
            file = where / name
            lines = file.read_text().splitlines(keepends=True)
            for number in range(trainers):
                own = "".join(lines[number::trainers])
                file.with_name(f"{file.name}-{number}").write_text(own)
            file.unlink()


CLUSTERS = [
    ClusterRecipe(
        f"{_REC}/ctr/dnn",
        "train.py --is_cloud 1 --save_model 1 --cpu_num 1 --batch_size 2 --epochs 2 "
        "--learning_rate 0.001",
        make.criteo,
        branches=("1.7",),
        printed=r"(?m)auc[ ]*\n(?:.*\n){1,8}?\s+data: \[([\d.e+-]+)\]",
        rises=True,
        told=False,
        cut=("train_data/part-0",),
    ),
    ClusterRecipe(
        f"{_REC}/ctr/deepfm",
        "cluster_train.py --train_data_dir data/train_data --model_output_dir saved --is_local 0 "
        "--feat_dict data/aid_data/feat_dict_10.pkl2 --is_sparse --use_gpu 0 --num_epoch 4 "
        "--batch_size 10 --num_feat 60 --lr 0.001",
        make.criteo,
        branches=("1.7",),
        printed=DATASET_LOSS,
    ),
    ClusterRecipe(
        f"{_REC}/gru4rec",
        "cluster_train.py --train_dir train_data --model_dir saved --vocab_path vocab.txt "
        "--batch_size 10 --is_local 0 --pass_num 3 --base_lr 1.0",
        make.sequences,
        branches=("1.7",),
    ),
    ClusterRecipe(
        f"{_REC}/word2vec",
        "cluster_train.py --train_data_dir data/convert_text8 --dict_path data/test_build_dict "
        "--batch_size 100 --model_output_dir saved --base_lr 1.0 --is_sparse --num_passes 2",
        make.word_pairs,
        branches=("1.7",),
    ),
    ClusterRecipe(
        f"{_REC}/din",
        "cluster_train.py --config_path data/config.txt --train_dir data/paddle_train.txt "
        "--batch_size 16 --epoch_num 3 --use_cuda 0 --parallel 0 --base_lr 0.5",
        make.amazon,
        branches=("1.6",),
    ),
]
