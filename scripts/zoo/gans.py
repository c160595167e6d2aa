"""Networks that draw pictures, against others that tell them from real ones."""

from __future__ import annotations

from zoo.data import gans as make
from zoo.recipe import Recipe

_GAN = "PaddleCV/gan"
_TWO = ("1.6", "1.8")
_OLD = dict.fromkeys(("1.5", "1.6"), "PaddleCV/PaddleGAN")
_FACES = (
    "--dataset celeba --train_list data/celeba/list.txt --crop_size 64 --gan_mode wgan "
    "--epoch 2 --print_freq 1 --use_gpu False --run_test False --output saved"
)
_FACES_INFER = (
    "--test_list data/celeba/list.txt --dataset_dir data/celeba/ --crop_size 64 --use_gpu False "
    "--n_samples 4"
)
_MNIST = "--dataset mnist --noise_size 100 --batch_size 20 --epoch 2 --use_gpu False --output saved"
_PAIRS = (
    "--dataset pairs --crop_size 32 --image_size 36 --crop_type Random --epoch 2 --batch_size 1 "
    "--print_freq 1 --g_base_dims 8 --d_base_dims 8 --use_gpu False --run_test False --output saved"
)


def _gan(
    net: str, given: str, infer: str, judged: tuple[int, int], branches: tuple[str, ...]
) -> Recipe:
    if net in ("CGAN", "DCGAN"):
        data = make.digits
    elif net in ("CycleGAN", "Pix2pix"):
        data = make.pairs
    else:
        data = make.faces
    return Recipe(
        _GAN,
        f"train.py --model_net {net} {given}",
        data,
        branches=branches,
        elsewhere=_OLD,
        infer=infer and f"infer.py --model_net {net} --init_model saved/checkpoints/1 {infer}",
        judged=judged,
    )


RECIPES = [
    _gan("CGAN", _MNIST, "--n_samples 20 --noise_size 100 --use_gpu False", (0, 0), _TWO),
    _gan("DCGAN", _MNIST, "--n_samples 20 --noise_size 100 --use_gpu False", (1, 0), _TWO),
    _gan(
        "CycleGAN",
        f"{_PAIRS} --net_G resnet_6block",
        "--test_list data/pairs/testA.txt --dataset_dir data/pairs --image_size 32 --crop_size 32 "
        "--g_base_dims 8 --net_G resnet_6block --n_samples 1 --use_gpu False",
        (0, 1),
        _TWO,
    ),
    _gan(
        "Pix2pix",
        f"{_PAIRS} --net_G resnet_6block --train_list data/pairs/both.txt",
        "--test_list data/pairs/testA.txt --dataset_dir data/pairs --image_size 32 --crop_size 32 "
        "--g_base_dims 8 --net_G resnet_6block --n_samples 1 --use_gpu False",
        (0, 1),
        _TWO,
    ),
    _gan(
        "StarGAN",
        f"{_FACES} --image_size 64 --batch_size 4 --g_base_dims 8 --d_base_dims 8 "
        "--g_repeat_num 2 --n_critic 1",
        f"{_FACES_INFER} --image_size 64 --c_dim 5 --g_base_dims 8 "
        "--selected_attrs Black_Hair,Blond_Hair,Brown_Hair,Male,Young",
        (0, 2),
        _TWO,
    ),
    _gan(
        "AttGAN",
        f"{_FACES} --image_size 64 --batch_size 4 --g_base_dims 8 --d_base_dims 8 "
        "--dis_norm instance_norm --num_discriminator_time 1",
        f"{_FACES_INFER} --image_size 64 --g_base_dims 8",
        (0, 0),
        _TWO,
    ),
    _gan(
        "STGAN",
        f"{_FACES} --image_size 64 --batch_size 4 --g_base_dims 8 --d_base_dims 8 "
        "--dis_norm instance_norm --num_discriminator_time 1",
        f"{_FACES_INFER} --image_size 64 --g_base_dims 8 --use_gru True",
        (0, 0),
        _TWO,
    ),
]
