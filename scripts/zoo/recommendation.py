"""Recommendation: clicks, ratings, sessions."""

from __future__ import annotations

from zoo.data import recommendation as make
from zoo.recipe import ALL, Recipe

_REC = "PaddleRec"
# What is printed of a fetched variable, below its title.
DATASET_LOSS = r"(?m)loss\n(?:.*\n){1,8}?\s+data: \[([\d.e+-]+)\]"
RECIPES = [
    Recipe(
        f"{_REC}/gru4rec",
        "train.py --use_cuda 0 --batch_size 10 --pass_num 2 --model_dir saved",
        make.sequences,
        branches=ALL,
        infer="infer.py --test_dir test_data --model_dir saved --start_index 1 --last_index 2 "
        "--use_cuda 0",
    ),
    Recipe(
        f"{_REC}/gru4rec",
        "train_sample_neg.py --use_cuda 0 --batch_size 10 --pass_num 2 --model_dir saved_neg",
        make.sequences,
        branches=ALL,
        infer="infer_sample_neg.py --test_dir test_data --model_dir saved_neg --start_index 1 "
        "--last_index 2 --use_cuda 0",
    ),
    Recipe(
        f"{_REC}/ssr",
        "train.py --train_dir train_data --use_cuda 0 --batch_size 5 --epochs 2 --model_dir saved",
        make.sequences,
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
        "train.py --epochs 4 --sparse_feature_dim 101 --batch_size 20",
        branches=ALL,
    ),
    Recipe(
        f"{_REC}/gnn",
        "train.py --epoch_num 3 --batch_size 40 --use_cuda 0 --use_parallel 0 --lr 0.005",
        make.sessions,
        branches=ALL,
        infer="infer.py --start_index 0 --last_index 1 --use_cuda 0",
    ),
    Recipe(
        f"{_REC}/word2vec",
        "train.py --train_data_dir data/convert_text8 --dict_path data/test_build_dict "
        "--num_passes 1 --batch_size 100 --base_lr 1.0 --is_sparse",
        make.word_pairs,
        branches=ALL,
    ),
    Recipe(
        f"{_REC}/ncf",
        "train.py --NeuMF 1 --epochs 3 --batch_size 128 --lr 0.01 --num_users 200 --num_items 150",
        make.ratings,
    ),
    Recipe(
        f"{_REC}/ncf",
        "train.py --GMF 1 --epochs 4 --batch_size 128 --lr 0.05 --num_users 200 "
        "--num_items 150 --model_dir gmf",
        make.ratings,
    ),
    Recipe(f"{_REC}/youtube_dnn", "train.py --epochs 1", infer="infer.py --test_epoch 1"),
    Recipe(f"{_REC}/rerank/listwise", "train.py --sample_size 60"),
    Recipe(f"{_REC}/multi_task/mmoe", "mmoe_train.py --epochs 6", make.census),
    Recipe(f"{_REC}/multi_task/share_bottom", "share_bottom.py --epochs 6", make.census),
    Recipe(
        f"{_REC}/ctr/wide_deep", "train.py --epochs 2", make.adult, infer="infer.py --test_epoch 1"
    ),
    Recipe(
        f"{_REC}/ctr/din",
        "train.py --batch_size 16 --epoch_num 2 --base_lr 0.5",
        make.amazon,
        branches=ALL,
        elsewhere=dict.fromkeys(ALL[:3], f"{_REC}/din"),
    ),
    Recipe(
        f"{_REC}/ctr/deepfm",
        "local_train.py --feat_dict data/aid_data/feat_dict_10.pkl2 --num_epoch 4 --batch_size 1 "
        "--num_thread 1 --num_feat 60 --model_output_dir saved --lr 0.01",
        make.criteo,
        branches=("1.6", "1.7", "1.8"),
        printed=DATASET_LOSS,
    ),
    Recipe(
        f"{_REC}/ctr/xdeepfm",
        "local_train.py --num_epoch 3 --batch_size 20 --num_feat 2000 --use_gpu 0 --lr 0.1 "
        "--model_output_dir saved --print_steps 5",
        make.criteo_indices,
        branches=("1.6", "1.7", "1.8"),
        printed=DATASET_LOSS,
    ),
    Recipe(
        f"{_REC}/ctr/dcn",
        "local_train.py --steps 5125000 --batch_size 20 --num_thread 1 --print_steps 5 --lr 0.005",
        make.criteo_vocabulary,
        branches=("1.6", "1.7", "1.8"),
        printed=DATASET_LOSS,
    ),
    Recipe(
        f"{_REC}/multi_task/esmm",
        "train.py --epochs 2 --batch_size 8 --cpu_num 1",
        make.fields,
        printed=DATASET_LOSS,
        infer="infer.py --epochs 2 --batch_size 8 --cpu_num 1",
    ),
    Recipe(
        f"{_REC}/ctr",
        "train.py --train_data_path data/raw/train.txt --test_data_path data/raw/valid.txt "
        "--batch_size 20 --num_passes 2 --sparse_feature_dim 1001 --model_output_dir saved",
        make.criteo,
        branches=("1.5",),
        infer="infer.py --model_path saved/pass-1 --data_path data/raw/valid.txt "
        "--sparse_feature_dim 1001 --batch_size 20",
    ),
]
