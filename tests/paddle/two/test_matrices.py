"""Matrices decomposed where Paddle 2.6.2 on a CPU has no recording to give."""

from __future__ import annotations

import numpy as np
import pytest

from refluid.core.places import CPUPlace
from refluid.eager import mode
from refluid.paddle import linalg, static
from refluid.paddle.framework.seeds import seed
from refluid.paddle.tensor.creation import to_tensor
from tests.paddle.two.networks import fresh

X = np.random.RandomState(6).uniform(-2, 2, (7, 5)).astype("float32")


def test_low_rank() -> None:
    low = (X[:, :3] @ X[:3]).astype("float32")
    with mode.eager(CPUPlace()):
        seed(1)
        u, s, v = (one.numpy() for one in linalg.pca_lowrank(to_tensor(low), 4, center=False))
        _, centred, _ = linalg.pca_lowrank(to_tensor(X))
    np.testing.assert_allclose(u * s @ v.T, low, atol=1e-4)
    np.testing.assert_allclose(s[:3], np.linalg.svd(low)[1][:3], rtol=1e-4)
    wanted = np.linalg.svd(X - X.mean(0))[1]
    np.testing.assert_allclose(centred.numpy(), wanted, rtol=1e-3)


def test_in_programs() -> None:
    square = X[:5] @ X[:5].T + np.eye(5, dtype="float32")
    with fresh() as (main, _):
        x, y = static.data("x", [7, 5]), static.data("y", [None, 5, 5])
        q, r = linalg.qr(x)
        alone = linalg.qr(x, "r")
        values, vectors = linalg.eigh(y)
        found = [q @ r if hasattr(q, "__matmul__") else linalg.matmul(q, r), alone, values]
        found += [vectors, linalg.slogdet(y), linalg.pinv(x), linalg.matrix_rank(x)]
        assert (q.shape, values.shape, vectors.shape) == ((7, 5), (-1, 5), (-1, 5, 5))
        feed = {"x": X, "y": np.stack([square, 2 * square])}
        got = static.Executor("cpu").run(main, feed, found)
    np.testing.assert_allclose(got[0], X, atol=1e-5)
    np.testing.assert_allclose(abs(got[1]), abs(np.linalg.qr(X)[1]), rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(got[2][1], 2 * np.linalg.eigvalsh(square), rtol=1e-4)
    np.testing.assert_allclose(got[4], np.linalg.slogdet(feed["y"]), rtol=1e-4)
    np.testing.assert_allclose(got[5], np.linalg.pinv(X), rtol=1e-3, atol=1e-4)
    assert got[6].ravel().tolist() == [5]


def test_errors() -> None:
    with mode.eager(CPUPlace()):
        x = to_tensor(X)
        with pytest.raises(ValueError, match="UPLO must be L or U"):
            linalg.eigh(x, "A")
        with pytest.raises(ValueError, match="QR mode"):
            linalg.qr(x, "full")
        with pytest.raises(ValueError, match="driver"):
            linalg.lstsq(x, x, driver="fast")
        with pytest.raises(ValueError, match="cond's p"):
            linalg.cond(x, 3)
        with pytest.raises(ValueError, match="not greater than 5"):
            linalg.pca_lowrank(x, 6)
