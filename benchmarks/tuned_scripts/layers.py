"""A small network of `fluid.dygraph`."""

import numpy as np
import paddle.fluid as fluid


class Network(fluid.dygraph.Layer):
    def __init__(self):
        super().__init__()
        self.first = fluid.dygraph.Linear(64, 64, act="relu")
        self.second = fluid.dygraph.Linear(64, 64, act="relu")
        self.last = fluid.dygraph.Linear(64, 10)

    def forward(self, x):
        return self.last(self.second(self.first(x)))


with fluid.dygraph.guard():
    network = Network()
    adam = fluid.optimizer.Adam(1e-3, parameter_list=network.parameters())
    while True:
        x = fluid.dygraph.to_variable(np.random.rand(32, 64).astype("float32"))
        y = fluid.dygraph.to_variable(np.random.randint(0, 10, (32, 1)))
        out = fluid.layers.softmax_with_cross_entropy(network(x), y)
        loss = fluid.layers.mean(out)
        loss.backward()
        adam.minimize(loss)
        network.clear_gradients()
