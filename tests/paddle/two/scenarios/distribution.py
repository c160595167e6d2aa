"""`paddle.distribution`: moments, densities, entropies, divergences and shapes of samples."""

import numpy as np

_A = np.array([[0.5, 1.5, 2.5], [0.7, 1.1, 3.0]], "float32")
_B = np.array([0.8, 1.2, 2.0], "float32")
_P = np.array([[0.2, 0.5, 0.3], [0.1, 0.1, 0.8]], "float32")

# Class: arguments, others of the same class, and values.
_MADE = {
    "Normal": ((_A, _B), (_B, _A), _A - 1),
    "Uniform": ((-_A, _A), None, _P),
    "Bernoulli": ((_P,), (_P[::-1].copy(),), np.float32([[1, 0, 1], [0, 1, 0]])),
    "Beta": ((_A, _B), (_B, _A), _P),
    "Dirichlet": ((_A,), (_A[::-1].copy(),), _P),
    "Categorical": ((_P,), (_P[::-1].copy(),), np.array([2, 0])),
    "Gumbel": ((_A, _B), None, _A + 1),
    "Laplace": ((_A, _B), (_B, _A), _A + 1),
    "LogNormal": ((_A, _B), (_B, _A), _A),
    "Geometric": ((_P,), None, np.float32([[1, 2, 3], [2, 1, 1]])),
    "Cauchy": ((_A, _B), (_B, _A), _A - 1),
    "Multinomial": ((10, _P), None, np.float32([[2, 5, 3], [1, 1, 8]])),
}


def _of(name):
    given, others, value = _MADE[name]

    def run(paddle):
        paddle.disable_static()

        def made(args):
            listed = [paddle.to_tensor(one) if isinstance(one, np.ndarray) else one for one in args]
            return getattr(paddle.distribution, name)(*listed)

        own, point = made(given), paddle.to_tensor(value)
        asked = {"entropy": own.entropy}
        if name not in ("Uniform", "Cauchy"):
            asked |= {"mean": lambda: own.mean, "variance": lambda: own.variance + own.mean * 0}
        if name != "Geometric":
            asked |= {"log_prob": lambda: own.log_prob(point), "prob": lambda: own.prob(point)}
        if name in ("Bernoulli", "Gumbel", "Laplace", "Geometric", "Cauchy"):
            asked["cdf"] = lambda: own.cdf(point)
        if name == "Categorical":
            asked = {"entropy": own.entropy, "probs": lambda: own.probs(point)}
            asked["log_prob"] = lambda: own.log_prob(point)
        if others is not None:
            asked["kl"] = lambda: paddle.distribution.kl_divergence(own, made(others))
        found = {part: ask().numpy() for part, ask in asked.items()}
        found["sample"] = np.array(own.sample([7, 2]).shape)
        if name != "Categorical":
            found["batch"] = np.array([*own.batch_shape, -1, *own.event_shape])
        return found

    return run


SCENARIOS = {name: _of(name) for name in _MADE}
