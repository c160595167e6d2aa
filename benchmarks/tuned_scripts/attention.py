"""Two layers of self-attention, as in a Transformer."""

import numpy as np
import paddle.fluid as fluid

LENGTH, WIDTH, HEADS = 32, 128, 4


def attention(x):
    q, k, v = (fluid.layers.fc(x, WIDTH, num_flatten_dims=2) for _ in range(3))
    heads = [
        fluid.layers.transpose(
            fluid.layers.reshape(one, [0, 0, HEADS, WIDTH // HEADS]), [0, 2, 1, 3]
        )
        for one in (q, k, v)
    ]
    weights = fluid.layers.softmax(
        fluid.layers.matmul(heads[0], heads[1], transpose_y=True, alpha=(WIDTH // HEADS) ** -0.5)
    )
    mixed = fluid.layers.transpose(fluid.layers.matmul(weights, heads[2]), [0, 2, 1, 3])
    mixed = fluid.layers.fc(fluid.layers.reshape(mixed, [0, 0, WIDTH]), WIDTH, num_flatten_dims=2)
    x = fluid.layers.layer_norm(x + mixed, begin_norm_axis=2)
    inner = fluid.layers.fc(x, 4 * WIDTH, num_flatten_dims=2, act="relu")
    return fluid.layers.layer_norm(
        x + fluid.layers.fc(inner, WIDTH, num_flatten_dims=2), begin_norm_axis=2
    )


ids = fluid.data("ids", [None, LENGTH], "int64")
label = fluid.data("label", [None, LENGTH, 1], "int64")
h = fluid.embedding(ids, [2000, WIDTH])
for _ in range(2):
    h = attention(h)
logits = fluid.layers.fc(h, 2000, num_flatten_dims=2)
loss = fluid.layers.mean(fluid.layers.softmax_with_cross_entropy(logits, label))
fluid.optimizer.Adam(1e-3).minimize(loss)
exe = fluid.Executor()
exe.run(fluid.default_startup_program())
feed = {
    "ids": np.random.randint(0, 2000, (8, LENGTH)),
    "label": np.random.randint(0, 2000, (8, LENGTH, 1)),
}
while True:
    exe.run(feed=feed, fetch_list=[loss])
