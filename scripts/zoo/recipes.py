"""Which public scripts are run, with which arguments, on what data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from zoo import data

ALL = ("1.5", "1.6", "1.7", "1.8")


@dataclass(frozen=True)
class Recipe:
    """One training script.

    folder: where it is, by default in all branches that have it; elsewhere: by branch. infer: a
    second script and its arguments, run on what the first has saved. printed: a pattern of losses
    in the output, for scripts that train on a dataset and fetch nothing.
    """

    folder: str
    train: str
    make: Callable[[Path, data.Random], None] = data.none
    branches: tuple[str, ...] = ("1.8",)
    elsewhere: dict[str, str] = field(default_factory=dict)
    infer: str = ""
    printed: str = ""
    beside: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """What the report calls it."""
        return f"{self.folder}/{self.train.split()[0]}"


_REC, _NLP = "PaddleRec", "PaddleNLP"
_SHARED = (f"{_NLP}/shared_modules", f"{_NLP}/models", f"{_NLP}/preprocess")
_NETS = ("MobileNetV2", "ResNet18", "ShuffleNetV2_x0_5", "SqueezeNet1_0", "AlexNet", "MobileNetV1")
# What is printed of a fetched variable, below its title.
_DATASET_LOSS = r"(?m)loss\n(?:.*\n){1,8}?\s+data: \[([\d.e+-]+)\]"
RECIPES = [
    Recipe(
        f"{_REC}/gru4rec",
        "train.py --use_cuda 0 --batch_size 10 --pass_num 2 --model_dir saved",
        data.sequences,
        branches=ALL,
        infer="infer.py --test_dir test_data --model_dir saved --start_index 1 --last_index 2 "
        "--use_cuda 0",
    ),
    Recipe(
        f"{_REC}/gru4rec",
        "train_sample_neg.py --use_cuda 0 --batch_size 10 --pass_num 2 --model_dir saved_neg",
        data.sequences,
        branches=ALL,
        infer="infer_sample_neg.py --test_dir test_data --model_dir saved_neg --start_index 1 "
        "--last_index 2 --use_cuda 0",
    ),
    Recipe(
        f"{_REC}/ssr",
        "train.py --train_dir train_data --use_cuda 0 --batch_size 5 --epochs 2 --model_dir saved",
        data.sequences,
        branches=ALL,
        infer="infer.py --test_dir test_data --use_cuda 0 --batch_size 5 --model_dir saved "
        "--start_index 1 --last_index 2",
    ),
    Recipe(
        f"{_REC}/tagspace",
        "train.py --pass_num 3 --model_dir saved",
        branches=ALL,
        infer="infer.py --model_dir saved --start_index 1 --last_index 1",
    ),
    Recipe(
        f"{_REC}/multiview_simnet",
        "train.py --epochs 1 --sparse_feature_dim 1001 --batch_size 20",
        branches=ALL,
    ),
    Recipe(
        f"{_REC}/gnn",
        "train.py --epoch_num 3 --batch_size 40 --use_cuda 0 --use_parallel 0 --lr 0.005",
        data.sessions,
        branches=ALL,
        infer="infer.py --start_index 0 --last_index 1 --use_cuda 0",
    ),
    Recipe(
        f"{_REC}/word2vec",
        "train.py --train_data_dir data/convert_text8 --dict_path data/test_build_dict "
        "--num_passes 1 --batch_size 100 --base_lr 1.0 --is_sparse",
        data.word_pairs,
        branches=ALL,
    ),
    Recipe(
        f"{_REC}/ncf",
        "train.py --NeuMF 1 --epochs 3 --batch_size 128 --lr 0.01 --num_users 200 --num_items 150",
        data.ratings,
    ),
    Recipe(
        f"{_REC}/ncf",
        "train.py --GMF 1 --epochs 4 --batch_size 128 --lr 0.05 --num_users 200 "
        "--num_items 150 --model_dir gmf",
        data.ratings,
    ),
    Recipe(f"{_REC}/youtube_dnn", "train.py --epochs 1", infer="infer.py --test_epoch 1"),
    Recipe(f"{_REC}/rerank/listwise", "train.py --sample_size 60"),
    Recipe(f"{_REC}/multi_task/mmoe", "mmoe_train.py --epochs 6", data.census),
    Recipe(f"{_REC}/multi_task/share_bottom", "share_bottom.py --epochs 6", data.census),
    Recipe(
        f"{_REC}/ctr/wide_deep", "train.py --epochs 2", data.adult, infer="infer.py --test_epoch 1"
    ),
    Recipe(
        f"{_REC}/ctr/din",
        "train.py --batch_size 16 --epoch_num 2 --base_lr 0.5",
        data.amazon,
        branches=ALL,
        elsewhere=dict.fromkeys(ALL[:3], f"{_REC}/din"),
    ),
    Recipe(
        f"{_REC}/ctr/deepfm",
        "local_train.py --feat_dict data/aid_data/feat_dict_10.pkl2 --num_epoch 4 --batch_size 1 "
        "--num_thread 1 --num_feat 60 --model_output_dir saved --lr 0.01",
        data.criteo,
        branches=("1.6", "1.7", "1.8"),
        printed=_DATASET_LOSS,
    ),
    Recipe(
        f"{_REC}/ctr/xdeepfm",
        "local_train.py --num_epoch 3 --batch_size 20 --num_feat 2000 --use_gpu 0 --lr 0.01 "
        "--model_output_dir saved --print_steps 5",
        data.criteo_indices,
        branches=("1.6", "1.7", "1.8"),
        printed=_DATASET_LOSS,
    ),
    Recipe(
        f"{_REC}/ctr/dcn",
        "local_train.py --steps 5125000 --batch_size 20 --num_thread 1 --print_steps 5 --lr 0.005",
        data.criteo_vocabulary,
        branches=("1.6", "1.7", "1.8"),
        printed=_DATASET_LOSS,
    ),
    Recipe(
        f"{_NLP}/emotion_detection",
        "run_classifier.py --use_cuda false --do_train true --do_val false --epoch 2 --lr 0.01 "
        "--batch_size 32 --skip_steps 1 --save_checkpoint_dir saved --save_steps 20",
        data.emotions,
        branches=("1.8",),
        beside=_SHARED,
        infer="run_classifier.py --use_cuda false --do_infer true --batch_size 16 "
        "--init_checkpoint saved/step_20",
    ),
    Recipe(
        f"{_NLP}/sentiment_classification",
        "run_classifier.py --task_name senta --use_cuda false --do_train true --do_val false "
        "--do_infer false --model_type bilstm_net --batch_size 16 --data_dir senta_data "
        "--vocab_path senta_data/word_dict.txt --checkpoints saved --save_steps 20 --epoch 2 "
        "--senta_config_path ./senta_config.json --skip_steps 1",
        data.opinions,
        branches=("1.8",),
        beside=_SHARED,
    ),
    *(
        Recipe(
            f"{_NLP}/similarity_net",
            "run_classifier.py --task_name simnet --use_cuda False --do_train True "
            "--do_valid True "
            "--do_test False --do_infer False --batch_size 16 --epoch 3 "
            "--save_steps 40 "
            "--train_data_dir data/train_pairwise_data --valid_data_dir data/test_pairwise_data "
            "--test_data_dir data/test_pairwise_data --infer_data_dir data/infer_data "
            f"--output_dir saved --config_path config/{net}_pairwise.json --task_mode pairwise "
            "--vocab_path data/term2id.dict --compute_accuracy False --lamda 0.958 "
            "--init_checkpoint '' "
            "--validation_steps 40",
            data.pairs,
            branches=branches,
            beside=_SHARED,
        )
        for net, branches in (
            ("bow", ALL),
            ("cnn", ("1.8",)),
            ("gru", ("1.8",)),
            ("lstm", ("1.8",)),
        )
    ),
    *(
        Recipe(
            f"{_NLP}/language_model",
            f"train.py --data_path data/ --model_type small --rnn_model {kind} --use_gpu False "
            "--parallel False --max_epoch 1 --batch_size 20",
            data.language,
            branches=branches,
            beside=_SHARED,
        )
        for kind, branches in (("static", ALL), ("padding", ("1.8",)), ("basic_lstm", ("1.8",)))
    ),
    Recipe(
        f"{_NLP}/seq2seq/seq2seq",
        "train.py --src_lang en --tar_lang vi --attention True --num_layers 2 --hidden_size 32 "
        "--src_vocab_size 103 --tar_vocab_size 103 --batch_size 16 --dropout 0.0 --init_scale 0.1 "
        "--max_grad_norm 5.0 --train_data_prefix data/train --eval_data_prefix data/dev "
        "--test_data_prefix data/test --vocab_prefix data/vocab --use_gpu False "
        "--model_path saved --max_epoch 3 --learning_rate 0.005 --optimizer adam",
        data.translations,
        branches=("1.6", "1.7", "1.8"),
        elsewhere={"1.6": f"{_NLP}/PaddleTextGEN/seq2seq"},
    ),
    *(
        Recipe(
            "PaddleCV/image_classification",
            f"train.py --model {net} --data_dir data/pictures --batch_size 8 --num_epochs 2 "
            "--class_dim 2 --total_images 96 --image_shape 3 64 64 --use_gpu False --lr 0.005 "
            "--model_save_dir saved --print_step 1 --resize_short_size 72 --reader_thread 1 "
            "--lower_scale 0.5 --test_batch_size 8 --lr_strategy cosine_decay",
            data.images,
        )
        for net in _NETS
    ),
    *(
        Recipe(
            "PaddleCV/ocr_recognition",
            f"train.py --model {net} --train_images data/train_images --train_list data/train.list "
            "--test_images data/test_images --test_list data/test.list --use_gpu False "
            "--batch_size 8 --total_step 25 --log_period 5 --save_model_period 25 "
            "--eval_period 1000 --skip_test True --save_model_dir saved",
            data.written,
            branches=branches,
        )
        for net, branches in (("crnn_ctc", ALL), ("attention", ("1.8",)))
    ),
    Recipe(
        "PaddleCV/metric_learning",
        "train_elem.py --model ResNet50 --class_dim 6 --train_batch_size 6 --test_batch_size 6 "
        "--total_iter_num 20 --display_iter_step 1 --test_iter_step 1000 --save_iter_step 20 "
        "--use_gpu False --image_shape 3,64,64 --lr 0.002 --loss_name softmax",
        data.products,
        branches=ALL,
    ),
    Recipe(
        f"{_NLP}/unarchived/chinese_ner",
        "train.py --device CPU --num_passes 2 --batch_size 16",
        branches=("1.5",),
    ),
]
