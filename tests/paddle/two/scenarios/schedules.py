"""Twenty-four rates of each schedule, some after a state was saved and loaded."""

import numpy as np


def _rates(make, *losses, resumes=True):
    def run(paddle):
        schedule = make(paddle.optimizer.lr)
        found = []
        for step in range(24):
            found.append(schedule())
            if losses:
                schedule.step(losses[step % len(losses)])
            else:
                schedule.step()
        if not resumes:
            return {"rates": np.asarray(found, "float64")}
        again = make(paddle.optimizer.lr)
        again.set_state_dict(schedule.state_dict())
        for _ in range(3):
            found.append(again())
            again.step(0.5) if losses else again.step()
        return {"rates": np.asarray(found, "float64")}

    return run


def _jumping(make):
    def run(paddle):
        schedule = make(paddle.optimizer.lr)
        found = []
        for epoch in (3, 7, 2, 11):
            schedule.step(epoch)
            found.append(schedule.get_lr())
        return {"rates": np.asarray(found, "float64")}

    return run


MAKES = {
    "noam": lambda lr: lr.NoamDecay(64, 5, 2.0),
    "piecewise": lambda lr: lr.PiecewiseDecay([3, 9], [0.1, 0.05, 0.01]),
    "natural_exp": lambda lr: lr.NaturalExpDecay(0.5, 0.1),
    "inverse_time": lambda lr: lr.InverseTimeDecay(0.5, 0.1),
    "polynomial": lambda lr: lr.PolynomialDecay(0.5, 7, 0.01, 2.0),
    "polynomial_cycle": lambda lr: lr.PolynomialDecay(0.5, 7, 0.01, 1.5, cycle=True),
    "warmup": lambda lr: lr.LinearWarmup(0.5, 6, 0.0, 0.5),
    "warmup_then": lambda lr: lr.LinearWarmup(lr.StepDecay(0.5, 4), 6, 0.1, 0.5),
    "exponential": lambda lr: lr.ExponentialDecay(0.5, 0.9),
    "multi_step": lambda lr: lr.MultiStepDecay(0.5, [2, 7, 11], 0.3),
    "step": lambda lr: lr.StepDecay(0.5, 4, 0.3),
    "lambda": lambda lr: lr.LambdaDecay(0.5, lambda step: 0.9**step),
    "multiplicative": lambda lr: lr.MultiplicativeDecay(0.5, lambda step: 0.9 + 0.001 * step),
    "cosine": lambda lr: lr.CosineAnnealingDecay(0.5, 8, 0.01),
    "one_cycle": lambda lr: lr.OneCycleLR(0.5, 40),
    "one_cycle_linear": lambda lr: lr.OneCycleLR(
        0.5, 30, 10.0, 0.001, 0.4, anneal_strategy="linear", three_phase=True
    ),
    "cyclic": lambda lr: lr.CyclicLR(0.1, 0.5, 4),
    "cyclic_triangular2": lambda lr: lr.CyclicLR(0.1, 0.5, 4, 3, mode="triangular2"),
    "cyclic_exp": lambda lr: lr.CyclicLR(0.1, 0.5, 4, mode="exp_range", exp_gamma=0.95),
    "linear": lambda lr: lr.LinearLR(0.5, 10, 0.2),
}
PLATEAUS = {
    "plateau": lambda lr: lr.ReduceOnPlateau(0.5, patience=2, cooldown=1),
    "plateau_max": lambda lr: lr.ReduceOnPlateau(
        0.5, "max", 0.3, 1, threshold=0.1, threshold_mode="abs", min_lr=0.01
    ),
}
JUMPING = ("noam", "piecewise", "natural_exp", "inverse_time", "polynomial", "step", "cosine")

SCENARIOS = {
    # Paddle's state lacks how long the period is: it would begin with the first one again.
    "cosine_restarts": _rates(
        lambda lr: lr.CosineAnnealingWarmRestarts(0.5, 4, 2, 0.01), resumes=False
    ),
    **{name: _rates(make) for name, make in MAKES.items()},
    **{name: _rates(make, 1.0, 0.9, 0.95, 0.93, 0.8) for name, make in PLATEAUS.items()},
    **{f"{name}_jumping": _jumping(MAKES[name]) for name in JUMPING},
}
