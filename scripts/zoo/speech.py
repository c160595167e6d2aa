"""Speech."""

from __future__ import annotations

from zoo.data import speech as make
from zoo.recipe import Recipe

RECIPES = [
    Recipe(
        "PaddleSpeech/DeepASR",
        "train.py --batch_size 4 --device CPU --pass_num 2 --print_per_batches 1 "
        "--hidden_dim 32 --proj_dim 16 --stacked_num 2 --class_num 8 --frame_dim 12 "
        "--mean_var data/mean_var --learning_rate 0.01",
        make.frames,
        branches=("1.6", "1.7", "1.8"),
    ),
]
