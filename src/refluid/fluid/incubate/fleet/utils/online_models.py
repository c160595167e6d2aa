"""`FleetUtil`'s part about models that serve while training goes on: of each pass, of each day."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from refluid.core.errors import EnforceNotMet
from refluid.core.scope import Scope, scope_guard
from refluid.fluid.incubate.fleet.utils.donefiles import HOME, append_line, client_of, last_line
from refluid.fluid.saving.persistence import save_vars

_PATCH, _BASE = "xbox_patch_done.txt", "xbox_base_done.txt"


def is_base(pass_id: Any) -> bool:
    """Whether a pass is a day's model as a whole."""
    return str(pass_id) == "-1"


def online_folder(output_path: str, day: Any, pass_id: Any) -> str:
    """Where the model of a pass is that serves: OUTPUT/DAY/delta-PASS, or base of pass -1."""
    return f"{output_path.rstrip('/')}/{day}/{'base' if is_base(pass_id) else f'delta-{pass_id}'}"


class OnlineModels:
    """Lines about such models in xbox_patch_done.txt and xbox_base_done.txt, and their files.

    A line is JSON: id and key, input (the model's folder), ins_path (what it was trained on),
    monitor_data.
    """

    _fleet: Any

    def write_xbox_donefile(
        self,
        output_path: str,
        day: Any,
        pass_id: Any,
        xbox_base_key: Any,
        data_path: str | Sequence[str],
        hadoop_fs_name: str,
        hadoop_fs_ugi: str,
        monitor_data: Mapping[str, Any] = {},
        hadoop_home: str = HOME,
        donefile_name: str | None = None,
    ) -> None:
        """Adds a line for the model of a pass, of a day's base where that is -1.

        Nothing where its folder has a line.
        """
        if self._fleet.worker_index() == 0:
            folder = online_folder(output_path, day, pass_id)
            name = donefile_name or (_BASE if is_base(pass_id) else _PATCH)
            data = [data_path] if isinstance(data_path, str) else data_path
            told = {
                "id": str(int(time.time())),
                "key": str(xbox_base_key),
                "input": folder,
                "ins_path": ",".join(data),
                "monitor_data": json.dumps(dict(monitor_data)),
            }
            client = client_of(output_path, hadoop_fs_name, hadoop_fs_ugi, hadoop_home)
            where = f"{output_path.rstrip('/')}/{name}"
            append_line(client, where, json.dumps(told), lambda line: _input(line) == folder)
        self._fleet.barrier_worker()

    def get_last_save_xbox(
        self, output_path: str, hadoop_fs_name: str, hadoop_fs_ugi: str, hadoop_home: str = HOME
    ) -> list[Any]:
        """Day, pass, folder and key of the last pass with a line; -1, -1, "" and now without."""
        client = client_of(output_path, hadoop_fs_name, hadoop_fs_ugi, hadoop_home)
        folder, key = _last(last_line(client, f"{output_path.rstrip('/')}/{_PATCH}"))
        if not folder:
            return [-1, -1, "", key]
        day, name = folder.split("/")[-2:]
        return [int(day), int(name.removeprefix("delta-")), folder, key]

    def get_last_save_xbox_base(
        self, output_path: str, hadoop_fs_name: str, hadoop_fs_ugi: str, hadoop_home: str = HOME
    ) -> list[Any]:
        """Day, folder and key of the last day's base with a line; -1, "" and now without."""
        client = client_of(output_path, hadoop_fs_name, hadoop_fs_ugi, hadoop_home)
        folder, key = _last(last_line(client, f"{output_path.rstrip('/')}/{_BASE}"))
        return [int(folder.split("/")[-2]) if folder else -1, folder, key]

    def save_paddle_params(
        self,
        executor: Any,
        scope: Scope,
        program: Any,
        model_name: str,
        output_path: str,
        day: Any,
        pass_id: Any,
        hadoop_fs_name: str,
        hadoop_fs_ugi: str,
        hadoop_home: str = HOME,
        var_names: Sequence[str] | None = None,
        save_combine: bool = True,
    ) -> None:
        """Saves these variables of a scope below the pass's folder, in dnn_plugin.

        var_names: all persistable ones unless given. save_combine: in one file, MODEL_NAME, else
        in a folder of that name, a file each. EnforceNotMet for those that aren't there.
        """
        if self._fleet.worker_index() == 0:
            block = program.global_block()
            if var_names is None:
                chosen = [one for one in block.vars.values() if one.persistable]
            else:
                chosen = [block.var(name) for name in var_names]
            client = client_of(output_path, hadoop_fs_name, hadoop_fs_ugi, hadoop_home)
            target = f"{online_folder(output_path, day, pass_id)}/dnn_plugin"
            with tempfile.TemporaryDirectory() as name, scope_guard(scope):
                single = model_name if save_combine else None
                save_vars(executor, name, program, vars=chosen, filename=single)
                if single is None:
                    target += f"/{model_name}"
                client.upload(target, str(Path(name)), overwrite=True)
        self._fleet.barrier_worker()

    def save_cache_model(
        self, output_path: str, day: Any, pass_id: Any, mode: int = 1, **kwargs: Any
    ) -> NoReturn:
        """EnforceNotMet: servers keep no cache of frequent rows to be saved by itself."""
        _without_cache()

    def save_cache_base_model(self, output_path: str, day: Any, **kwargs: Any) -> NoReturn:
        """EnforceNotMet, as `save_cache_model`."""
        _without_cache()

    def write_cache_donefile(
        self,
        output_path: str,
        day: Any,
        pass_id: Any,
        key_num: Any,
        hadoop_fs_name: str,
        hadoop_fs_ugi: str,
        hadoop_home: str = HOME,
        donefile_name: str = "sparse_cache.meta",
        **kwargs: Any,
    ) -> NoReturn:
        """EnforceNotMet, as `save_cache_model`."""
        _without_cache()


def _without_cache() -> NoReturn:
    raise EnforceNotMet(
        "servers of tables keep no cache of frequent rows beside a table, and there is none to "
        "save: save_delta_model and save_xbox_base_model save all rows"
    )


def _input(line: str) -> Any:
    return json.loads(line).get("input")


def _last(line: str) -> tuple[str, int]:
    """A line's folder and key; without a line none, and now."""
    if not line:
        return "", int(time.time())
    told = json.loads(line)
    return str(told["input"]).rstrip("/"), int(told["key"])
