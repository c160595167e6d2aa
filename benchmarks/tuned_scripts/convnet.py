"""Residual blocks with batch norms."""

import numpy as np
import paddle.fluid as fluid


def block(x, channels, stride):
    left = fluid.layers.conv2d(x, channels, 3, stride, 1, bias_attr=False)
    left = fluid.layers.batch_norm(left, act="relu")
    left = fluid.layers.conv2d(left, channels, 3, 1, 1, bias_attr=False)
    left = fluid.layers.batch_norm(left)
    right = fluid.layers.conv2d(x, channels, 1, stride, 0, bias_attr=False)
    return fluid.layers.elementwise_add(left, fluid.layers.batch_norm(right), act="relu")


x, y = fluid.data("x", [None, 3, 32, 32]), fluid.data("y", [None, 1], "int64")
h = x
for channels, stride in ((16, 1), (32, 2), (64, 2)):
    h = block(h, channels, stride)
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
