"""Sequences are fed by a reader, and the result has them too."""

import numpy as np
import paddle.fluid as fluid

main, startup = fluid.Program(), fluid.Program()
with fluid.program_guard(main, startup):
    words = fluid.data("words", [None, 1], "int64", lod_level=1)
    label = fluid.data("label", [None, 1], "float32")
    loader = fluid.io.DataLoader.from_generator([words, label], capacity=4, iterable=False)
    rows = fluid.layers.embedding(words, [20, 4])
    pooled = fluid.layers.sequence_pool(rows, "average")
    loss = fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(pooled, 1), label))
    fluid.optimizer.SGD(0.1).minimize(loss)


def batches():
    draw = np.random.RandomState(0)
    for _ in range(9):
        yield [
            (draw.randint(0, 20, (length, 1)), draw.rand(1).astype("float32"))
            for length in (2, 3, 1)
        ]


loader.set_sample_list_generator(batches, fluid.CPUPlace())
exe = fluid.Executor(fluid.CPUPlace())
exe.run(startup)
loader.start()
while True:
    try:
        value, vectors = exe.run(main, fetch_list=[loss, rows], return_numpy=False)
    except fluid.core.EOFException:
        break
    assert vectors.recursive_sequence_lengths() == [[2, 3, 1]]
    print("loss", np.array(value).item())
