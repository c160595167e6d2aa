"""Recurrent layers: what scenarios recorded of Paddle don't show."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from refluid.core import names
from refluid.core.places import CPUPlace
from refluid.eager import mode
from refluid.paddle import nn, optimizer, static
from refluid.paddle.framework.seeds import seed
from refluid.paddle.nn import functional
from refluid.paddle.tensor import manipulation
from refluid.paddle.tensor.creation import to_tensor
from tests.paddle.two.networks import fresh

RANDOM = np.random.RandomState(5)
X = RANDOM.uniform(-1, 1, (4, 7, 3)).astype("float32")
LENGTHS = np.array([7, 3, 5, 1])


def test_states_have_paddles_names() -> None:
    with names.guard(), mode.eager(CPUPlace()):
        net = nn.LSTM(3, 4, 2, direction="bidirect")
        found = {name: one.name for name, one in net.state_dict().items()}
        assert len(found) == 32
        assert len(net.parameters()) == 16
        assert found["weight_hh_l0_reverse"] == found["0.cell_bw.weight_hh"] == "lstm_cell_1.w_1"
        assert found["bias_hh_l1"] == "lstm_cell_2.b_1"
        assert repr(nn.GRU(3, 4, 2)).startswith("GRU(3, 4, num_layers=2\n")


@pytest.mark.parametrize("kind", ["SimpleRNN", "LSTM", "GRU"])
@pytest.mark.parametrize("both", ["forward", "bidirect"])
def test_the_kernel_gives_what_cells_give_step_by_step(kind: str, both: str) -> None:
    """Outputs, states and gradients, with sequences of several lengths."""
    with names.guard(), mode.eager(CPUPlace()):
        seed(3)
        net: Any = getattr(nn, kind)(3, 5, 2, direction=both)
        found = []
        for by_cells in (False, True):
            x = to_tensor(X, stop_gradient=False)
            if by_cells:
                out, last = _by_cells(net, x)
            else:
                out, last = net(x, None, to_tensor(LENGTHS))
            loss = (out * out).sum()
            for state in last if isinstance(last, tuple) else (last,):
                loss = loss + (state * state * state).sum()
            loss.backward()
            grads = [one.gradient() for one in net.parameters()]
            found.append([out.numpy(), x.gradient(), *grads])
            net.clear_gradients()
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def _by_cells(net: Any, x: Any) -> Any:
    """The layers one by one, each sequence alone."""
    outs, lasts = [], []
    for row, length in enumerate(LENGTHS):
        part, states = x[row : row + 1, : int(length)], []
        for one in net:
            part, last = one(part)
            cells = last if isinstance(one, nn.BiRNN) else (last,)
            states += cells
        outs.append(functional.pad(part, [0, 0, 0, 7 - int(length), 0, 0]))
        lasts.append(states)
    number = 2 if type(net).__name__ == "LSTM" else 1
    stacked = [
        manipulation.stack(
            [
                manipulation.concat(
                    [states[n][k] if number == 2 else states[n] for states in lasts], 0
                )
                for n in range(len(lasts[0]))
            ],
            0,
        )
        for k in range(number)
    ]
    return manipulation.concat(outs, 0), tuple(stacked) if number == 2 else stacked[0]


def test_a_cell_of_ones_own() -> None:
    class Sum(nn.RNNCellBase):  # type: ignore[misc, name-defined]
        input_size = 3

        def forward(self, inputs: Any, states: Any, factor: float = 1.0) -> Any:
            made = states + inputs * factor
            return made * 2.0, made

        @property
        def state_shape(self) -> Any:
            return (3,)

    wanted = X.cumsum(1)
    with names.guard(), mode.eager(CPUPlace()):
        out, last = nn.RNN(Sum())(to_tensor(X), factor=0.5)
        np.testing.assert_allclose(out.numpy(), wanted, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(last.numpy(), wanted[:, -1] / 2, rtol=1e-5, atol=1e-5)
    with fresh() as (main, _):
        x = static.data("x", [None, 7, 3])
        found = nn.RNN(Sum())(x, factor=0.5)
        values = static.Executor("cpu").run(main, {"x": X}, [*found])
    np.testing.assert_allclose(values[0], wanted, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(values[1], wanted[:, -1] / 2, rtol=1e-5, atol=1e-5)


def test_dropout_between_layers() -> None:
    with names.guard(), mode.eager(CPUPlace()):
        seed(3)
        net = nn.GRU(3, 5, 2, dropout=0.5)
        x = to_tensor(X)
        first, second = net(x)[0].numpy(), net(x)[0].numpy()
        assert not np.array_equal(first, second)
        states = net(x, to_tensor(np.zeros((2, 4, 5), "float32")))[1]
        assert states.shape == [2, 4, 5]
        net.eval()
        assert np.array_equal(net(x)[0].numpy(), net(x)[0].numpy())


def test_a_network_trains_in_programs_of_any_batch() -> None:
    with fresh() as (main, startup):
        x = static.data("x", [None, 7, 3])
        lengths = static.data("lengths", [None], "int64")
        y = static.data("y", [None, 1], "int64")
        out, (hidden, _) = nn.LSTM(3, 8, 2, direction="bidirect")(x, None, lengths)
        assert out.shape == (-1, 7, 16)
        guess = nn.Linear(8, 2)(hidden[-1])
        loss = functional.cross_entropy(guess, y)
        optimizer.Adam(0.02).minimize(loss)
        exe = static.Executor("cpu")
        exe.run(startup)
        label = (X[:, 0, 0] > 0).astype("int64")[:, None]
        found = []
        for step in range(30):
            rows = slice(0, 4 if step % 2 else 3)
            feed = {"x": X[rows], "lengths": LENGTHS[rows], "y": label[rows]}
            found.append(float(exe.run(main, feed, [loss])[0]))
    assert found[-1] < 0.3 * found[0]


def test_biases_that_are_left_away_stay_zero() -> None:
    with names.guard(), mode.eager(CPUPlace()):
        cell = nn.GRUCell(3, 4, bias_ih_attr=False)
        assert list(cell.state_dict()) == ["weight_ih", "weight_hh", "bias_ih", "bias_hh"]
        assert cell.bias_ih.stop_gradient
        assert not cell.bias_ih.numpy().any()
        net = nn.LSTM(3, 4, bias_hh_attr=False)
        net(to_tensor(X))[0].sum().backward()
        assert net.bias_hh_l0.gradient() is None
        assert net.bias_ih_l0.gradient().any()


def test_errors() -> None:
    with names.guard(), mode.eager(CPUPlace()):
        with pytest.raises(ValueError, match="direction should be"):
            nn.LSTM(3, 4, direction="backward")
        with pytest.raises(ValueError, match="Unknown activation"):
            nn.SimpleRNN(3, 4, activation="gelu")
        with pytest.raises(ValueError, match="must be greater than 0"):
            nn.GRUCell(3, 0)
        with pytest.raises(ValueError, match="does not equals"):
            nn.BiRNN(nn.GRUCell(3, 4), nn.GRUCell(2, 4))
        with pytest.raises(Exception, match="LSTM has 2 initial states, not 1"):
            nn.LSTM(3, 4)(to_tensor(X), to_tensor(np.zeros((1, 4, 4), "float32")))
