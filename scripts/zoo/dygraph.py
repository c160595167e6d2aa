"""Scripts of the zoo's `dygraph` folders: networks that run at once."""

from __future__ import annotations

from dataclasses import replace

from zoo.data import dialogues, gans, language, vision, watched
from zoo.recipe import Recipe

_AT_ONCE = "dygraph"
_NEW = ("1.7", "1.8")
_RECIPES = [
    Recipe(f"{_AT_ONCE}/mnist", "train.py -e 1", branches=_NEW, steps=25, samples="digits"),
    Recipe(f"{_AT_ONCE}/resnet", "train.py -e 1 -b 4", steps=20, samples="flowers"),
    Recipe(f"{_AT_ONCE}/se_resnet", "train.py -e 1", steps=5, samples="flowers"),
    *(
        Recipe(
            f"{_AT_ONCE}/mobilenet",
            f"train.py --model {net} --data_dir data/pictures --batch_size 8 --num_epochs 4 "
            "--class_dim 5 --total_images 96 --image_shape 3,64,64 --use_gpu False --lr 0.02 "
            "--model_save_dir saved --print_step 1 --resize_short_size 72 --crop_size 64 "
            "--reader_thread 1 --lower_scale 0.5 --test_batch_size 8 --lr_strategy cosine_decay",
            vision.images,
            steps=30,
        )
        for net in ("MobileNetV1", "MobileNetV2")
    ),
    Recipe(
        f"{_AT_ONCE}/ptb_lm",
        "ptb_dy.py --data_path data/ --model_type test --use_gpu False",
        language.language,
        branches=_NEW,
        steps=40,
    ),
    *(
        Recipe(
            f"{_AT_ONCE}/sentiment",
            f"main.py --use_cuda False --model_type {net} --data_dir senta_data "
            "--vocab_path senta_data/word_dict.txt --vocab_size 200 --checkpoints saved --epoch 3 "
            "--batch_size 16 --skip_steps 1 --do_val False",
            language.opinions,
            steps=30,
        )
        for net in ("bow_net", "cnn_net", "gru_net", "bigru_net")
    ),
    *(
        Recipe(
            f"{_AT_ONCE}/similarity_net",
            "run_classifier.py --use_cuda False --do_train True --do_valid False --do_test False "
            "--do_infer False --batch_size 16 --epoch 3 --save_steps 1000 --train_data_dir "
            "data/train_pairwise_data --valid_data_dir data/test_pairwise_data --test_data_dir "
            f"data/test_pairwise_data --output_dir saved --config_path config/{net}_pairwise.json "
            "--task_mode pairwise --vocab_path data/term2id.dict --compute_accuracy False "
            "--init_checkpoint '' --validation_steps 1000",
            language.pairs,
            steps=30,
        )
        for net in ("bow", "cnn", "gru", "lstm")
    ),
    Recipe(
        f"{_AT_ONCE}/seq2seq",
        "train.py --src_lang en --tar_lang vi --attention True --num_layers 2 --hidden_size 32 "
        "--src_vocab_size 103 --tar_vocab_size 103 --batch_size 16 --dropout 0.0 --init_scale 0.1 "
        "--max_grad_norm 5.0 --train_data_prefix data/train --eval_data_prefix data/dev "
        "--test_data_prefix data/test --vocab_prefix data/vocab --use_gpu False "
        "--model_path saved --max_epoch 6 --learning_rate 0.02 --optimizer adam",
        language.translations,
    ),
    Recipe(
        f"{_AT_ONCE}/ocr_recognition",
        "train.py --train_images data/train_images --train_list data/train.list --test_images "
        "data/test_images --test_list data/test.list --use_gpu False --batch_size 8 "
        "--epoch_num 1 --skip_test True --log_period 1 --save_model_dir saved",
        vision.written,
        steps=20,
    ),
    Recipe(f"{_AT_ONCE}/cycle_gan", "train.py --epoch 2", gans.streets, steps=15),
    Recipe(
        f"{_AT_ONCE}/transformer",
        "train.py --use_cuda False --epoch 3 --batch_size 16 --use_token_batch False "
        "--pool_size 400 --max_length 40 --learning_rate 1.0 --warmup_steps 10 --n_layer 2 "
        "--d_model 64 --d_inner_hid 128 --d_key 16 --d_value 16 --n_head 4 --print_step 1 "
        "--training_file data/train.both --validation_file data/test.both "
        "--src_vocab_fpath data/vocab --trg_vocab_fpath data/vocab --save_model saved",
        dialogues.translated,
        steps=40,
    ),
    Recipe(
        f"{_AT_ONCE}/lac",
        "train.py --batch_size 16 --epoch 4 --train_data data/train.tsv --test_data data/test.tsv "
        "--model_save_dir saved --save_steps 1000 --validation_steps 1000 --word_emb_dim 16 "
        "--grnn_hidden_dim 16 --base_learning_rate 0.01 --emb_learning_rate 1",
        language.tagged,
        steps=30,
    ),
    Recipe(
        f"{_AT_ONCE}/bert",
        "run_classifier.py --task_name COLA --use_cuda False --do_train True "
        "--do_test False --batch_size 8 --in_tokens False --data_dir data/small "
        "--vocab_path data/small/vocab.txt --bert_config_path data/small/config.json "
        "--max_seq_len 32 --epoch 2 --learning_rate 0.01 --skip_steps 1 --checkpoints saved",
        dialogues.bert,
        steps=80,
    ),
    Recipe(
        f"{_AT_ONCE}/tsm",
        "train.py --config data/small.yaml --use_gpu False",
        watched.frames,
        branches=_NEW,
        steps=25,
    ),
    Recipe(
        f"{_AT_ONCE}/yolov3",
        "train.py --use_gpu False --pretrain '' --model_save_dir saved --data_dir data/coco "
        "--class_num 3 --batch_size 4 --input_size 96 --random_shape False "
        "--use_multiprocess_reader False --max_iter 25 --no_mixup_iter 25 --learning_rate 1",
        watched.coco,
        branches=_NEW,
    ),
    Recipe(
        f"{_AT_ONCE}/bmn",
        "train.py --config_file data/small.yaml --use_gpu False --epoch 5 --log_interval 1 "
        "--save_dir saved",
        watched.actions,
        branches=_NEW,
    ),
    *(
        Recipe(
            f"{_AT_ONCE}/reinforcement_learning",
            f"{how}.py",
            branches=_NEW,
            printed=r"Average reward: ([0-9.]+)",
            rises=True,
        )
        for how in ("reinforce", "actor_critic")
    ),
]
# Many of them want a GPU, whatever they are told.
RECIPES = [replace(one, options="--place cpu") for one in _RECIPES]
