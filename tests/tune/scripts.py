"""Scripts that tests tune."""

from __future__ import annotations

HEAD = """\
import os, time
import numpy as np
import paddle.fluid as fluid

x = fluid.data("x", [None, 32])
y = fluid.data("y", [None, 1], "int64")
h = fluid.layers.fc(fluid.layers.dropout(x, 0.1), 64, act="relu")
p = fluid.layers.softmax(fluid.layers.fc(h, 10))
loss = fluid.layers.mean(fluid.layers.cross_entropy(p, y))
"""
BUILT = """\
fluid.optimizer.Adam(1e-2).minimize(loss)
exe = fluid.Executor()
exe.run(fluid.default_startup_program())

def batch():
    return {"x": np.random.rand(16, 32).astype("float32"), "y": np.random.randint(0, 10, (16, 1))}
"""
LOOP = """\
for step in range(100000):
    value, = exe.run({program}, feed=batch(), fetch_list=[loss])
"""
PLAIN = HEAD + BUILT + LOOP.format(program="fluid.default_main_program()")
# Replicas in threads draw from one generator, whoever comes first.
CERTAIN = HEAD.replace("fluid.layers.dropout(x, 0.1)", "x")
COMPILED = (
    CERTAIN
    + BUILT
    + "build, how = fluid.BuildStrategy(), fluid.ExecutionStrategy()\n"
    + "build.fuse_elewise_add_act_ops = True\n"
    + "both = fluid.CompiledProgram(fluid.default_main_program()).with_data_parallel(\n"
    + "    loss.name, build, how, places=[fluid.CPUPlace(), fluid.CPUPlace()])\n"
    + LOOP.format(program="both")
)
PARALLEL = (
    CERTAIN
    + BUILT
    + """\
both = fluid.ParallelExecutor(use_cuda=False, loss_name=loss.name)
for step in range(100000):
    both.run([loss], feed=batch())
"""
)
READING = """\
import numpy as np
import paddle.fluid as fluid

reader = fluid.layers.py_reader(4, [[-1, 8], [-1, 1]], ["float32", "int64"])
x, y = fluid.layers.read_file(reader)
loss = fluid.layers.mean(fluid.layers.cross_entropy(fluid.layers.fc(x, 4, act="softmax"), y))
fluid.optimizer.SGD(1e-2).minimize(loss)
exe = fluid.Executor()
exe.run(fluid.default_startup_program())

def batches():
    for _ in range(1000000):
        yield np.random.rand(16, 8).astype("float32"), np.random.randint(0, 4, (16, 1))

reader.decorate_tensor_provider(batches)
reader.start()
while True:
    exe.run(fetch_list=[loss])
"""
LOADED = (
    HEAD
    + """\
fluid.optimizer.SGD(1e-2).minimize(loss)
exe = fluid.Executor()
exe.run(fluid.default_startup_program())
loader = fluid.io.DataLoader.from_generator([x, y], capacity=4)

def batches():
    for _ in range(1000000):
        yield np.random.rand(16, 32).astype("float32"), np.random.randint(0, 10, (16, 1))

loader.set_batch_generator(batches, fluid.CPUPlace())
for data in loader():
    exe.run(feed=data, fetch_list=[loss])
"""
)
DATASET = """\
import os, random, tempfile
import paddle.fluid as fluid

random.seed(3)
folder = tempfile.mkdtemp()
with open(os.path.join(folder, "part"), "w") as file:
    for _ in range(2000):
        words = [random.randrange(50) for _ in range(random.randint(1, 4))]
        file.write(f"{len(words)} {' '.join(map(str, words))} 1 {random.randrange(2)}\\n")
words = fluid.data("words", [None, 1], "int64", lod_level=1)
label = fluid.data("label", [None, 1], "int64")
pooled = fluid.layers.sequence_pool(fluid.embedding(words, [50, 8]), "sum")
out = fluid.layers.fc(pooled, 2, act="softmax")
loss = fluid.layers.mean(fluid.layers.cross_entropy(out, label))
fluid.optimizer.SGD(0.1).minimize(loss)
exe = fluid.Executor()
exe.run(fluid.default_startup_program())
dataset = fluid.DatasetFactory().create_dataset("QueueDataset")
dataset.set_batch_size(20)
dataset.set_use_var([words, label])
dataset.set_filelist([os.path.join(folder, "part")])
for epoch in range(10000):
    exe.train_from_dataset(dataset=dataset, fetch_list=[loss], print_period=1000)
"""
# From four files, which as many threads could read.
DATASETS = (
    DATASET.replace(
        'with open(os.path.join(folder, "part"), "w") as file:\n    for _ in range(2000):',
        "parts = [os.path.join(folder, str(number)) for number in range(4)]\n"
        'with open(parts[0], "w") as file:\n    for _ in range(2000):',
    )
    .replace(
        'set_filelist([os.path.join(folder, "part")])\n',
        "set_filelist(parts)\nfor part in parts[1:]:\n    shutil.copy(parts[0], part)\n",
    )
    .replace("import os, random", "import os, random, shutil")
)
WORKERS = (
    HEAD
    + """\
fluid.optimizer.SGD(1e-2).minimize(loss)
exe = fluid.Executor()
exe.run(fluid.default_startup_program())

class Pictures(fluid.io.Dataset if hasattr(fluid.io, "Dataset") else object):
    def __len__(self):
        return 4000
    def __getitem__(self, number):
        time.sleep(0.001)
        return np.full(32, number % 7, "float32"), np.full(1, number % 10, "int64")

while True:
    for data in fluid.io.DataLoader(Pictures(), [x, y], fluid.CPUPlace(), batch_size=16):
        exe.run(feed=data, fetch_list=[loss])
"""
)
DYGRAPH = """\
import numpy as np
import paddle.fluid as fluid

with fluid.dygraph.guard():
    layer = fluid.dygraph.Linear(3, 1)
    sgd = fluid.optimizer.SGD(0.1, parameter_list=layer.parameters())
    for step in range(STEPS):
        x = fluid.dygraph.to_variable(np.random.rand(2, 3).astype("float32"))
        loss = fluid.layers.reduce_mean(fluid.layers.square(layer(x)))
        loss.backward()
        sgd.minimize(loss)
        layer.clear_gradients()
"""
IMAGES = """\
import numpy as np
import paddle.fluid as fluid

x, y = fluid.data("x", [None, 3, 16, 16]), fluid.data("y", [None, 1], "int64")
h = fluid.layers.conv2d(x, 16, 3, padding=1, act="relu")
h = fluid.layers.fc(fluid.layers.conv2d(h, 16, 3, padding=1, act="relu"), 64, act="relu")
loss = fluid.layers.mean(fluid.layers.softmax_with_cross_entropy(fluid.layers.fc(h, 10), y))
fluid.optimizer.Momentum(1e-2, 0.9).minimize(loss)
exe = fluid.Executor()
exe.run(fluid.default_startup_program())
while True:
    rows = 16 + 4 * np.random.randint(2)
    feed = {"x": np.random.rand(rows, 3, 16, 16).astype("float32"),
            "y": np.random.randint(0, 10, (rows, 1))}
    exe.run(feed=feed, fetch_list=[loss])
"""
