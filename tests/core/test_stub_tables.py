"""Names that are not there yet: they resolve, and using one says what is missing and why."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import subprocess
import sys

import pytest

import refluid.fluid as fluid
from refluid.core.lazy_package import LazyPackage
from refluid.core.stub_modules import StubModule
from refluid.core.stub_tables import StubEntry, entries, sections


def test_a_function_resolves_and_says_what_is_missing() -> None:
    from refluid.fluid.dygraph.profiler import start_gperf_profiler

    assert str(inspect.signature(start_gperf_profiler)) == "()"
    with pytest.raises(NotImplementedError, match=r"profiler\.start_gperf_profiler yet: "):
        start_gperf_profiler()
    assert fluid.dygraph.profiler.start_gperf_profiler is start_gperf_profiler


def test_a_class_can_be_inherited_from_and_raises_when_it_is_made() -> None:
    base = importlib.import_module("refluid.fluid.dygraph.dygraph_to_static.partial_program")

    class Runner(base.PartialProgramLayer):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__(None, [], [])

    with pytest.raises(NotImplementedError, match=r"partial_program\.PartialProgramLayer yet"):
        Runner()
    assert issubclass(base.PartialProgramLayer, fluid.dygraph.Layer)


def test_an_object_of_a_table_is_there() -> None:
    from refluid.fluid.incubate.fleet.utils.fleet_barrier_util import fleet

    from refluid.fluid.incubate.fleet.parameter_server.distribute_transpiler import (
        DistributedTranspiler,
    )

    assert isinstance(fleet, DistributedTranspiler)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such"):
        _ = fluid.dygraph.no_such
    with pytest.raises(AttributeError, match="no_such"):
        _ = fluid.framework.no_such
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("refluid.fluid.dygraph.no_such")
    with pytest.raises(AttributeError, match=r"fluid\.layers\.no_such yet"):
        _ = fluid.layers.no_such


def test_star_imports_take_the_public_names() -> None:
    names: dict[str, object] = {}
    exec("from refluid.fluid.dygraph.nn import *", names)
    assert "Conv2D" in names
    assert "Conv2D" in dir(fluid.dygraph.nn)


def test_names_of_other_modules_are_those() -> None:
    from refluid.fluid.layers.nn import concat

    assert concat is fluid.layers.concat


@pytest.mark.parametrize("module", sorted(sections()))
def test_tables_have_what_refluid_lacks_and_no_more(module: str) -> None:
    found = importlib.import_module(f"refluid.{module}")
    table = entries(module)
    if importlib.util.find_spec(f"refluid.{module}").origin is not None:  # type: ignore[union-attr]
        names = vars(found)
        if isinstance(found, LazyPackage):  # which keeps what it was asked for
            names = vars(importlib.import_module(f"refluid.{module}.public"))
        own = (table.keys() & names.keys()) - names.get("_of_tables", set())
        assert own == set(), "delete these from src/refluid/stubs: refluid has them now"
    for name, entry in table.items():
        assert isinstance(entry, StubEntry)
        getattr(found, name)


def test_the_tables_are_not_read_before_a_name_is_missed() -> None:
    code = (
        "import sys, refluid.fluid as f, refluid.fluid.incubate.data_generator\n"
        "assert 'refluid.core.stub_tables' not in sys.modules and 'torch' not in sys.modules\n"
        "f.layers.fc; f.Executor\n"
        "from refluid.core.stub_tables import sections\n"
        "assert not sections.cache_info().currsize"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_packages_and_modules_are_of_one_kind() -> None:
    assert isinstance(fluid.dygraph, StubModule)
    assert isinstance(fluid.framework, StubModule)
