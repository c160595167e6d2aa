"""An LSTM over sentences of different lengths (LoD)."""

import numpy as np
import paddle.fluid as fluid

words = fluid.data("words", [None, 1], "int64", lod_level=1)
label = fluid.data("label", [None, 1], "int64")
inside = fluid.layers.fc(fluid.layers.embedding(words, [2000, 64]), 4 * 64)
states, _ = fluid.layers.dynamic_lstm(inside, 4 * 64, use_peepholes=False)
out = fluid.layers.softmax(fluid.layers.fc(fluid.layers.sequence_last_step(states), 2))
loss = fluid.layers.mean(fluid.layers.cross_entropy(out, label))
fluid.optimizer.Adam(1e-3).minimize(loss)
exe = fluid.Executor()
exe.run(fluid.default_startup_program())
while True:
    lengths = np.random.randint(8, 24, 16).tolist()
    ids = np.random.randint(0, 2000, (sum(lengths), 1))
    feed = {
        "words": fluid.create_lod_tensor(ids, [lengths], fluid.CPUPlace()),
        "label": np.random.randint(0, 2, (16, 1)),
    }
    exe.run(feed=feed, fetch_list=[loss])
