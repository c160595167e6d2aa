"""Click-through rates from files: ids of different counts, sparse tables, a dataset."""

import random
import tempfile
from pathlib import Path

import paddle.fluid as fluid

random.seed(1)
part = Path(tempfile.mkdtemp()) / "part"
with part.open("w") as file:
    for _ in range(20000):
        ids = [random.randrange(10000) for _ in range(random.randint(2, 8))]
        file.write(f"{len(ids)} {' '.join(map(str, ids))} 1 {random.randrange(2)}\n")
ids = fluid.data("ids", [None, 1], "int64", lod_level=1)
label = fluid.data("label", [None, 1], "int64")
h = fluid.layers.sequence_pool(fluid.embedding(ids, [10000, 32], is_sparse=True), "sum")
for width in (128, 64):
    h = fluid.layers.fc(h, width, act="relu")
out = fluid.layers.fc(h, 2, act="softmax")
loss = fluid.layers.mean(fluid.layers.cross_entropy(out, label))
fluid.optimizer.Adagrad(1e-2).minimize(loss)
exe = fluid.Executor()
exe.run(fluid.default_startup_program())
dataset = fluid.DatasetFactory().create_dataset("QueueDataset")
dataset.set_batch_size(128)
dataset.set_use_var([ids, label])
dataset.set_filelist([str(part)])
while True:
    exe.train_from_dataset(dataset=dataset, fetch_list=[loss], print_period=10**9)
