"""`DistributedStrategy` of Paddle 2: its fields, its files, and what it prints."""

from __future__ import annotations

from pathlib import Path

import pytest

from refluid.fluid import BuildStrategy
from refluid.paddle.distributed.fleet import DistributedStrategy
from refluid.paddle.distributed.fleet.base.configs import CONFIGS, switch_of
from refluid.paddle.distributed.fleet.base.fields import BUILD, EXECUTION, FLAGS, SWITCHES

# As the guide of LARS shows it.
LARS = """
    +==============================================================================+
    |                          lars=True <-> lars_configs                          |
    +------------------------------------------------------------------------------+
    |                            lars_coeff          0.0010000000474974513         |
    |                     lars_weight_decay          0.0005000000237487257         |
    |                               epsilon                   0.0                  |
    |             exclude_from_weight_decay                batch_norm              |
    |                                                         .b_0                 |
    +==============================================================================+
"""


# As Paddle 2.6.2 writes it, once build_strategy and execution_strategy were set.
OF_PADDLE = """sharding: true
sharding_configs {
  segment_broadcast_MB: 3.5
  sharding_degree: 4
  stage: 2
}
build_strategy {
  enable_sequential_execution: false
  fuse_elewise_add_act_ops: true
  fuse_bn_act_ops: false
  fuse_relu_depthwise_conv: false
  fuse_broadcast_ops: false
  fuse_all_optimizer_ops: false
  enable_inplace: false
  enable_backward_optimizer_op_deps: true
  cache_runtime_context: false
  fuse_bn_add_act_ops: true
  enable_auto_fusion: false
  enable_addto: true
  fix_op_run_order: false
  allow_cuda_graph_capture: false
  reduce_strategy: 1
  fuse_gemm_epilogue: false
  debug_graphviz_path: ""
  fused_attention: false
  fused_feedforward: false
}
execution_strategy {
  num_threads: 3
  num_iteration_per_drop_scope: 7
  num_iteration_per_run: 1
  use_thread_barrier: false
}
"""


def test_defaults() -> None:
    strategy = DistributedStrategy()
    for name, field in {**SWITCHES, **FLAGS}.items():
        assert getattr(strategy, name) == field.default, name
    for name, fields in CONFIGS.items():
        assert list(getattr(strategy, name)) == list(fields), name
        assert switch_of(name) in {*SWITCHES, *FLAGS, "gradient_scale", "hybrid"}
    assert strategy.amp_configs["init_loss_scaling"] == 32768.0
    for name, fields in (("build_strategy", BUILD), ("execution_strategy", EXECUTION)):
        options = getattr(strategy, name)._options()
        assert {one: options[one] for one in fields} == {k: v.default for k, v in fields.items()}


def test_every_field_says_what_it_does() -> None:
    for fields in (SWITCHES, FLAGS, *CONFIGS.values()):
        for field in fields.values():
            assert bool(field.does) + bool(field.idle) + bool(field.refused) == 1, field.name


def test_what_is_set_is_kept() -> None:
    strategy, other = DistributedStrategy(), DistributedStrategy()
    strategy.lars_configs = {"lars_coeff": 0.25}
    strategy.lars_configs = {"epsilon": 1}
    assert strategy.lars_configs["lars_coeff"] == 0.25 and strategy.lars_configs["epsilon"] == 1.0
    strategy.build_strategy.fuse_bn_act_ops = True
    assert strategy.build_strategy.fuse_bn_act_ops and not other.build_strategy.fuse_bn_act_ops
    build = BuildStrategy()
    build.fuse_elewise_add_act_ops = True
    strategy.build_strategy = build
    build.fuse_gemm_epilogue = True
    kept = strategy.build_strategy
    assert kept.fuse_elewise_add_act_ops and not kept.fuse_gemm_epilogue
    assert other.lars_configs["lars_coeff"] == pytest.approx(0.001)


def test_what_is_wrong_is_refused() -> None:
    strategy = DistributedStrategy()
    with pytest.raises(TypeError, match="not a attribute"):
        strategy.apm = True
    with pytest.raises(AttributeError, match="apm"):
        strategy.apm  # noqa: B018
    for name, value in (
        ("amp", 1),
        ("nccl_comm_num", True),
        ("nccl_comm_num", "2"),
        ("amp_configs", [1]),
        ("lars_configs", {"exclude_from_weight_decay": "bias"}),
        ("dgc_configs", {"sparsity": ["0.9"]}),
        ("build_strategy", {}),
    ):
        with pytest.raises(TypeError, match=name):
            setattr(strategy, name, value)
    with pytest.raises(ValueError, match="key:scale not in amp_configs"):
        strategy.amp_configs = {"scale": 2}


def test_files(tmp_path: Path) -> None:
    strategy, path = DistributedStrategy(), str(tmp_path / "strategy.prototxt")
    strategy.dgc = True
    strategy.dgc_configs = {"rampup_begin_step": 5, "sparsity": [0.5, 0.75]}
    strategy._fuse_grad_size_in_TFLOPS = 20
    strategy.recompute_configs = {"checkpoints": ["a", "b"]}
    strategy.build_strategy.fuse_bn_act_ops = True
    strategy.save_to_prototxt(path)
    text = Path(path).read_text()
    assert "dgc: true" in text and "fuse_grad_size_in_TFLOPS: 20" in text
    assert "nccl_comm_num" not in text
    other = DistributedStrategy()
    other.lamb = True
    other.load_from_prototxt(path)
    assert str(other) == str(strategy) and other.dgc and not other.lamb
    assert other.dgc_configs["sparsity"] == [0.5, 0.75]
    assert other.recompute_configs["checkpoints"] == ["a", "b"]
    assert other.build_strategy.fuse_bn_act_ops
    Path(path).write_text("mode: COLLECTIVE\namp: true\namp_configs { incr_ratio: 3 }\n")
    other.load_from_prototxt(path)
    assert other.amp and other.amp_configs["incr_ratio"] == 3.0 and not other.dgc
    Path(path).write_text(OF_PADDLE)
    other.load_from_prototxt(path)
    assert other.sharding_configs["stage"] == 2 and other.build_strategy.reduce_strategy == 1
    assert other.build_strategy.enable_addto and other.execution_strategy.num_threads == 3
    Path(path).write_text("amp: true\nampp: true\n")
    with pytest.raises(ValueError, match=r"2:1(.|\n)*ampp"):
        other.load_from_prototxt(path)
    strategy.build_strategy.num_trainers = 2
    with pytest.raises(ValueError, match="num_trainers"):
        strategy.save_to_prototxt(path)


def test_it_prints_as_in_the_guides() -> None:
    strategy = DistributedStrategy()
    strategy.lars = True
    strategy.lars_configs = {"exclude_from_weight_decay": ["batch_norm", ".b_0"]}
    shown = str(strategy)
    assert LARS in shown and "DistributedStrategy Overview" in shown
    assert "amp=True" not in shown and "nccl_comm_num" in shown
