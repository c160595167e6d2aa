"""`FleetUtil`: what scripts of online learning do in each pass over the data."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from refluid.core.places import CPUPlace
from refluid.core.scope import Scope, global_scope, scope_guard
from refluid.fluid.incubate.fleet.parameter_server.distribute_transpiler import (
    fleet as fleet_transpiler,
)
from refluid.fluid.incubate.fleet.parameter_server.pslib import fleet as fleet_pslib
from refluid.fluid.incubate.fleet.utils import hdfs
from refluid.fluid.incubate.fleet.utils.donefiles import (
    HOME,
    NOTHING,
    append_line,
    client_of,
    last_line,
)
from refluid.fluid.incubate.fleet.utils.hdfs import HDFSClient
from refluid.fluid.incubate.fleet.utils.intervals import pass_intervals
from refluid.fluid.incubate.fleet.utils.metrics import METRICS, area, global_metrics
from refluid.fluid.incubate.fleet.utils.online_models import OnlineModels
from refluid.fluid.incubate.fleet.utils.program_checks import ProgramChecks

__all__ = ["FleetUtil", "HDFSClient", "fleet", "fleet_pslib", "fleet_transpiler", "hdfs"]

fleet = fleet_pslib
_FLEETS = {"pslib": fleet_pslib, "transpiler": fleet_transpiler}


class FleetUtil(ProgramChecks, OnlineModels):
    """Logs, metrics over all workers, and models by day and pass.

    mode: pslib or transpiler, whose fleet is asked. ValueError for another. Models are
    OUTPUT/DAY/PASS, as `fleet.save_model` writes them; OUTPUT/donefile.txt has a line for each.
    """

    def __init__(self, mode: str = "pslib") -> None:
        if mode not in _FLEETS:
            raise ValueError(f"mode must be pslib or transpiler, not {mode!r}")
        self._fleet: Any = _FLEETS[mode]

    # -- logs -----------------------------------------------------------------

    def rank0_print(self, s: Any) -> None:
        """Prints on the first worker."""
        if self._fleet.worker_index() == 0:
            print(s, flush=True)

    rank0_info = rank0_print
    rank0_error = rank0_print

    # -- metrics --------------------------------------------------------------

    def set_zero(
        self,
        var_name: str,
        scope: Scope | None = None,
        place: Any = None,
        param_type: str = "int64",
    ) -> None:
        """Sets a variable of a scope to zeros, as at the beginning of a pass."""
        cell = (scope or global_scope()).var(var_name)
        old = cell.get_tensor()
        old.set(np.zeros(old._get_dims(), param_type), place or CPUPlace())

    def get_global_auc(
        self,
        scope: Scope | None = None,
        stat_pos: str = "_generated_var_2",
        stat_neg: str = "_generated_var_3",
    ) -> float | None:
        """The area under the ROC curve over all workers' buckets; None without the variables."""
        found = self._sums(scope, [stat_pos, stat_neg])
        return None if found is None else area(*found)

    def print_global_auc(
        self,
        scope: Scope | None = None,
        stat_pos: str = "_generated_var_2",
        stat_neg: str = "_generated_var_3",
        print_prefix: str = "",
    ) -> None:
        """Prints it on the first worker."""
        self.rank0_print(
            f"{print_prefix} global auc = {self.get_global_auc(scope, stat_pos, stat_neg)}"
        )

    def get_global_metrics(
        self,
        scope: Scope | None = None,
        stat_pos_name: str = "_generated_var_2",
        stat_neg_name: str = "_generated_var_3",
        sqrerr_name: str = "sqrerr",
        abserr_name: str = "abserr",
        prob_name: str = "prob",
        q_name: str = "q",
        pos_ins_num_name: str = "pos",
        total_ins_num_name: str = "total",
    ) -> list[Any]:
        """Over all workers: AUC, bucket error, MAE, RMSE, actual and predicted CTR, COPC, mean q,
        samples. Nine None without the variables, as `ctr_metric_bundle` and `auc` make them.
        """
        names = [stat_pos_name, stat_neg_name, sqrerr_name, abserr_name, prob_name, q_name]
        found = self._sums(scope, [*names, pos_ins_num_name, total_ins_num_name])
        return [None] * len(METRICS) if found is None else global_metrics(*found)

    def print_global_metrics(
        self,
        scope: Scope | None = None,
        stat_pos_name: str = "_generated_var_2",
        stat_neg_name: str = "_generated_var_3",
        sqrerr_name: str = "sqrerr",
        abserr_name: str = "abserr",
        prob_name: str = "prob",
        q_name: str = "q",
        pos_ins_num_name: str = "pos",
        total_ins_num_name: str = "total",
        print_prefix: str = "",
    ) -> None:
        """Prints them on the first worker."""
        found = self.get_global_metrics(
            scope,
            stat_pos_name,
            stat_neg_name,
            sqrerr_name,
            abserr_name,
            prob_name,
            q_name,
            pos_ins_num_name,
            total_ins_num_name,
        )
        told = " ".join(f"{name}={value}" for name, value in zip(METRICS, found, strict=True))
        self.rank0_print(f"{print_prefix} global {told}")

    def _sums(self, scope: Scope | None, names: Sequence[str]) -> list[Any] | None:
        """Variables added up over all workers."""
        cells = [(scope or global_scope()).find_var(name) for name in names]
        if any(cell is None or cell.value is None for cell in cells):
            self.rank0_print(f"not all of {', '.join(names)} have values")
            return None
        found = []
        for cell in cells:
            own = np.array(cell.get_tensor()).astype("float64")  # type: ignore[union-attr]
            total = np.zeros_like(own)
            self._fleet.all_reduce_worker(own, total)
            found.append(total)
        return found

    # -- models ---------------------------------------------------------------

    def save_fleet_model(self, path: str, mode: int = 0) -> None:
        """`fleet.save_model`."""
        self._fleet.save_model(path, mode=mode)

    def load_fleet_model(self, path: str, mode: int = 0) -> None:
        """`fleet.load_model`."""
        self._fleet.load_model(path, mode=mode)

    def load_fleet_model_one_table(self, table_id: int, path: str) -> None:
        """`fleet.load_one_table`."""
        self._fleet.load_one_table(table_id, path)

    def save_model(self, output_path: str, day: Any, pass_id: Any) -> None:
        """Saves to OUTPUT/DAY/PASS."""
        self.save_fleet_model(_model(output_path, day, pass_id))

    def load_model(self, output_path: str, day: Any, pass_id: Any) -> None:
        """Loads from OUTPUT/DAY/PASS."""
        self.load_fleet_model(_model(output_path, day, pass_id))

    def save_batch_model(self, output_path: str, day: Any) -> None:
        """Saves to OUTPUT/DAY/0, a day's last."""
        self.save_fleet_model(_model(output_path, day, 0), mode=3)

    def save_delta_model(self, output_path: str, day: Any, pass_id: Any) -> None:
        """Saves parameters to OUTPUT/DAY/delta-PASS; all rows are in there."""
        self.save_fleet_model(_model(output_path, day, f"delta-{pass_id}"), mode=1)

    def save_xbox_base_model(self, output_path: str, day: Any) -> None:
        """Saves parameters to OUTPUT/DAY/base."""
        self.save_fleet_model(_model(output_path, day, "base"), mode=2)

    def write_model_donefile(
        self,
        output_path: str,
        day: Any,
        pass_id: Any,
        xbox_base_key: Any,
        hadoop_fs_name: str,
        hadoop_fs_ugi: str,
        hadoop_home: str = HOME,
        donefile_name: str = "donefile.txt",
    ) -> None:
        """Adds a line for a model: day, key, path, pass, 0. Nothing where it has one."""
        last = str(pass_id) == "-1"
        path = _model(output_path, day, 0 if last else pass_id)
        fields = [day, xbox_base_key, path, 0 if last else pass_id, 0]
        if self._fleet.worker_index() == 0:
            client = client_of(output_path, hadoop_fs_name, hadoop_fs_ugi, hadoop_home)
            where = f"{output_path.rstrip('/')}/{donefile_name}"
            line, key = "\t".join(map(str, fields)), (str(day), str(fields[3]))
            if not append_line(client, where, line, lambda one: _key(one) == key):
                self.rank0_print(f"{where} has a line for day {day}, pass {pass_id} already")
        self._fleet.barrier_worker()

    def get_last_save_model(
        self,
        output_path: str,
        hadoop_fs_name: str,
        hadoop_fs_ugi: str,
        hadoop_home: str = HOME,
    ) -> list[Any]:
        """Day, pass, path and key of the last line of the donefile; -1, -1, "" and now without."""
        client = client_of(output_path, hadoop_fs_name, hadoop_fs_ugi, hadoop_home)
        line = last_line(client, f"{output_path.rstrip('/')}/donefile.txt")
        if not line:
            return [*NOTHING, int(time.time())]
        found = line.split("\t")
        return [int(found[0]), int(found[3]), found[2], int(found[1])]

    def pull_all_dense_params(self, scope: Scope, program: Any) -> None:
        """Gives the program's parameters in a scope the values that the servers have."""
        client = self._fleet._connection().link.client
        for name, value in client.pull().items():
            if program.global_block().has_var(name):
                scope.var(name).value = value.clone()
        self._fleet.barrier_worker()

    def save_paddle_inference_model(
        self,
        executor: Any,
        scope: Scope,
        program: Any,
        feeded_vars: Sequence[Any],
        target_vars: Sequence[Any],
        output_path: str,
        day: Any,
        pass_id: Any,
        hadoop_fs_name: str,
        hadoop_fs_ugi: str,
        hadoop_home: str = HOME,
        save_combine: bool = True,
    ) -> None:
        """Saves a model that predicts in one process to OUTPUT/DAY/PASS/dnn_plugin."""
        names = [str(getattr(one, "name", one)) for one in feeded_vars]
        folder = f"{_model(output_path, day, pass_id)}/dnn_plugin"
        with scope_guard(scope):
            self._fleet.save_inference_model(executor, folder, names, target_vars)

    def get_online_pass_interval(
        self,
        days: str,
        hours: str,
        split_interval: int,
        split_per_pass: int,
        is_data_hourly_placed: bool,
    ) -> list[list[str]]:
        """The splits of each pass of a day, by their names; see `pass_intervals`."""
        return pass_intervals(
            hours, int(split_interval), int(split_per_pass), hourly=is_data_hourly_placed
        )


def _model(output_path: str, day: Any, part: Any) -> str:
    return f"{output_path.rstrip('/')}/{day}/{part}"


def _key(line: str) -> tuple[str, ...]:
    """Day and pass of a donefile's line, which are its first and fourth field."""
    fields = line.split("\t")
    return (fields[0], fields[3]) if len(fields) > 3 else ()
