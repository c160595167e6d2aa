"""Boxes, joints and areas in pictures, and videos."""

from __future__ import annotations

from zoo.data import scenes as make
from zoo.recipe import Recipe

_CV = "PaddleCV"

RECIPES = [
    *(
        Recipe(
            f"{_CV}/video",
            f"train.py --model_name={net} --config=data/{net}.yaml --use_gpu=False "
            "--log_interval=1 --valid_interval=1 --save_dir=saved",
            make.videos,
            branches=("1.5", "1.6", "1.7", "1.8"),
            elsewhere=dict.fromkeys(("1.5", "1.6"), f"{_CV}/PaddleVideo"),
            infer=f"predict.py --model_name={net} --config=data/{net}.yaml --use_gpu=False "
            f"--weights=saved/{net}_epoch3.pdparams --save_dir=out",
        )
        for net in ("AttentionCluster", "NEXTVLAD")
    ),
    Recipe(
        f"{_CV}/ssd",
        "train.py --use_gpu False --batch_size 4 --epoc_num 3 --pretrained_model '' "
        "--image_shape 3,100,100 --use_multiprocess False --parallel False "
        "--learning_rate 0.002 --model_save_dir saved",
        make.boxes,
        branches=("1.5", "1.6"),
    ),
    Recipe(
        f"{_CV}/face_detection",
        "train.py --use_gpu False --batch_size 2 --epoc_num 1 --pretrained_model '' "
        "--resize_h 128 --resize_w 128 --use_multiprocess False --parallel False "
        "--model_save_dir saved",
        make.faces,
        branches=("1.8",),
    ),
    Recipe(
        f"{_CV}/human_pose_estimation",
        "train.py --use_gpu False --dataset mpii --batch_size 1 --num_epochs 2 "
        "--pretrained_model '' --model_save_dir saved",
        make.poses,
        branches=("1.5", "1.6", "1.7", "1.8"),
    ),
    Recipe(
        f"{_CV}/deeplabv3+",
        "train.py --use_gpu False --batch_size 2 --train_crop_size 65 --total_step 20 "
        "--dataset_path data/city --save_weights_path saved --parallel False --num_classes 2 "
        "--norm_type gn --base_lr 0.01",
        make.areas,
        branches=("1.6",),
        options="--place cpu",
    ),
]
