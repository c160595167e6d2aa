"""`paddle.io`: datasets, samplers, and the loader that makes batches of them."""

from refluid.paddle.naming import name_table

name_table(
    __name__,
    """
    refluid.feed.datasets: Dataset IterableDataset default_collate_fn get_worker_info
    refluid.paddle.io.datasets: ChainDataset ComposeDataset ConcatDataset Subset TensorDataset
    refluid.paddle.io.datasets: random_split
    refluid.paddle.io.loader: DataLoader
    refluid.paddle.io.samplers: BatchSampler DistributedBatchSampler RandomSampler Sampler
    refluid.paddle.io.samplers: SequenceSampler SubsetRandomSampler WeightedRandomSampler
    """,
)
