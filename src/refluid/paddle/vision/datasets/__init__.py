"""`paddle.vision.datasets`: data sets of images, from files at hand or in the cache."""

from refluid.paddle.naming import name_table

name_table(
    __name__,
    """
    refluid.paddle.vision.datasets.digits: FashionMNIST MNIST
    refluid.paddle.vision.datasets.flowers: Flowers
    refluid.paddle.vision.datasets.folders: DatasetFolder ImageFolder
    refluid.paddle.vision.datasets.photographs: Cifar10 Cifar100
    refluid.paddle.vision.datasets.voc2012: VOC2012
    """,
)
