"""Matrices decomposed and solved: what doesn't depend on signs, and gradients."""

import numpy as np


def _draw(*shape):
    return np.random.RandomState(6).uniform(-2, 2, shape).astype("float64")


def _symmetric(*shape):
    x = _draw(*shape)
    return (x + np.swapaxes(x, -1, -2)) / 2 + 3 * np.eye(shape[-1])


def _run(compute, *arrays):
    """Results, and the gradients of their sum times numbers."""

    def run(paddle):
        paddle.disable_static()
        values = [paddle.to_tensor(one, stop_gradient=one.dtype.kind != "f") for one in arrays]
        made = compute(paddle, *values)
        outs = list(made) if isinstance(made, (list, tuple)) else [made]
        random, loss = np.random.RandomState(1), 0.0
        for out in outs:
            weights = random.uniform(0.5, 1.5, out.shape)
            if not out.stop_gradient:
                loss = loss + (out * paddle.to_tensor(weights)).sum()
        found = {f"out{n}": out.numpy() for n, out in enumerate(outs)}
        if not isinstance(loss, float):
            loss.backward()
            found |= {
                f"grad{n}": one.gradient()
                for n, one in enumerate(values)
                if one.gradient() is not None
            }
        return found

    return run


def _whole(paddle, parts):
    """The product of several matrices."""
    out = parts[0]
    for one in parts[1:]:
        out = paddle.matmul(out, one)
    return out


def _svd(paddle, x):
    u, s, vh = paddle.linalg.svd(x)
    return s, _whole(paddle, [u * s.unsqueeze(-2), vh]), paddle.abs(u)


def _eigh(paddle, x):
    values, vectors = paddle.linalg.eigh(x)
    return values, paddle.abs(vectors)


def _eig(paddle, x):
    """In an order of their own: whose vectors are whose hangs on the machine."""
    values, vectors = paddle.linalg.eig(x.detach())
    made = paddle.matmul(paddle.cast(x.detach(), "complex128"), vectors) - vectors * values
    return paddle.sort(paddle.abs(values)), paddle.abs(made).max() + 1.0  # what is left is rounding


def _qr(paddle, x):
    q, r = paddle.linalg.qr(x)
    return paddle.matmul(q, r), paddle.abs(r)


def _lu(paddle, x):
    lu, pivots, infos = paddle.linalg.lu(x.detach(), get_infos=True)
    p, lower, upper = paddle.linalg.lu_unpack(lu, pivots)
    return lu, pivots, infos.reshape([-1]), p, lower, upper


def _lstsq(paddle, x, y):
    solution, left, rank, values = paddle.linalg.lstsq(x, y, driver="gelsd")
    return solution.detach(), left.detach(), rank, values.detach()


_TRIANGLE = np.tril(_draw(4, 4)) + 3 * np.eye(4)
_LOW = _draw(6, 2) @ _draw(2, 5)
SCENARIOS = {
    "svd": _run(_svd, _draw(2, 4, 3)),
    "svd_values": _run(lambda p, x: p.linalg.svd(x, True)[1], _draw(3, 5)),
    # Of several matrices Paddle's gradient is that of the first one only.
    "eigh": _run(_eigh, _symmetric(4, 4)),
    "eigvalsh": _run(lambda p, x: p.linalg.eigvalsh(x, "U"), _symmetric(4, 4)),
    "qr": _run(_qr, _draw(2, 5, 3)),
    "slogdet": _run(lambda p, x: p.linalg.slogdet(x), _draw(3, 4, 4)),
    "lu": _run(_lu, _draw(4, 4)),
    "pinv": _run(lambda p, x: p.linalg.pinv(x), _draw(2, 4, 3)),
    "pinv_symmetric": _run(lambda p, x: p.linalg.pinv(x, hermitian=True), _symmetric(4, 4)),
    "triangular": _run(
        lambda p, x, y: p.linalg.triangular_solve(x, y, upper=False), _TRIANGLE, _draw(4, 2)
    ),
    "triangular_transposed": _run(
        lambda p, x, y: p.linalg.triangular_solve(x, y, upper=False, transpose=True),
        _TRIANGLE,
        _draw(4, 2),
    ),
    "triangular_unit": _run(
        lambda p, x, y: p.linalg.triangular_solve(x, y, True, False, True), _draw(3, 3), _draw(3, 2)
    ),
    "cholesky_solve": _run(lambda p, x, y: p.linalg.cholesky_solve(x, y), _draw(4, 2), _TRIANGLE),
    "cholesky": _run(lambda p, x: p.linalg.cholesky(x), _symmetric(4, 4) @ _symmetric(4, 4)),
    "cholesky_upper": _run(
        lambda p, x: p.linalg.cholesky(x, upper=True), _symmetric(2, 3, 3) @ _symmetric(2, 3, 3)
    ),
    "eig": _run(_eig, _draw(4, 4)),
    "bucketize": _run(
        lambda p, x, edges: p.bucketize(x, edges, out_int32=True), _draw(3, 4), np.sort(_draw(5))
    ),
    "bucketize_right": _run(
        lambda p, x, edges: p.bucketize(x, edges, right=True), _draw(5), np.sort(_draw(5))
    ),
    "rank": _run(lambda p, x: p.linalg.matrix_rank(x).reshape([-1]), _LOW),
    "rank_tolerance": _run(lambda p, x: p.linalg.matrix_rank(x, 3.0), _draw(3, 4, 5)),
    "rank_symmetric": _run(
        lambda p, x: p.linalg.matrix_rank(x, hermitian=True).reshape([-1]), _symmetric(4, 4)
    ),
    "householder": _run(
        lambda p, x, t: p.linalg.householder_product(x, t), _draw(4, 3), _draw(3) / 4
    ),
    "lstsq": _run(_lstsq, _draw(6, 3), _draw(6, 2)),
    **{
        f"cond_{p}": _run(lambda paddle, x, p=p: paddle.linalg.cond(x, p), _draw(2, 3, 3))
        for p in (None, 2, -2, "fro", "nuc", 1, -1, float("inf"), float("-inf"))
    },
    "cov": _run(lambda p, x: p.linalg.cov(x), _draw(3, 5)),
    "cov_columns": _run(lambda p, x: p.linalg.cov(x, False, False), _draw(3, 5)),
    "cov_weights": _run(
        lambda p, x, f, a: p.linalg.cov(x, True, True, f, a.detach()),
        _draw(3, 5),
        np.array([1, 2, 1, 3, 1]),
        np.abs(_draw(5)),
    ),
    "corrcoef": _run(lambda p, x: p.linalg.corrcoef(x), _draw(3, 5)),
    "cdist": _run(lambda p, x, y: p.cdist(x, y), _draw(2, 3, 4), _draw(2, 5, 4) + 1),
    "cdist_1": _run(lambda p, x, y: p.cdist(x, y, 1.0), _draw(3, 4), _draw(5, 4) + 1),
}
