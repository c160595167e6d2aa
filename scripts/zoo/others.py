"""Other repositories than PaddlePaddle/models."""

from __future__ import annotations

from zoo.data import others as make
from zoo.recipe import Recipe

_CPU = "Global.use_gpu=False Global.print_batch_step=1 Global.pretrain_weights="
_WRITTEN = f"{_CPU} TrainReader.num_workers=1 Global.save_epoch_step=1 Global.eval_batch_step=1000"
_OCR = {
    "cls/cls_mv3": "Global.train_batch_size_per_card=8 Global.epoch_num=3",
    "det/det_mv3_db": "Global.train_batch_size_per_card=2 Global.epoch_num=4 "
    "Global.image_shape=[3,160,160]",
    "det/det_mv3_east": "Global.train_batch_size_per_card=2 Global.epoch_num=4 "
    "Global.image_shape=[3,160,160]",
}
_LIST = "./data/eyes"
_SEG = (
    f"DATASET.DATA_DIR {_LIST}/ DATASET.NUM_CLASSES 2 DATASET.TRAIN_FILE_LIST {_LIST}/train.txt "
    f"DATASET.VAL_FILE_LIST {_LIST}/val.txt DATASET.TEST_FILE_LIST {_LIST}/val.txt "
    f"DATASET.VIS_FILE_LIST {_LIST}/val.txt TRAIN_CROP_SIZE (96,96) EVAL_CROP_SIZE (96,96) "
    "AUG.FIX_RESIZE_SIZE (96,96) AUG.AUG_METHOD unpadding BATCH_SIZE 2 SOLVER.NUM_EPOCHS 3 "
    "SOLVER.LR 0.005 TRAIN.PRETRAINED_MODEL_DIR '' TRAIN.MODEL_SAVE_DIR ./saved "
    "TEST.TEST_MODEL ./saved/final DATALOADER.NUM_WORKERS 1"
)
_ERNIE = (
    "--use_cuda false --use_fast_executor true --do_train true --do_val true --do_test false "
    "--batch_size 8 "
    "--vocab_path data/vocab.txt --ernie_config_path data/small.json --max_seq_len 32 "
    "--epoch 6 --learning_rate 1e-3 --skip_steps 1 --validation_steps 1000 --save_steps 1000 "
    "--random_seed 1 --in_tokens false --checkpoints saved "
)
RECIPES = [
    *(
        Recipe(
            ".",
            f"tools/train.py -c configs/{net}.yml -o {_WRITTEN} {more}",
            make.written,
            branches=("59b3a1eb",),
            beside=("configs", "ppocr", "tools"),
            judged=(0, 1),
            repository="PaddleOCR",
        )
        for net, more in _OCR.items()
    ),
    *(
        Recipe(
            ".",
            f"pdseg/train.py --cfg configs/{net}.yaml --log_steps 1 {_SEG}",
            make.eyes,
            branches=("v0.6.0",),
            beside=("configs", "pdseg"),
            infer=f"pdseg/vis.py --cfg configs/{net}.yaml {_SEG}",
            repository="PaddleSeg",
        )
        for net in ("unet_optic", "fast_scnn_pet", "deeplabv3p_mobilenetv2_cityscapes")
    ),
    Recipe(
        ".",
        "tools/train.py -c configs/anchor_free/fcos_r50_fpn_1x.yml -o use_gpu=false max_iters=10 "
        "log_iter=1 pretrain_weights= save_dir=saved LearningRate.base_lr=0.0005",
        make.detected,
        branches=("release/0.4",),
        beside=("configs", "ppdet", "tools"),
        repository="PaddleDetection",
    ),
    *(
        Recipe(
            ".",
            f"ernie/{script}.py {_ERNIE} {more}",
            make.sentences,
            branches=("static_graph",),
            beside=("ernie", "propeller"),
            repository="ERNIE",
        )
        for script, more in (
            (
                "run_classifier",
                "--num_labels 2 --train_set data/train.tsv --dev_set data/dev.tsv --verbose true",
            ),
            (
                "run_sequence_labeling",
                "--num_labels 3 --train_set data/named.tsv --dev_set data/named.tsv "
                "--label_map_config data/labels.json --chunk_scheme IOB",
            ),
        )
    ),
]
