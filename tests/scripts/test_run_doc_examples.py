"""Examples of documentation pages: found, put straight, run, and told apart."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.run_doc_examples import Example, examples, run, tidy

PAGE = """
fc
--

.. py:function:: paddle.fluid.layers.fc(input, size)

..  code-block:: python

         import paddle.fluid as fluid
         # deeper than what follows

        x = fluid.data("x", [None, 3], "float32")
        print(fluid.layers.fc(x, 2).shape)

..  code-block:: python

    x = [[1, 2],   ->  [[1, 3],

.. code-block:: text

    no = program

.. py:class:: paddle.fluid.Thing()

.. py:method:: go(x)

.. code-block:: python
    :linenos:

    with fluid.dygraph.guard():
        pass
"""


@pytest.fixture
def found(tmp_path: Path) -> list[Example]:
    (tmp_path / "fc_cn.rst").write_text(PAGE)
    return list(examples(tmp_path))


def test_programs_are_found_by_what_they_show(found: list[Example]) -> None:
    assert [one.id for one in found] == ["paddle.fluid.layers.fc-0", "paddle.fluid.Thing.go-0"]
    assert [one.is_static for one in found] == [True, False]
    assert found[0].line == 8
    assert found[0].code.startswith("import paddle.fluid as fluid\n")
    compile(found[0].code, "example", "exec")


def test_code_keeps_its_own_indent() -> None:
    assert tidy(["    if x:", "        y = 1", "    else:", "        y = 2"]) == (
        "if x:\n    y = 1\nelse:\n    y = 2\n"
    )


@pytest.mark.parametrize(
    ("code", "status", "said"),
    [
        ("print(1)", "ok", ""),
        ("raise ValueError('wrong\\nmore')", "error", "ValueError: wrong"),
        ("import sys; sys.exit(3)", "error", "exit 3"),
        ("import os; os._exit(1)", "error", "the process died"),
        ("import time; time.sleep(600)", "timeout", "not over after 1 s"),
    ],
)
def test_what_becomes_of_a_program(code: str, status: str, said: str) -> None:
    outcome = run(Example("x-0", "x", 1, code), patience=1 if status == "timeout" else 100)
    assert (outcome.status, outcome.said.splitlines()[:1]) == (status, [said] if said else [])


def test_repaired_examples_have_what_they_forgot_to_import() -> None:
    code = "print(np.pi, math.pi, fluid.CUDAPlace(0).device.type)\nassert paddle.fluid is fluid"
    assert run(Example("x-0", "x", 1, code), 100).said.startswith("NameError")
    found = run(Example("x-0", "x", 1, code), 100, repaired=True)
    assert (found.status, found.said) == ("ok", "")
