"""Which files only Python 2 runs."""

from __future__ import annotations

import ast

import pytest

from refluid.porting.dialect import needs_lists, python2_names
from refluid.porting.loading import compile_old
from refluid.porting.rewriting import bound_names

_CHOOSES = """
import six

def text(x):
    if six.PY3:
        return str(x)
    return unicode(x)

def whole():
    return xrange if six.PY2 else range

if six.PY2:
    reload(six)
"""


def _names(source: str) -> list[str]:
    tree = ast.parse(source)
    return python2_names(tree, source, set(bound_names(tree)))


@pytest.mark.parametrize(
    ("source", "names"),
    [
        (_CHOOSES, []),
        (f"{_CHOOSES}\ndef read():\n    return xrange(3)\n", ["xrange"]),
        (f"{_CHOOSES}\ndef read(d):\n    return d.iteritems()\n", []),
        (f"{_CHOOSES}\nfrom old import *\nxrange(3)\n", []),
        ("import six\nimport cPickle\n", ["cPickle"]),
        ("import six\ndef profile():\n    import StringIO\n", []),
        ("import six\nread = lambda x: isinstance(x, str) or isinstance(x, unicode)\n", []),
        ("from six.moves import xrange\nxrange(3)\n", []),
        ("from six.moves import range\nxrange(3)\n", ["xrange"]),
        ("def read(d):\n    return d.iteritems()\n", [".iteritems"]),
        ("x.encode('utf-8') + '\\n'\n", ["encode() + text"]),
        ("'<' + x.encode('gbk')\n", ["encode() + text"]),
        ("def to(x, code='utf-8'):\n    return x.encode(code) + '!'\n", ["encode() + text"]),
        ("def to(x, code='some'):\n    return x.encode(code) + '!'\n", []),
        ("x.encode('utf-8') + b'\\n' + y.encode('utf-8')\n", []),
        ("'a' + tokens.encode(x, 'utf-8') + tokens.encode('a b') + words.encode()\n", []),
        ("import six\nif six.PY2:\n    x.encode('utf-8') + '\\n'\n", []),
    ],
)
def test_a_file_that_asks_which_python_is_of_python_2_where_nothing_asks(
    source: str, names: list[str]
) -> None:
    assert _names(source) == names


def test_a_file_that_knows_both_reads_as_python_2_and_divides_as_python_3() -> None:
    source = (
        "import six\n"
        "def read(name):\n"
        "    with open(name, 'rb') as file:\n"
        "        line = file.readline().strip()\n"
        "    return [line.split('\\t')[n] for n in xrange(1)], 7 / 2\n"
        f"found = read({__file__!r})\n"
    )
    code = compile_old(source.encode(), "both.py")
    made: dict[str, object] = {}
    assert code is not None
    exec(code, made)
    assert made["found"] == (['"""Which files only Python 2 runs."""'], 3.5)


@pytest.mark.parametrize(
    ("source", "needed"),
    [
        ("a = map(abs, b)\nc = sum(a[n] for n in b)\n", True),
        ("def f(b):\n    a = zip(b, b)\n    return len(a)\n", True),
        ("c = filter(None, b)[0]\n", True),
        ("c = d.keys()[0]\n", True),
        ("a = map(abs, b)\na = list(a)\nc = a[0]\n", False),
        ("def f(b, a):\n    a = map(abs, b)\n    return a[0]\n", False),
        ("def map(*given):\n    return [given]\nc = map(abs, b)[0]\n", False),
        ("a = map(abs, b)\ndef f(a):\n    return a[0]\n", False),
    ],
)
def test_lists_are_needed_where_a_place_of_one_is_asked_for(source: str, needed: bool) -> None:
    tree = ast.parse(source)
    assert needs_lists(tree, set(bound_names(tree))) == needed


def test_what_is_used_as_a_list_is_one() -> None:
    source = b"made = map(abs, [-1, 2])\nfound = max(made), made[0], list({3: 4}.keys())[0]\n"
    code, made = compile_old(source, "lists.py"), dict[str, object]()
    assert code is not None
    exec(code, made)
    assert made["found"] == (2, 1, 3)
