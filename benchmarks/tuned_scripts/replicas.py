"""A network compiled for two places, with threads that gain nothing."""

import numpy as np
import paddle.fluid as fluid

x, y = fluid.data("x", [None, 64]), fluid.data("y", [None, 1], "int64")
h = x
for _ in range(3):
    h = fluid.layers.fc(h, 64, act="relu")
out = fluid.layers.softmax(fluid.layers.fc(h, 10))
loss = fluid.layers.mean(fluid.layers.cross_entropy(out, y))
fluid.optimizer.Adam(1e-3).minimize(loss)
exe = fluid.Executor()
exe.run(fluid.default_startup_program())
how = fluid.ExecutionStrategy()
how.num_threads = 8
program = fluid.CompiledProgram(fluid.default_main_program()).with_data_parallel(
    loss.name, exec_strategy=how, places=[fluid.CPUPlace(), fluid.CPUPlace()]
)
feed = {"x": np.random.rand(64, 64).astype("float32"), "y": np.random.randint(0, 10, (64, 1))}
while True:
    exe.run(program, feed=feed, fetch_list=[loss])
