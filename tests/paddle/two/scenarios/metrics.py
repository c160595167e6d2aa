"""Metrics, samplers and initializers that draw nothing or draw by NumPy."""

import numpy as np


def _random():
    return np.random.RandomState(4)


def _accuracy(**settings):
    def run(paddle):
        paddle.disable_static()
        random, metric, found = _random(), paddle.metric.Accuracy(**settings), []
        for shape in ((6, 1), (6,), (6, 5)):
            guess = random.rand(6, 5).astype("float32")
            label = random.randint(0, 5, shape[:2])
            if shape == (6, 5):
                label = np.eye(5, dtype="float32")[random.randint(0, 5, 6)]
            right = metric.compute(paddle.to_tensor(guess), paddle.to_tensor(label))
            found.append(np.ravel(metric.update(right)))
            found.append(np.ravel(metric.accumulate()))
        metric.reset()
        found.append(np.ravel(metric.accumulate()))
        return {"values": np.concatenate(found), "names": np.asarray(np.atleast_1d(metric.name()))}

    return run


def _rates(name, *args):
    def run(paddle):
        random, metric, found = _random(), getattr(paddle.metric, name)(*args), []
        for _ in range(3):
            guess = random.rand(12, 1).astype("float32")
            if name == "Auc":
                guess = np.concatenate([1 - guess, guess], 1)
            metric.update(guess, random.randint(0, 2, (12, 1)))
            found.append(metric.accumulate())
        return {"values": np.asarray(found, "float64")}

    return run


def _functional(paddle):
    paddle.disable_static()
    random = _random()
    guess = paddle.to_tensor(random.rand(7, 5).astype("float32"))
    label = paddle.to_tensor(random.randint(0, 5, (7, 1)))
    return {f"k{k}": paddle.metric.accuracy(guess, label, k).numpy().reshape(1) for k in (1, 2)}


class _Numbers:
    """Data of whole numbers."""

    def __init__(self, count):
        self.count = count

    def __getitem__(self, index):
        return index

    def __len__(self):
        return self.count


def _sampler(make):
    def run(paddle):
        np.random.seed(3)
        sampler = make(paddle.io, _Numbers(11))
        order = [list(np.ravel(one)) for _ in range(2) for one in sampler]
        return {
            "order": np.asarray([one for part in order for one in part]),
            "sizes": np.asarray([len(one) for one in order]),
            "length": np.asarray([len(sampler)]),
        }

    return run


def _distributed(**settings):
    def run(paddle):
        found = []
        for rank in range(3):
            sampler = paddle.io.DistributedBatchSampler(
                _Numbers(11), 2, num_replicas=3, rank=rank, **settings
            )
            for epoch in range(2):
                sampler.set_epoch(epoch)
                found += [one for batch in sampler for one in batch]
        return {"order": np.asarray(found), "length": np.asarray([len(sampler)])}

    return run


def _initial(make, *shape):
    def run(paddle):
        paddle.disable_static()
        attr = paddle.ParamAttr(initializer=make(paddle.nn.initializer))
        return {"value": paddle.create_parameter(list(shape), "float32", attr=attr).numpy()}

    return run


def _spread(make):
    """Mean, deviation and extremes of what an initializer draws: numbers differ, spreads don't."""

    def run(paddle):
        paddle.disable_static()
        found = []
        for shape in ((300, 200), (64, 32, 3, 3)):
            attr = paddle.ParamAttr(initializer=make(paddle.nn.initializer))
            drawn = paddle.create_parameter(list(shape), "float32", attr=attr).numpy()
            found += [np.std(drawn), np.sqrt(np.mean(drawn**2)), np.abs(drawn).mean()]
        return {"spread": np.asarray(found, "float64")}

    return run


RANDOM = {
    "normal": lambda init: init.Normal(0.2, 0.5),
    "truncated": lambda init: init.TruncatedNormal(0.1, 0.5),
    "uniform": lambda init: init.Uniform(-0.3, 0.8),
    "xavier_normal": lambda init: init.XavierNormal(),
    "xavier_uniform": lambda init: init.XavierUniform(fan_in=50, fan_out=20),
    "kaiming_normal": lambda init: init.KaimingNormal(
        negative_slope=0.3, nonlinearity="leaky_relu"
    ),
    "kaiming_uniform": lambda init: init.KaimingUniform(),
    "orthogonal": lambda init: init.Orthogonal(1.5),
}
SCENARIOS = {
    "accuracy": _accuracy(),
    "accuracy_top": _accuracy(topk=(1, 3)),
    "precision": _rates("Precision"),
    "recall": _rates("Recall"),
    "auc": _rates("Auc"),
    "auc_coarse": _rates("Auc", "ROC", 20),
    "accuracy_function": _functional,
    "in_order": _sampler(lambda io, data: io.SequenceSampler(data)),
    "at_random": _sampler(lambda io, data: io.RandomSampler(data)),
    "at_random_again": _sampler(lambda io, data: io.RandomSampler(data, True, 7)),
    "weighted": _sampler(lambda io, _: io.WeightedRandomSampler(np.array([0.1, 0.3, 0.6, 0.0]), 9)),
    "batches": _sampler(lambda io, data: io.BatchSampler(data, batch_size=4)),
    "batches_shuffled": _sampler(
        lambda io, data: io.BatchSampler(data, shuffle=True, batch_size=4, drop_last=True)
    ),
    "distributed": _distributed(),
    "distributed_shuffled": _distributed(shuffle=True),
    "distributed_whole": _distributed(shuffle=True, drop_last=True),
    "constant": _initial(lambda init: init.Constant(1.5), 3, 2),
    "assign": _initial(lambda init: init.Assign(np.arange(6.0).reshape(2, 3)), 2, 3),
    "dirac": _initial(lambda init: init.Dirac(), 6, 4, 3),
    "dirac_groups": _initial(lambda init: init.Dirac(groups=2), 6, 2, 3, 3),
    **{f"spread_{name}": _spread(make) for name, make in RANDOM.items()},
}
