"""Pictures that a generator crops, turns and scales, for a small convolutional network."""

import numpy as np
import paddle.fluid as fluid
from _images import inputs, ready

rng = np.random.RandomState(0)
stored = rng.randint(0, 256, (256, 3, 96, 96)).astype("uint8")
labels = rng.randint(0, 10, (256, 1))
x, y = inputs(64)
h = fluid.layers.conv2d(x, 16, 3, 2, 1, act="relu")
h = fluid.layers.conv2d(h, 32, 3, 2, 1, act="relu")
loss, exe = ready(h, y)


def picture(number):
    top, left = rng.randint(0, 32, 2)
    one = stored[number, :, top : top + 64, left : left + 64].astype("float32")
    one = one[:, :, ::-1] if rng.rand() < 0.5 else one
    blurred = sum(np.roll(one, shift, 2) for shift in range(-2, 3)) / 5
    return (blurred - blurred.mean()) / (blurred.std() + 1e-5)


def batches():
    while True:
        chosen = rng.randint(0, len(stored), 16)
        yield np.stack([picture(one) for one in chosen]), labels[chosen]


loader = fluid.io.DataLoader.from_generator([x, y], capacity=4)
loader.set_batch_generator(batches, fluid.CPUPlace())
for feed in loader():
    exe.run(feed=feed, fetch_list=[loss])
