"""ResNet-20 for pictures of 32 x 32, with batch norms and shortcuts."""

import numpy as np
import paddle.fluid as fluid


def normed(x, channels, size, stride, act=None):
    x = fluid.layers.conv2d(x, channels, size, stride, size // 2, bias_attr=False)
    return fluid.layers.batch_norm(x, act=act)


def block(x, channels, stride):
    left = normed(normed(x, channels, 3, stride, "relu"), channels, 3, 1)
    same = stride == 1 and x.shape[1] == channels
    right = x if same else normed(x, channels, 1, stride)
    return fluid.layers.elementwise_add(left, right, act="relu")


x, y = fluid.data("x", [None, 3, 32, 32]), fluid.data("y", [None, 1], "int64")
h = normed(x, 16, 3, 1, "relu")
for channels, first in ((16, 1), (32, 2), (64, 2)):
    for number in range(3):
        h = block(h, channels, first if number == 0 else 1)
pooled = fluid.layers.pool2d(h, pool_type="avg", global_pooling=True)
out = fluid.layers.softmax(fluid.layers.fc(pooled, 10))
loss = fluid.layers.mean(fluid.layers.cross_entropy(out, y))
fluid.optimizer.Momentum(1e-2, 0.9).minimize(loss)
exe = fluid.Executor()
exe.run(fluid.default_startup_program())
feed = {
    "x": np.random.rand(16, 3, 32, 32).astype("float32"),
    "y": np.random.randint(0, 10, (16, 1)),
}
while True:
    exe.run(feed=feed, fetch_list=[loss])
