"""A network that moves memory: large activations, little arithmetic, garbage that is kept."""

import numpy as np
import paddle.fluid as fluid

fluid.set_flags({"FLAGS_eager_delete_tensor_gb": 1.0})
x = fluid.data("x", [None, 16, 64, 64])
h = x
for number in range(8):
    h = fluid.layers.sigmoid(fluid.layers.scale(h, 0.5 + number))
    h = fluid.layers.elementwise_add(h, x)
out = fluid.layers.fc(fluid.layers.pool2d(h, 8, "avg", 8), 10)
loss = fluid.layers.mean(fluid.layers.square(out))
fluid.optimizer.SGD(1e-3).minimize(loss)
exe = fluid.Executor()
exe.run(fluid.default_startup_program())
feed = {"x": np.random.rand(32, 16, 64, 64).astype("float32")}
while True:
    exe.run(feed=feed, fetch_list=[loss])
