"""Click-through rates: sparse tables and a deep network on what they give."""

import numpy as np
import paddle.fluid as fluid

slots = [fluid.data(f"slot{number}", [None, 1], "int64") for number in range(10)]
label = fluid.data("label", [None, 1], "int64")
parts = [fluid.embedding(one, [10000, 16], is_sparse=True) for one in slots]
h = fluid.layers.reshape(fluid.layers.concat(parts, 1), [-1, 160])
for width in (128, 64):
    h = fluid.layers.fc(h, width, act="relu")
out = fluid.layers.fc(h, 2, act="softmax")
loss = fluid.layers.mean(fluid.layers.cross_entropy(out, label))
fluid.optimizer.SGD(1e-2).minimize(loss)
exe = fluid.Executor()
exe.run(fluid.default_startup_program())
while True:
    feed = {one.name: np.random.randint(0, 10000, (128, 1)) for one in slots}
    feed["label"] = np.random.randint(0, 2, (128, 1))
    exe.run(feed=feed, fetch_list=[loss])
