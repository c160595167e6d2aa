"""The settings of datasets, DataFeedDesc, AsyncExecutor and the data generators."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refluid import fluid
from refluid.core.errors import EnforceNotMet
from refluid.feed.text_datasets.desc import MESSAGES
from refluid.fluid.dataset import BoxPSDataset, DatasetFactory, FileInstantDataset
from refluid.fluid.incubate import data_generator
from tests.golden import GOLDEN


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    programs = fluid.program_guard(fluid.Program(), fluid.Program())
    with programs, fluid.scope_guard(fluid.Scope()), fluid.unique_name.guard():
        yield


def test_the_factory_makes_datasets_by_name() -> None:
    factory = DatasetFactory()
    assert type(factory.create_dataset()).__name__ == "QueueDataset"
    assert isinstance(factory.create_dataset("InMemoryDataset"), fluid.InMemoryDataset)
    with pytest.raises(ValueError, match="datafeed class Nothing does not exist"):
        factory.create_dataset("Nothing")
    for name, kind in (("BoxPSDataset", BoxPSDataset), ("FileInstantDataset", FileInstantDataset)):
        with pytest.raises(NotImplementedError, match=f"refluid has no {name}"):
            factory.create_dataset(name)
        with pytest.raises(NotImplementedError):
            kind()


def test_desc_is_protobuf_text() -> None:
    dataset = DatasetFactory().create_dataset()
    dataset.set_batch_size(128)
    dataset.set_thread(12)
    dataset.set_use_var(
        [fluid.data("ids", [None, 1], "int64", lod_level=1), fluid.data("x", [None, 2, 3])]
    )
    assert dataset.desc() == (
        'name: "MultiSlotDataFeed"\nbatch_size: 128\nmulti_slot_desc {\n  slots {\n'
        '    name: "ids"\n    type: "uint64"\n    is_used: true\n  }\n  slots {\n    name: "x"\n'
        '    type: "float"\n    is_dense: true\n    is_used: true\n    shape: -1\n    shape: 2\n'
        '    shape: 3\n  }\n}\npipe_command: "cat"\nthread_num: 12\n'
    )


@pytest.mark.skipif(not GOLDEN.is_dir(), reason="no recordings")
def test_the_message_is_fluids_own() -> None:
    theirs = json.loads((GOLDEN / "program_schema.json").read_text())["data_feed"]["messages"]
    for name, fields in MESSAGES.items():
        found = [
            (f["name"], f["number"], f["label"], f.get("message", f["type"]).split(".")[-1])
            for f in theirs[name]["fields"]
        ]
        assert found == [field[:4] for field in fields]
        defaults = {
            f["name"]: str(f["default"]).lower() for f in theirs[name]["fields"] if "default" in f
        }
        assert defaults == {field[0]: field[4] for field in fields if field[4]}


@pytest.mark.parametrize(
    ("shape", "dtype", "level", "reason"),
    [
        ([None, 1], "float64", 0, "float32 and int64 only; variable 'v' is float64"),
        ([None, 1], "int64", 2, "one level of sequences; variable 'v' has lod_level=2"),
        ([None, None, 3], "float32", 0, "only its first size may be unknown"),
    ],
)
def test_variables_that_cannot_be_fed(shape: Any, dtype: str, level: int, reason: str) -> None:
    variable = fluid.data("v", shape, dtype, lod_level=level)
    with pytest.raises(ValueError, match=reason):
        DatasetFactory().create_dataset().set_use_var([variable])


def test_settings_that_make_no_sense() -> None:
    dataset = DatasetFactory().create_dataset()
    for call in (
        lambda: dataset.set_batch_size(0),
        lambda: dataset.set_thread(0),
        lambda: dataset.feed(1),
    ):
        with pytest.raises(ValueError):
            call()
    with pytest.raises(TypeError, match="a list of paths"):
        dataset.set_filelist("a.txt")
    for call in (dataset.local_shuffle, dataset.global_shuffle, lambda: dataset.slots_shuffle([])):
        with pytest.raises(NotImplementedError):
            call()
    memory = DatasetFactory().create_dataset("InMemoryDataset")
    memory.set_merge_by_lineid()
    with pytest.raises(NotImplementedError, match="merging of rows by line id"):
        memory.load_into_memory()


@pytest.mark.parametrize("kind", ["QueueDataset", "InMemoryDataset"])
@pytest.mark.parametrize("run", ["train_from_dataset", "infer_from_dataset"])
def test_an_empty_list_of_files(kind: str, run: str, caplog: pytest.LogCaptureFixture) -> None:
    """As in Fluid's documentation: nothing is trained."""
    main, executor = fluid.Program(), fluid.Executor()
    with fluid.program_guard(main):
        x = fluid.data("x", [None, 1])
        fluid.layers.mean(x)
    dataset = fluid.DatasetFactory().create_dataset(kind)
    dataset.set_use_var([x])
    dataset.set_filelist([])
    if kind == "InMemoryDataset":
        dataset.load_into_memory()
        assert dataset.get_memory_data_size() == 0
    getattr(executor, run)(main, dataset)
    assert "its list of files is empty" in caplog.text


def test_training_asks_for_what_it_needs(tmp_path: Path) -> None:
    x = fluid.data("x", [None, 1], "int64")
    fluid.layers.cast(x, "float32")
    exe = fluid.Executor()
    with pytest.raises(RuntimeError, match="dataset is needed and should be initialized"):
        exe.train_from_dataset(fluid.default_main_program())
    with pytest.raises(TypeError, match="made by DatasetFactory"):
        exe.train_from_dataset(dataset=[1])  # type: ignore[arg-type]
    dataset = DatasetFactory().create_dataset()
    dataset.set_use_var([x])
    dataset.set_filelist([str(tmp_path / "missing")])
    with pytest.raises(ValueError, match="of the same length: 1 variables, but 2 texts"):
        exe.train_from_dataset(dataset=dataset, fetch_list=[x], fetch_info=["a", "b"])
    with pytest.raises(ValueError, match="print_period"):
        exe.train_from_dataset(dataset=dataset, print_period=0)
    with pytest.raises(EnforceNotMet, match="missing: cannot be read"):
        exe.train_from_dataset(dataset=dataset)
    exe.close()
    with pytest.raises(RuntimeError, match="closed Executor"):
        exe.infer_from_dataset(dataset=dataset)


DESC = """
name: "MultiSlotDataFeed"
batch_size: 2
multi_slot_desc {
    slots { name: "words" type: "uint64" is_dense: false is_used: false }
    slots { name: "skipped" type: "float" is_dense: false is_used: false }
    slots { name: "label" type: "uint64" is_dense: false is_used: false }
}
"""


def test_a_data_feed_desc_and_async_executor(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    proto = tmp_path / "data.proto"
    proto.write_text(DESC)
    desc = fluid.DataFeedDesc(str(proto))
    desc.set_batch_size(3)
    desc.set_dense_slots(["label"])
    desc.set_use_slots(["words", "label"])
    assert 'name: "label"\n    type: "uint64"\n    is_dense: true' in desc.desc()
    assert "batch_size: 3" in desc.desc()
    for method in (desc.set_dense_slots, desc.set_use_slots):
        with pytest.raises(ValueError, match="there is no slot 'nothing'"):
            method(["nothing"])
    data = tmp_path / "data"
    data.write_text("".join(f"2 {k} {k} 1 0.5 1 {k}\n" for k in range(10)))
    words = fluid.data("words", [None, 1], "int64", lod_level=1)
    label = fluid.data("label", [None, 1], "int64")
    found: list[int] = []
    fluid.layers.py_func(lambda a: found.extend(np.array(a).ravel().tolist()), label, None)
    fluid.layers.sequence_pool(fluid.layers.cast(words, "float32"), "sum")
    executor = fluid.AsyncExecutor()
    executor.run(fluid.default_main_program(), desc, [str(data)], 2, [words])
    assert found == list(range(10))
    with pytest.raises(TypeError, match="DataFeedDesc"):
        executor.run(None, "data.proto", [], 1, [])  # type: ignore[arg-type]
    with pytest.raises(NotImplementedError, match="one machine only"):
        fluid.AsyncExecutor(run_mode="MPI")


def test_files_that_are_no_data_feed_desc(tmp_path: Path) -> None:
    path = tmp_path / "data.proto"
    with pytest.raises(EnforceNotMet, match="cannot be read"):
        fluid.DataFeedDesc(str(path))
    path.write_text("nothing: 1")
    with pytest.raises(EnforceNotMet, match="is no DataFeedDesc in protobuf text"):
        fluid.DataFeedDesc(str(path))


class Numbers(data_generator.MultiSlotDataGenerator):
    def generate_sample(self, line: str | None) -> Any:
        def samples() -> Iterator[Any]:
            if line is None:
                for k in range(5):
                    yield [("words", [k, 2]), ("label", [k / 2])]
            elif line.strip():
                yield [("words", [int(one) for one in line.split()]), ("label", [1])]
            else:
                yield None

        return samples


class Texts(data_generator.MultiSlotStringDataGenerator):
    def generate_sample(self, line: str | None) -> Any:
        words = (line or "").split()
        return lambda: iter([zip(("words", "label"), (words, ["1"]), strict=True)])


def test_generators_write_multislot_text(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = Numbers()
    made.run_from_memory()
    assert capsys.readouterr().out.splitlines() == [f"2 {k} 2 1 {k / 2}" for k in range(5)]
    for kind in (Numbers, Texts):
        monkeypatch.setattr(sys, "stdin", io.StringIO("1926 8 17\n4\n"))
        kind().run_from_stdin()
        assert capsys.readouterr().out == "3 1926 8 17 1 1\n1 4 1 1\n"
    monkeypatch.setattr(sys, "stdin", io.StringIO("1\n\n2\n"))
    Numbers().run_from_stdin()
    assert capsys.readouterr().out == "1 1 1 1\n1 2 1 1\n"


def test_a_generator_gets_its_samples_in_batches(capsys: pytest.CaptureFixture[str]) -> None:
    sizes = []

    class Padded(Numbers):
        def generate_batch(self, samples: list[Any]) -> Any:
            sizes.append(len(samples))
            return super().generate_batch(samples)

    made = Padded()
    made.set_batch(2)
    made.run_from_memory()
    assert sizes == [2, 2, 1]
    assert len(capsys.readouterr().out.splitlines()) == 5


@pytest.mark.parametrize(
    ("samples", "reason"),
    [
        (["text"], "must be a list or tuple of"),
        ([[("a",)]], "must be a list or tuple of"),
        ([[(1, [1])]], "name of a slot must be text"),
        ([[("a", 1)]], "values of slot 'a' must be a list or tuple"),
        ([[("a", [])]], "values of slot 'a' can not be empty"),
        ([[("a", ["1"])]], "slot 'a' must hold int or float, not str"),
        ([[("a", [1])], [("a", [1]), ("b", [1])]], "2 slots after samples of 1"),
        ([[("a", [1])], [("b", [1])]], "slot 0 is 'b' after 'a'"),
    ],
)
def test_samples_that_are_no_multislot(samples: list[Any], reason: str) -> None:
    made = data_generator.MultiSlotDataGenerator()
    with pytest.raises(ValueError, match=reason):
        for sample in samples:
            made._gen_str(sample)


def test_a_bare_generator_says_what_to_override() -> None:
    with pytest.raises(NotImplementedError, match="Please rewrite this function"):
        data_generator.MultiSlotDataGenerator().run_from_memory()
    with pytest.raises(NotImplementedError, match="pls use MultiSlotDataGenerator"):
        data_generator.DataGenerator()._gen_str([])
