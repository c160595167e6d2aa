"""Trains a small network on two programs in turn: a step, and every other time a test."""

import sys

import numpy as np
import paddle.fluid as fluid

steps = int(sys.argv[1])
main, startup = fluid.Program(), fluid.Program()
startup.random_seed = main.random_seed = 1
with fluid.program_guard(main, startup):
    x = fluid.data("x", [None, 8])
    y = fluid.data("y", [None, 1])
    hidden = fluid.layers.dropout(fluid.layers.fc(x, 6, act="tanh"), 0.5)
    out = fluid.layers.fc(hidden, 1)
    loss = fluid.layers.mean(fluid.layers.square_error_cost(out, y))
    test = main.clone(for_test=True)
    rate = fluid.layers.exponential_decay(0.1, 2, 0.5)
    fluid.optimizer.Adam(rate).minimize(loss)
exe = fluid.Executor(fluid.CPUPlace())
exe.run(startup)
draw = np.random.RandomState(0)
compiled = fluid.CompiledProgram(main).with_data_parallel(loss.name, places=[fluid.CPUPlace()])
for step in range(steps):
    feed = {"x": draw.rand(4, 8).astype("float32"), "y": draw.rand(4, 1).tolist()}
    feed["y"] = np.array(feed["y"], "float32")
    (value,) = exe.run(compiled if step % 2 else main, feed, [loss])
    print("loss", round(value.item(), 6))
    if step % 2:
        print(exe.run(test, feed, [loss, out.name])[1].shape)
