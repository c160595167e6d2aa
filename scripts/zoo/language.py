"""Language."""

from __future__ import annotations

from zoo.data import language as make
from zoo.recipe import ALL, Recipe

_NLP = "PaddleNLP"
_SHARED = (f"{_NLP}/shared_modules", f"{_NLP}/models", f"{_NLP}/preprocess")
RECIPES = [
    Recipe(
        f"{_NLP}/emotion_detection",
        "run_classifier.py --use_cuda false --do_train true --do_val false --epoch 2 --lr 0.01 "
        "--batch_size 32 --skip_steps 1 --save_checkpoint_dir saved --save_steps 20",
        make.emotions,
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
        make.opinions,
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
            make.pairs,
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
            make.language,
            branches=branches,
            beside=_SHARED,
        )
        for kind, branches in (
            ("static", ("1.7", "1.8")),
            ("padding", ("1.8",)),
            ("basic_lstm", ("1.8",)),
        )
    ),
    Recipe(
        f"{_NLP}/seq2seq/seq2seq",
        "train.py --src_lang en --tar_lang vi --attention True --num_layers 2 --hidden_size 32 "
        "--src_vocab_size 103 --tar_vocab_size 103 --batch_size 16 --dropout 0.0 --init_scale 0.1 "
        "--max_grad_norm 5.0 --train_data_prefix data/train --eval_data_prefix data/dev "
        "--test_data_prefix data/test --vocab_prefix data/vocab --use_gpu False "
        "--model_path saved --max_epoch 3 --learning_rate 0.005 --optimizer adam",
        make.translations,
        branches=("1.6", "1.7", "1.8"),
        elsewhere={"1.6": f"{_NLP}/PaddleTextGEN/seq2seq"},
    ),
    Recipe(
        f"{_NLP}/unarchived/chinese_ner",
        "train.py --device CPU --num_passes 2 --batch_size 16",
        branches=("1.5",),
    ),
    Recipe(  # it divides by the number of GPUs
        f"{_NLP}/language_model",
        "train.py --data_path data/ --model_type small --rnn_model static --use_gpu False "
        "--parallel False --max_epoch 1 --batch_size 20",
        make.language,
        branches=("1.5", "1.6"),
        beside=_SHARED,
        options="--place cpu",
    ),
    Recipe(
        f"{_NLP}/unarchived/language_model/lstm",
        "train.py --data_path data/ --model_type small --rnn_model static",
        make.language,
        branches=("1.5",),
        options="--place cpu",
    ),
    Recipe(
        f"{_NLP}/unarchived/neural_machine_translation/rnn_search",
        "train.py --src_lang en --tar_lang vi --attention True --num_layers 2 --hidden_size 32 "
        "--src_vocab_size 103 --tar_vocab_size 103 --batch_size 16 --dropout 0.0 --init_scale 0.1 "
        "--max_grad_norm 5.0 --train_data_prefix data/train --eval_data_prefix data/dev "
        "--test_data_prefix data/test --vocab_prefix data/vocab --use_gpu False "
        "--model_path saved --max_epoch 3 --learning_rate 0.005 --optimizer adam",
        make.translations,
        options="--place cpu",
        branches=("1.5",),
    ),
]
