"""`paddle.Model`: fits, evaluations, callbacks; sizes of networks."""

import contextlib
import io
import tempfile

import numpy as np


def _dataset(paddle, count):
    class Points(paddle.io.Dataset):
        def __len__(self):
            return count

        def __getitem__(self, place):
            random = np.random.RandomState(place)
            x = random.rand(4).astype("float32")
            return x, np.array([int(x.sum() * 10) % 3])

    return Points()


def _model(paddle, optimizer, metrics=None):
    net = paddle.nn.Sequential(paddle.nn.Linear(4, 8), paddle.nn.Tanh(), paddle.nn.Linear(8, 3))
    for number, one in enumerate(net.parameters()):
        one.set_value(np.random.RandomState(number).randn(*one.shape).astype("float32"))
    spec = paddle.static.InputSpec
    model = paddle.Model(net, spec([None, 4], "float32", "x"), spec([None, 1], "int64", "y"))
    model.prepare(optimizer(model.parameters()), paddle.nn.CrossEntropyLoss(), metrics)
    return model


def _logger(paddle):
    class Logger(paddle.callbacks.Callback):
        def __init__(self):
            super().__init__()
            self.calls, self.values = [], []

        def _note(self, name, logs):
            logs = logs or {}
            self.calls.append(name)
            self.values.append([*logs.get("loss", [0.0]), logs.get("acc", 0.0)])

        def on_train_begin(self, logs=None):
            self._note("train_begin", None)

        def on_epoch_end(self, epoch, logs=None):
            self._note(f"epoch_end {epoch}", logs)

        def on_train_batch_end(self, step, logs=None):
            self._note(f"train {step} {logs['step']} {logs['batch_size']}", logs)

        def on_eval_begin(self, logs=None):
            self._note(f"eval_begin {logs['steps']} {logs['metrics']}", None)

        def on_eval_batch_end(self, step, logs=None):
            self._note(f"eval {step} {logs['step']} {logs['batch_size']}", logs)

        def on_eval_end(self, logs=None):
            self._note("eval_end", logs)

        def on_train_end(self, logs=None):
            self._note("train_end", logs)

    return Logger()


def _fit(optimizer, callbacks=lambda paddle: [], **settings):
    def run(paddle):
        paddle.disable_static()
        model = _model(paddle, lambda params: optimizer(paddle, params), paddle.metric.Accuracy())
        logger = _logger(paddle)
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
            model.fit(
                _dataset(paddle, 10),
                _dataset(paddle, 6),
                batch_size=4,
                verbose=0,
                shuffle=False,
                save_dir=folder,
                callbacks=[logger, *callbacks(paddle)],
                **settings,
            )
        last = model.evaluate(_dataset(paddle, 7), batch_size=3, verbose=0)
        guessed = model.predict(_dataset(paddle, 7), 3, stack_outputs=True, verbose=0)
        return {
            "calls": np.array(logger.calls),
            "values": np.array(logger.values),
            "rate": np.array([model._optimizer.get_lr()]),
            "weight": model.parameters()[0].numpy(),
            "last": np.array([*last["loss"], last["acc"]]),
            "guessed": guessed[0],
        }

    return run


def _adam(paddle, params):
    return paddle.optimizer.Adam(0.05, parameters=params)


def _slow(paddle, params):
    return paddle.optimizer.SGD(1e-9, parameters=params)


def _stepped(paddle, params):
    schedule = paddle.optimizer.lr.StepDecay(0.1, 2)
    return paddle.optimizer.Momentum(schedule, parameters=params)


def _sizes(size, make):
    def run(paddle):
        paddle.disable_static()
        net = make(paddle)
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            found = paddle.summary(net, size)
            count = paddle.flops(net, list(size))
        lines = out.getvalue().splitlines()
        ends = (" ", "Total p", "Train", "Non", "F", "E")
        said = [one.split() for one in lines if one.startswith(ends)]
        return {
            "found": np.array([found["total_params"], found["trainable_params"], count]),
            "said": np.array([" ".join(one) for one in said]),
        }

    return run


def _early(paddle):
    return [paddle.callbacks.EarlyStopping("acc", patience=2, save_best_model=False)]


def _plateau(paddle):
    return [paddle.callbacks.ReduceLROnPlateau("loss", patience=2, min_delta=0.5, cooldown=1)]


SCENARIOS = {
    "fit": _fit(_adam, epochs=3),
    "fit, every second epoch judged": _fit(_adam, epochs=4, eval_freq=2),
    "fit, updates of two batches": _fit(_adam, epochs=2, accumulate_grad_batches=2),
    "fit, last dropped": _fit(_adam, epochs=1, drop_last=True),
    "fit, schedule": _fit(_stepped, epochs=2),
    "fit, schedule by epoch": _fit(
        _stepped, lambda paddle: [paddle.callbacks.LRScheduler(False, True)], epochs=3
    ),
    "fit, early": _fit(_slow, _early, epochs=6),
    "fit, plateau": _fit(_slow, _plateau, epochs=8),
    "lenet": _sizes((1, 1, 28, 28), lambda paddle: paddle.vision.models.LeNet()),
    "resnet18": _sizes((2, 3, 32, 32), lambda paddle: paddle.vision.models.resnet18()),
    "mobilenet": _sizes((1, 3, 32, 32), lambda paddle: paddle.vision.models.mobilenet_v2()),
}
