"""Scripts of Python 2 and of old NumPy under `refluid run`."""

from __future__ import annotations

import pickle
import subprocess
import sys
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from refluid.porting.loading import compile_old
from tests.started import refluid


def _run(folder: Path, *options: str, **files: str) -> subprocess.CompletedProcess[str]:
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    return refluid("run", *options, "train.py", folder=folder)


def test_names_that_are_gone_are_given_back(tmp_path: Path) -> None:
    text = (
        "from __future__ import print_function\n"
        "import collections, inspect, io, itertools, sys, time\n"
        "import numpy as np\n"
        "import numpy\n"
        "import yaml\n"
        "from collections import Mapping, OrderedDict as Ordered\n"
        "import cPickle as pickle, os\n"
        "from Queue import Queue\n"
        "reload(sys)\n"
        "sys.setdefaultencoding('utf-8')\n"
        "assert np.int is int and numpy.object is object and np.zeros(1, np.float).dtype == 'f8'\n"
        "assert isinstance({}, Mapping) and issubclass(Ordered, collections.MutableMapping)\n"
        "assert time.clock() > 0 and sys.maxint > 2**60\n"
        "assert inspect.getargspec(lambda a, b=1: a).args == ['a', 'b']\n"
        "assert yaml.load(io.StringIO('a: 1')) == {'a': 1}\n"
        "assert pickle.loads(pickle.dumps(3)) == 3 and Queue(2).empty()\n"
        "assert [x for x in xrange(2)] == list(itertools.imap(abs, [0, 1]))\n"
        "assert sorted({1: 2}.iteritems()) == [(1, 2)] and {1: 2}.has_key(1)\n"
        "assert iter([5]).next() == 5 and u'x'.decode('utf8') == 'x'\n"
        "assert np.array([[1], [1, 2]]).dtype == np.copy([[1], [1, 2]]).dtype == object\n"
        "assert np.copy(np.ones((2, 2)).T).flags.f_contiguous and {1: 2}.copy() == {1: 2}\n"
        "assert np.fromstring(b'ab', dtype=np.uint8).tolist() == [97, 98]\n"
        "assert np.where(True)[0].tolist() == [0] and np.nonzero(0)[0].tolist() == []\n"
        "assert np.where([0, 1])[0].tolist() == [1] and np.where(True, 1, 2) == 1\n"
        "assert 7 / 2 == 3\n"
    )
    ran = _run(tmp_path, train=text)
    assert ran.returncode == 0, ran.stderr
    says, line = ran.stderr.splitlines()
    assert "train.py uses .has_key, .iteritems, Queue of Python 2 and runs as there" in says
    assert "numpy.int (train.py:11)" in line
    assert "collections.Mapping (train.py:6)" in line
    assert "xrange" in line


def test_arguments_by_their_old_names(tmp_path: Path) -> None:
    text = (
        "import numpy as np\n"
        "from numpy import percentile\n"
        "class Own:\n"
        "    def reshape(self, newshape): return newshape\n"
        "a = np.arange(6.0)\n"
        "assert np.reshape(a, newshape=(2, 3)).shape == (2, 3)\n"
        "assert percentile(a, 50, interpolation='lower') == 2\n"
        "assert Own().reshape(newshape=3) == 3\n"
        "assert np.array(a, copy=False) is a and np.array([1], copy=False).shape == (1,)\n"
        "assert np.float16 in np.sctypes['float'] and np.int8 in np.sctypes['int']\n"
    )
    ran = _run(tmp_path, train=text)
    assert ran.returncode == 0, ran.stderr


def test_libraries_as_old_as_the_scripts_are_helped_too(tmp_path: Path) -> None:
    for name in ("parl", "another"):
        library = tmp_path / "site-packages" / name
        library.mkdir(parents=True)
        (library / "__init__.py").write_text("from . import inner\n")
        (library / "inner.py").write_text("import numpy as np\nkind = np.int\n")
    text = "import sys\nsys.path.append('site-packages')\nimport {}\nprint({}.inner.kind)\n"
    ran = _run(tmp_path, train=text.format("parl", "parl"))
    assert ran.stdout == "<class 'int'>\n", ran.stderr
    ran = _run(tmp_path, train=text.format("another", "another"))
    assert "numpy" in ran.stderr
    assert ran.returncode == 1


def test_libraries_keep_their_own(tmp_path: Path) -> None:
    """What a script is given back no library sees, and what is there comes first."""
    text = (
        "import collections, numpy as np, yaml\n"
        "assert np.int is int and collections.Mapping\n"
        "for module, name in ((np, 'int'), (collections, 'Mapping')):\n"
        "    assert not hasattr(module, name) and name not in vars(module)\n"
        "class Own(dict):\n"
        "    def iteritems(self):\n"
        "        return 'own'\n"
        "    message = next = 'mine'\n"
        "assert Own().iteritems() == 'own' and Own().next == 'mine'\n"
        "def xrange(n):\n"
        "    return n\n"
        "assert xrange(3) == 3\n"
        "try:\n"
        "    np.nothing_such\n"
        "except AttributeError as error:\n"
        "    print(error)\n"
        "try:\n"
        "    (3).next\n"
        "except AttributeError as error:\n"
        "    print(error)\n"
    )
    ran = _run(tmp_path, train=text)
    assert ran.returncode == 0, ran.stderr
    assert "nothing_such" in ran.stdout
    assert "'int' object has no attribute 'next'" in ran.stdout


def _names_after(text: str) -> dict[str, Any]:
    code = compile_old(text.encode(), "train.py")
    names: dict[str, Any] = {}
    exec(text if code is None else code, names)
    return names


@pytest.mark.parametrize("caught", ["ImportError", "(KeyError, ImportError)", "Exception", ""])
def test_an_import_with_another_in_its_place_fails_as_it_would(caught: str) -> None:
    """The old name would give `StringIO` alone."""
    names = _names_after(
        "try:\n    import cPickle as kept\n    from cStringIO import StringIO\n"
        f"except {caught}:\n    import pickle as kept\n    from io import BytesIO\n"
    )
    assert (names["kept"], names["BytesIO"]) == (pickle, BytesIO)
    assert "StringIO" not in names


@pytest.mark.parametrize("handler", ["KeyError:\n    import os", "ImportError:\n    raise"])
def test_an_import_that_has_nothing_in_its_place_is_given_back(handler: str) -> None:
    assert _names_after(f"try:\n    import cPickle\nexcept {handler}\n")["cPickle"] is pickle


_PYTHON2 = """\
# -*- coding: utf-8 -*-
import cPickle
def halves(n, (a, b)):
    print "halving", n
    n /= 2
    try:
        raise ValueError, "bad"
    except (ValueError, KeyError), e:
        print e.message, unicode(a), `b`
    for k, v in {'x': 1}.iteritems():
        print >>sys.stdout, k, v, map(abs, [1]), 0777, 3L
    return n / 2, 7.0 / 2
import sys
def fails():
    raise RuntimeError, "here"
"""


def test_python_2_is_translated(tmp_path: Path) -> None:
    train = "import helper\nprint(helper.halves(7, (1, 2)), 7 / 2)\nhelper.fails()\n"
    ran = _run(tmp_path, train=train, helper=_PYTHON2)
    assert ran.stdout == "halving 7\nbad 1 2\nx 1 [1] 511 3\n(1, 3.5) 3.5\n", ran.stderr
    assert "helper.py is Python 2 and runs translated" in ran.stderr
    assert 'helper.py", line 15, in fails\n    raise RuntimeError, "here"' in ran.stderr
    assert (tmp_path / "helper.py").read_text() == _PYTHON2
    assert not list(tmp_path.rglob("helper*.pyc"))


def test_translation_is_shown(tmp_path: Path) -> None:
    ran = _run(tmp_path, "--show-translation", train="print 'a'\nprint 1 / 2\n")
    assert ran.stdout == "a\n0\n"
    assert "-print 'a'\n-print 1 / 2\n+print('a')\n+print(1 / 2)\n" in ran.stderr


def test_division_as_the_file_asks(tmp_path: Path) -> None:
    text = (
        "from __future__ import division\n"
        "import numpy as np\n"
        "x = 1\n"
        "x /= 2\n"
        "print 1 / 2, x, np.arange(3) / 2\n"
    )
    assert _run(tmp_path, train=text).stdout == "0.5 0.5 [0.  0.5 1. ]\n"
    text = text.partition("\n")[2] + "y = np.arange(4)\nz = y\ny /= 2\nprint z, 3 / 2., y / 2.\n"
    assert _run(tmp_path, train=text).stdout == "0 0 [0 0 1]\n[0 0 1 1] 1.5 [0.  0.  0.5 0.5]\n"


_ONLY_PYTHON2 = """\
from __future__ import division
import gzip, struct, cPickle, numpy as np
made = [map(lambda n: n + 1, xrange(3)), zip([1, 2], 'ab'), filter(None, 'a b')]
assert made == [[1, 2, 3], [(1, 'a'), (2, 'b')], 'a b'], made
assert map(None, [1, 2], [3]) == [(1, 3), (2, None)]
assert {'a': 1}.keys() + {'a': 1}.values() + range(2) == ['a', 1, 0, 1]
assert 7 / 2 == 3.5
with open('numbers', 'w') as out:
    out.write(struct.pack('2f', 0.5, -1.5) + struct.pack('2I', 65, 3000))
file = open('numbers', 'r')
assert struct.unpack('2f', file.read(8)) == (0.5, -1.5)
file.seek(8, 0)
assert struct.unpack('2I', file.read(8)) == (65, 3000)
assert struct.unpack('4B', 'ABCD') == (65, 66, 67, 68)
assert np.fromstring('ABCD', 'uint8').tolist() == [65, 66, 67, 68]
with open('lines', 'w') as out:
    out.write(u'caf\\xe9\\n'.encode('utf8'))
    out.writelines(['two\\n'])
assert [line.strip() for line in open('lines')] == [u'caf\\xe9', 'two']
cPickle.dump({'a': [1.5]}, open('kept', 'w'), 2)
cPickle.dump([2], open('bytes', 'wb'), 2)
assert cPickle.load(open('bytes', 'rb')) == [2]
with open('lines', 'wb') as out:
    out.write('one\\ttwo\\n' + u'caf\xe9\\tau\\n')
    out.write(u'caf\xe9\\tau'.encode('latin1'))
assert open('lines', 'rb').read(3)[0] == 111
assert [line.strip().split('\\t')[1] for line in open('lines', 'rb')] == ['two', 'au', 'au']
assert list(open('lines', 'rb'))[2].decode('latin1') == list(open('lines'))[1].strip()
assert open('lines', 'rb').readlines()[0] == 'one\\ttwo\\n' == open('lines', 'rb').readline()
assert [isinstance(line, bytes) for line in open('lines', 'rb')] == [True] * 3
assert next(open('lines', 'rb')).decode('utf8') == u'one\\ttwo\\n'
with gzip.open('lines.gz', 'wb') as out:
    out.write('a;b\\n' + 'c;d\\n')
assert [line.strip().split(';') for line in gzip.open('lines.gz')] == [['a', 'b'], ['c', 'd']]
assert gzip.open('lines.gz', 'rt').read(1) == 'a' and gzip.open('lines.gz').read(1)[0] == 97
np.save(open('saved', 'wb'), np.arange(3))
with open('saved', 'ab') as out:
    np.arange(2.0).tofile(out)
with open('saved', 'rb') as file:
    assert np.load(file).tolist() == [0, 1, 2] and np.fromfile(file).tolist() == [0, 1]
assert cPickle.load(open('kept')) == {'a': [1.5]}
"""


def test_a_file_that_only_python_2_runs_has_its_lists_and_files(tmp_path: Path) -> None:
    """It parses as Python 3, but no Python 3 has `xrange`."""
    ran = _run(tmp_path, train=_ONLY_PYTHON2)
    assert ran.returncode == 0, ran.stderr
    # A file that asks which Python it runs under is left as it is.
    asks = "import sys\nif sys.version_info[0] < 3:\n    xrange(3)\nassert 7 / 2 == 3.5\n"
    ran = _run(tmp_path, train=asks + "assert list(map(abs, [1])) != map(abs, [1])\n")
    assert ran.returncode == 0, ran.stderr


def test_pictures_of_scipy(tmp_path: Path) -> None:
    text = (
        "import numpy as np, scipy.misc\n"
        "from scipy.misc import imsave, imread as read\n"
        "imsave('one.png', np.arange(48, dtype='uint8').reshape(4, 4, 3))\n"
        "assert read('one.png').tolist() == np.arange(48).reshape(4, 4, 3).tolist()\n"
        "assert scipy.misc.imresize(read('one.png'), (2, 3)).shape == (2, 3, 3)\n"
        "assert scipy.misc.imresize(read('one.png'), 50).shape == (2, 2, 3)\n"
        "assert scipy.misc.bytescale(np.float32([0, 0.5, 1])).tolist() == [0, 128, 255]\n"
        "assert scipy.misc.toimage(np.zeros((3, 5, 7))).size == (7, 5)\n"
    )
    ran = _run(tmp_path, train=text)
    assert ran.returncode == 0, ran.stderr
    assert "scipy.misc.imsave (train.py:2)" in ran.stderr


def test_a_package_built_on_paddle_fails_where_it_is_used(tmp_path: Path) -> None:
    text = "import paddlehub as hub\nprint('imported', flush=True)\nhub.Module(name='ernie')\n"
    ran = _run(tmp_path, train=text)
    assert (ran.returncode, ran.stdout) == (1, "imported\n")
    assert 'File "train.py", line 3' in ran.stderr
    assert "paddlehub is not installed, and paddlehub.Module is used" in ran.stderr


def test_pickles_that_python_2_wrote(tmp_path: Path) -> None:
    (tmp_path / "old").write_bytes(b"\x80\x02U\x03caf\xe9.".replace(b"\x03", b"\x04"))
    text = "import pickle\nassert pickle.load(open('old', 'rb')) == u'caf\\xe9'\n"
    ran = _run(tmp_path, train=text)
    assert ran.returncode == 0, ran.stderr


def test_tabs_and_spaces_mixed(tmp_path: Path) -> None:
    ran = _run(tmp_path, train="if True:\n        a = 1\n\tb = 2\nprint(a + b)\n")
    assert ran.stdout == "3\n", ran.stderr


def test_what_is_neither_stays_a_syntax_error(tmp_path: Path) -> None:
    ran = _run(tmp_path, train="x = = 3\n")
    assert ran.returncode == 1
    assert 'File "train.py", line 1' in ran.stderr
    assert "SyntaxError: invalid syntax" in ran.stderr


def test_without_the_translator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fissix.pgen2.parse", None)
    with pytest.raises(SyntaxError, match=r'pip install "refluid\[compat\]"'):
        compile_old(b"print 'a'\n", "train.py")


def test_modules_run_by_name(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print 'run as', __name__, xrange(2)\n")
    ran = refluid("run", "-m", "train", folder=tmp_path)
    assert ran.stdout == "run as __main__ range(0, 2)\n", ran.stderr
