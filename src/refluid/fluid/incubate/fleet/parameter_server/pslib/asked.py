"""What scripts ask of pslib by a strategy, and what becomes of it on refluid's servers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_BY_PROGRAM = "the program says what servers hold, and its optimizer updates all of it"
_OWN_WAY = "refluid's workers and servers have their own"
_GPU = "refluid's servers keep tables in memory or on disk"
# By the name of an option: why it changes nothing.
_IDLE = {
    "fleet_desc_file": _BY_PROGRAM,
    "opt_class": _BY_PROGRAM,
    "optimizer": _BY_PROGRAM,
    "dense_table": _BY_PROGRAM,
    "datanorm_table": _BY_PROGRAM,
    "device_worker": _OWN_WAY,
    "trainer": _OWN_WAY,
    "worker_class": _OWN_WAY,
    "worker_places": _GPU,
    "worker_skipped_ops": _BY_PROGRAM,
    "no_cvm": "embeddings have no columns of shows and clicks",
    "scale_datanorm": "statistics of data_norm are updated by its gradients",
    "scale_sparse_gradient_with_batch_size": "gradients of rows are what the loss makes them",
    "fs_uri": "files are read where they are",
    "fs_user": "files are read where they are",
    "fs_passwd": "files are read where they are",
    "fs_hadoop_bin": "files are read where they are",
    "dump_fields": "nothing is dumped: fetch the variables",
    "dump_param": "nothing is dumped: fetch the variables",
    "dump_fields_path": "nothing is dumped: fetch the variables",
    "stat_var_names": "metrics are variables of the program",
    "check_nan_var_names": "FLAGS_check_nan_inf finds them",
    "loss_names": "a program has one loss",
    "user_define_dump_filename": "nothing is dumped: fetch the variables",
}
# Those that can't be trained by.
_REFUSED = {
    "use_ps_gpu": _GPU,
    "use_cvm": (
        "rows have no columns that count shows and clicks: build the network without them, "
        'and give {"use_cvm": False}'
    ),
    "adjust_ins_weight": "samples weigh as the program says",
    "copy_table": "tables are not copied into each other: give both lookups one parameter",
}


def complaints(strategy: Mapping[str, Any], tables: Mapping[str, Any] = {}) -> Iterator[str]:
    """What to say of options without effect. tables: the program's, by name.

    NotImplementedError for one that can't be trained by; ValueError for an unknown one.
    """
    for name, value in strategy.items():
        if name in tables or isinstance(value, Mapping):
            yield f"strategy[{name!r}] has no effect here: {_BY_PROGRAM}"
        elif name in _REFUSED:
            if value:
                raise NotImplementedError(f"strategy[{name!r}] = {value!r}: {_REFUSED[name]}")
        elif name not in _IDLE:
            known = ", ".join(sorted((*_IDLE, *_REFUSED)))
            raise ValueError(f"strategy[{name!r}]: pslib has no such option; there are {known}")
        elif value:
            yield f"strategy[{name!r}] = {value!r} has no effect here: {_IDLE[name]}"
