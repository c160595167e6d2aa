"""Two trainers with large gradients, for a slow link between them."""

import numpy as np
import paddle.fluid as fluid
from paddle.fluid.incubate.fleet.base import role_maker
from paddle.fluid.incubate.fleet.collective import fleet

fleet.init(role_maker.PaddleCloudRoleMaker(is_collective=True))
x, y = fluid.data("x", [None, 512]), fluid.data("y", [None, 1], "int64")
h = x
for _ in range(4):
    h = fluid.layers.fc(h, 512, act="relu")
out = fluid.layers.softmax(fluid.layers.fc(h, 10))
loss = fluid.layers.mean(fluid.layers.cross_entropy(out, y))
fleet.distributed_optimizer(fluid.optimizer.SGD(1e-2)).minimize(loss)
exe = fluid.Executor()
exe.run(fluid.default_startup_program())
rng = np.random.RandomState(fleet.worker_index())
feed = {"x": rng.rand(64, 512).astype("float32"), "y": rng.randint(0, 10, (64, 1))}
while True:
    exe.run(fleet.main_program, feed=feed, fetch_list=[loss])
