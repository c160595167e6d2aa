"""Optimizers around others, and matrices of derivatives, where functions run at once."""

import numpy as np

STEPS = 12
_X = np.random.RandomState(0).randn(STEPS, 4, 2).astype("float32")


def _network(paddle):
    paddle.disable_static()
    layer = paddle.nn.Linear(2, 1)
    layer.weight.set_value(np.array([[1.0], [2.0]], "float32"))
    layer.bias.set_value(np.array([0.5], "float32"))
    return layer


def _look_ahead(inner, **settings):
    def run(paddle):
        layer, found = _network(paddle), []
        within = getattr(paddle.optimizer, inner)(0.1, parameters=layer.parameters())
        optimizer = paddle.incubate.LookAhead(within, **settings)
        for x in _X:
            loss = (layer(paddle.to_tensor(x)) ** 2).mean()
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
            found.append(np.append(layer.weight.numpy(), layer.bias.numpy()))
        return {"weights": np.stack(found)}

    return run


def _average(rate, least, most):
    def run(paddle):
        layer, found = _network(paddle), []
        optimizer = paddle.optimizer.SGD(0.1, parameters=layer.parameters())
        average = paddle.incubate.ModelAverage(rate, layer.parameters(), least, most)
        for x in _X:
            loss = (layer(paddle.to_tensor(x)) ** 2).mean()
            loss.backward()
            optimizer.step()
            average.step()
            optimizer.clear_grad()
            with average.apply(need_restore=True):
                within = np.append(layer.weight.numpy(), layer.bias.numpy())
            found.append([within, np.append(layer.weight.numpy(), layer.bias.numpy())])
        return {"averages": np.array(found)}

    return run


def _derivatives(paddle):
    paddle.disable_static()
    a, b, rows = (
        paddle.to_tensor(np.array(one, "float32"), stop_gradient=False)
        for one in ([1, 2, 3], [4, 5], [[1, 2], [3, 4], [5, 6]])
    )
    jacobian, hessian = paddle.autograd.jacobian, paddle.autograd.hessian
    one = jacobian(a * a * a.sum(), a)
    several = jacobian((a * 2, a * b.sum()), (a, b))
    batch = jacobian(rows * rows * rows.sum(1, keepdim=True), rows, 0)
    second = hessian((a * a).sum() * (b * b * b).sum(), (a, b))
    found = {
        "whole": one[:],
        "row": one[1],
        "last": one[-1],
        "part": one[0:2, 1],
        "batch": batch[:],
        "batch_row": batch[:, 1],
        "batch_part": batch[1:, :, 0],
        "batch_hessian": hessian((rows * rows * rows).sum(1), rows, 0)[:],
    }
    for n in range(2):
        for m in range(2):
            found[f"several{n}{m}"] = several[n][m][:]
            found[f"second{n}{m}"] = second[n][m][:]
    return {name: value.numpy() for name, value in found.items()}


def _rows_of_gradient(paddle):
    paddle.disable_static()
    table = paddle.nn.Embedding(5, 3, sparse=True)
    (table(paddle.to_tensor([1, 1, 4])) * 2.0).sum().backward()
    return {"values": table.weight.grad.numpy(), "shape": np.array(table.weight.grad.shape)}


SCENARIOS = {
    **{
        f"look_ahead_{inner}_{k}": _look_ahead(inner, alpha=alpha, k=k)
        for inner, alpha, k in (("SGD", 0.2, 5), ("Adam", 0.5, 3), ("Momentum", 1.0, 1))
    },
    **{
        f"average_{rate}_{least}_{most}": _average(rate, least, most)
        for rate, least, most in ((0.15, 2, 10), (0.5, 3, 4), (1.0, 1, 2), (0.5, 10000, 10000))
    },
    "derivatives": _derivatives,
    "rows_of_gradient": _rows_of_gradient,
}
