"""A small network: steps of half a millisecond."""

import numpy as np
import paddle.fluid as fluid

x, y = fluid.data("x", [None, 784]), fluid.data("y", [None, 1], "int64")
h = x
for _ in range(3):
    h = fluid.layers.fc(h, 128, act="relu")
out = fluid.layers.softmax(fluid.layers.fc(h, 10))
loss = fluid.layers.mean(fluid.layers.cross_entropy(out, y))
fluid.optimizer.Adam(1e-3).minimize(loss)
exe = fluid.Executor()
exe.run(fluid.default_startup_program())
while True:
    feed = {
        "x": np.random.rand(64, 784).astype("float32"),
        "y": np.random.randint(0, 10, (64, 1)),
    }
    exe.run(feed=feed, fetch_list=[loss])
