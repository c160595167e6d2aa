"""`paddle.amp`: mixed precision of networks that run at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from refluid.core import names
from refluid.core.dtypes import VarType
from refluid.core.places import CPUPlace
from refluid.eager import mode
from refluid.paddle import amp, nn, optimizer
from refluid.paddle.framework.seeds import seed
from refluid.paddle.nn import functional
from refluid.paddle.tensor.creation import to_tensor
from refluid.paddle.tensor.linalg import matmul
from tests.choices import crossed

X = np.random.RandomState(0).rand(8, 1, 12, 12).astype("float32")
Y = np.random.RandomState(1).randint(0, 4, (8, 1))
BF16, FP32 = VarType.BF16, VarType.FP32


@pytest.fixture(autouse=True)
def _at_once() -> Iterator[None]:
    with names.guard(), mode.eager(CPUPlace()):
        yield


def _net() -> Any:
    seed(5)
    return nn.Sequential(
        *(nn.Conv2D(1, 8, 3), nn.BatchNorm2D(8), nn.ReLU(), nn.MaxPool2D(2), nn.Flatten()),
        *(nn.Linear(200, 32), nn.LayerNorm(32), nn.GELU(), nn.Linear(32, 4)),
    )


def _trained(level: str, make: Any, dtype: str = "bfloat16") -> tuple[list[float], Any, Any]:
    net = _net()
    trained = make(net.parameters())
    if level == "O2":
        net, trained = amp.decorate(net, trained, level, dtype)
    scaler = amp.GradScaler(init_loss_scaling=256.0)
    losses = []
    for _ in range(12):
        with amp.auto_cast(level != "O0", level=level, dtype=dtype):
            loss = functional.cross_entropy(net(to_tensor(X)), to_tensor(Y))
        scaler.minimize(trained, _backward(scaler.scale(loss)))
        trained.clear_grad()
        losses.append(float(loss))
    return losses, net, trained


def _backward(loss: Any) -> Any:
    loss.backward()
    return loss


MAKES = {
    "momentum": lambda parameters: optimizer.Momentum(
        0.02, 0.9, parameters, grad_clip=nn.ClipGradByGlobalNorm(1.0)
    ),
    "adamw": lambda parameters: optimizer.AdamW(0.005, parameters=parameters),
}


@pytest.mark.parametrize(
    ("level", "kind", "dtype"),
    crossed(
        ["O1", "OD", "O2"],
        MAKES,
        ["bfloat16", "float16"],
        fast=[
            ("O1", "momentum", "bfloat16"),
            ("O1", "adamw", "float16"),
            ("OD", "momentum", "bfloat16"),
            ("O2", "adamw", "bfloat16"),
            ("O2", "momentum", "float16"),
        ],
    ),
)
def test_losses_stay_close_to_float32(level: str, dtype: str, kind: str) -> None:
    exact, _, _ = _trained("O0", MAKES[kind])
    found, _, _ = _trained(level, MAKES[kind], dtype)
    assert found != exact  # it did something
    np.testing.assert_allclose(found, exact, rtol=0.03, atol=0.01)  # bfloat16 has 8 bits
    assert exact[-1] < 0.5 * exact[0]


def test_parameters_of_level_o2_are_half_and_updated_in_float32() -> None:
    _, net, trained = _trained("O2", MAKES["momentum"])
    kinds = {name: one.dtype for name, one in net.state_dict().items()}
    assert {kinds["0.weight"], kinds["5.bias"], kinds["8.weight"]} == {BF16}
    assert {kinds["1.weight"], kinds["1._mean"], kinds["6.weight"]} == {FP32}
    masters = trained.state_dict()["master_weights"]
    assert len(masters) == 6
    for one in net.parameters():
        if one.dtype == BF16:
            master = masters[one.name]
            assert master.dtype == FP32
            rounded = master.tensor.to(one.tensor.dtype)
            assert bool((rounded == one.tensor).all())
            assert not bool((master.tensor == one.tensor).all())


def test_states_go_on() -> None:
    """A network and an optimizer that are loaded train on as those that were saved."""
    _, net, trained = _trained("O2", MAKES["adamw"])
    kept = {name: one.numpy() for name, one in net.state_dict().items()}
    state = trained.state_dict()
    with names.guard():
        other = _net()
        resumed = MAKES["adamw"](other.parameters())
        other, resumed = amp.decorate(other, resumed, "O2", "bfloat16")
        assert other.set_state_dict(kept) == ([], [])
        resumed.set_state_dict(state)
    found = []
    for one, by in ((net, trained), (other, resumed)):
        for _ in range(3):
            with amp.auto_cast(level="O2", dtype="bfloat16"):
                loss = functional.cross_entropy(one(to_tensor(X)), to_tensor(Y))
            loss.backward()
            by.step()
            by.clear_grad()
            found.append(float(loss))
    assert found[:3] == found[3:]


def test_what_is_saved_can_be_float32() -> None:
    net = amp.decorate(_net(), level="O2", dtype="bfloat16", save_dtype="float32")
    assert {one.dtype for one in net.state_dict().values()} == {FP32}
    assert net[0].weight.dtype == BF16
    other = amp.decorate(_net(), level="O2", dtype="bfloat16")
    assert other.set_state_dict(net.state_dict()) == ([], [])


def test_excluded_layers_stay_float32() -> None:
    net = _net()
    amp.decorate(net, level="O2", dtype="bfloat16", excluded_layers=[nn.Conv2D, net[8]])
    halves = [name for name, one in net.state_dict().items() if one.dtype == BF16]
    assert halves == ["5.weight", "5.bias"]


def test_lists_decide() -> None:
    x, w = to_tensor(X[:, 0]), to_tensor(X[0, 0])

    def kinds(**settings: Any) -> list[VarType]:
        with amp.auto_cast(dtype="bfloat16", **settings):
            product = matmul(x, w)
            return [product.dtype, functional.relu(product).dtype, (x + x).dtype]

    assert kinds() == [BF16, BF16, FP32]
    assert kinds(level="OD") == [BF16, FP32, FP32]
    assert kinds(level="O0") == kinds(enable=False) == [FP32, FP32, FP32]
    assert kinds(custom_black_list={"matmul_v2"}) == [FP32, FP32, FP32]
    assert kinds(custom_white_list={"elementwise_add"}) == [BF16, BF16, BF16]
    assert kinds(level="O2", use_promote=False) == [BF16, BF16, BF16]
    with amp.auto_cast(dtype="bfloat16"), amp.auto_cast(enable=False):
        assert matmul(x, w).dtype == FP32
    assert matmul(x, w).dtype == FP32
    assert "conv2d" in amp.white_list()["float16"]["O1"]
    assert "softmax_with_cross_entropy" in amp.black_list()["bfloat16"]["O1"]


def test_steps_with_inf_are_skipped_and_the_scale_adapts() -> None:
    net = nn.Linear(12, 2)
    trained = optimizer.Adam(0.1, parameters=net.parameters())
    scaler = amp.GradScaler(
        init_loss_scaling=8.0, incr_every_n_steps=2, decr_every_n_nan_or_inf=2, decr_ratio=0.25
    )
    scales, moved = [], []
    for factor in (1.0, np.inf, np.nan, 1.0, 1.0, 1.0):
        before = net.weight.numpy()
        scaler.scale(net(to_tensor(X[0, 0])).mean() * float(factor)).backward()
        scaler.unscale_(trained)
        scaler.step(trained)
        scaler.update()
        trained.clear_grad()
        scales.append(scaler.get_init_loss_scaling())
        moved.append(bool((net.weight.numpy() != before).any()))
    assert scales == [8, 8, 2, 2, 4, 4]
    assert moved == [True, False, False, True, True, True]
    other = amp.GradScaler()
    other.load_state_dict(scaler.state_dict())
    assert other.state_dict() == scaler.state_dict()


def test_gradients_are_divided_by_the_scale() -> None:
    net = nn.Linear(3, 1)
    trained = optimizer.SGD(0.5, parameters=net.parameters())
    scaler = amp.GradScaler(init_loss_scaling=1024.0)
    scaler.scale(net(to_tensor(np.ones((1, 3), "float32"))).sum()).backward()
    assert net.weight.gradient().tolist() == [[1024.0]] * 3
    scaler.unscale_(trained)
    assert net.weight.gradient().tolist() == [[1.0]] * 3
    with pytest.raises(RuntimeError, match="already been called"):
        scaler.unscale_(trained)
    scaler.step(trained)
    with pytest.raises(RuntimeError, match=r"step\(\) has already"):
        scaler.step(trained)


def test_a_disabled_scaler_does_nothing() -> None:
    scaler = amp.GradScaler(enable=False)
    loss = to_tensor([2.0])
    assert scaler.scale(loss) is loss
    assert scaler.state_dict() == {}


def test_errors() -> None:
    with (
        pytest.raises(ValueError, match="level should be O0, OD, O1 or O2"),
        amp.auto_cast(level="5"),
    ):
        pass
    with pytest.raises(ValueError, match="'float16' or 'bfloat16'"), amp.auto_cast(dtype="int8"):
        pass
    both: dict[str, Any] = {"custom_white_list": ["relu"], "custom_black_list": ["relu"]}
    with pytest.raises(ValueError, match="overlap"), amp.auto_cast(**both):
        pass
    with pytest.raises(ValueError, match="level should be O1 or O2"):
        amp.decorate(_net(), level="O7")
    with pytest.raises(TypeError, match="models must be Layer"):
        amp.decorate(3, level="O2")
    with pytest.raises(RuntimeError, match="empty"):
        amp.GradScaler().load_state_dict({})
    with pytest.raises(AssertionError, match="incr_ratio"):
        amp.GradScaler(incr_ratio=0.5)


def test_programs_have_their_own() -> None:
    mode_before = mode.current()
    assert mode_before is not None
    from refluid.build import Blocks, using

    with (
        using(Blocks()),
        pytest.raises(ValueError, match=r"paddle\.static\.amp"),
        amp.auto_cast(dtype="bfloat16"),
    ):
        pass
