"""Vision."""

from __future__ import annotations

from zoo.data import vision as make
from zoo.recipe import ALL, Recipe

_CV = "PaddleCV"
_NETS = ("MobileNetV2", "ResNet18", "ShuffleNetV2_x0_5", "SqueezeNet1_0", "AlexNet", "MobileNetV1")
RECIPES = [
    *(
        Recipe(
            f"{_CV}/image_classification",
            f"train.py --model {net} --data_dir data/pictures --batch_size 8 --num_epochs 2 "
            "--class_dim 2 --total_images 96 --image_shape 3 64 64 --use_gpu False --lr 0.005 "
            "--model_save_dir saved --print_step 1 --resize_short_size 72 --reader_thread 1 "
            "--lower_scale 0.5 --test_batch_size 8 --lr_strategy cosine_decay",
            make.images,
        )
        for net in _NETS
    ),
    *(
        Recipe(
            f"{_CV}/ocr_recognition",
            f"train.py --model {net} --train_images data/train_images --train_list data/train.list "
            "--test_images data/test_images --test_list data/test.list --use_gpu False "
            "--batch_size 8 --total_step 25 --log_period 5 --save_model_period 25 "
            "--eval_period 1000 --skip_test True --save_model_dir saved",
            make.written,
            branches=branches,
        )
        for net, branches in (("crnn_ctc", ALL), ("attention", ("1.8",)))
    ),
    Recipe(
        f"{_CV}/metric_learning",
        "train_elem.py --model ResNet50 --class_dim 6 --train_batch_size 6 --test_batch_size 6 "
        "--total_iter_num 20 --display_iter_step 1 --test_iter_step 1000 --save_iter_step 20 "
        "--use_gpu False --image_shape 3,64,64 --lr 0.002 --loss_name softmax",
        make.products,
        judged=(0, 1),
    ),
]
