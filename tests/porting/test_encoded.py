"""What `encode` gives in files of Python 2: bytes, and text beside other text."""

from __future__ import annotations

import copy
import hashlib
import pickle
import re
from pathlib import Path

import pytest

from refluid.porting.python2_files import Encoded
from tests.started import refluid

CAFE = Encoded("caf\u00e9\tau lait".encode(), "utf-8")

SCRIPT = """\
# -*- coding: utf-8 -*-
import hashlib, sys
word = u'caf\\u00e9'
code = word.encode('utf-8')
print '%s and %s' % (code, 'tea'), len(code), hashlib.md5(code).hexdigest()[:4]
print '\\t'.join([code, 'tea', word]), code + '!' + code, '<' + code, '{:>6}'.format(code)
sys.stdout.write(code + '\\n')
with open('words', 'w') as file:
    file.write(code + ' ' + 'tea')
counts = {'caf\\xc3\\xa9'.decode('latin1') and 'tea': 1, word: 2}
print counts[code], code == word, 'f' in code, code.split('f')[0], code.upper().endswith('X')
print word.encode(encoding='gbk').decode('gbk') == word, {'a': 1}.keys(), list('ab'.encode())
"""


def test_bytes_are_text_beside_text(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    ran = refluid("run", "train.py", folder=tmp_path)
    md5 = hashlib.md5("caf\u00e9".encode()).hexdigest()[:4]
    assert ran.stdout.splitlines() == [
        f"caf\u00e9 and tea 5 {md5}",
        "caf\u00e9\ttea\tcaf\u00e9 caf\u00e9!caf\u00e9 <caf\u00e9   caf\u00e9",
        "caf\u00e9",
        "2 True True ca False",
        "True ['a'] ['a', 'b']",
    ], ran.stderr
    assert (tmp_path / "words").read_text(encoding="utf-8") == "caf\u00e9 tea"


OWN = """\
import io
class Settings(dict):
    def write(self, name, more): return name + more
    def join(self, other): return sorted(set(self) | set(other))
class Tee(io.StringIO):
    def items(self, *given): return given
class Wrapped:
    def encode(self, text, add): return text + add
settings, tee = Settings(a=1), Tee()
print settings.write('to', 'file'), settings.join({'b': 2}), settings.keys(), tee.items(1, 2)
tee.write('caf'.encode('utf-8'))
print tee.getvalue(), Wrapped().encode('x', add='y')
"""


def test_methods_of_ones_own_are_called_as_they_are(tmp_path: Path) -> None:
    parsed = re.sub(r"^print (.*)$", r"print(\1)", OWN, flags=re.MULTILINE)
    for name, text in ("translated.py", OWN), ("parsed.py", f"{parsed}xrange(2)\n"):
        (tmp_path / name).write_text(text)
        ran = refluid("run", name, folder=tmp_path)
        first, second = ran.stdout.splitlines()[:2]
        assert first == "tofile ['a', 'b'] ['a'] (1, 2)", ran.stderr
        assert second == "caf xy", ran.stderr


def test_what_methods_give_is_bytes_and_text_again() -> None:
    first, second = CAFE.split("\t")
    assert first == "caf\u00e9" and first == "caf\u00e9".encode() and isinstance(second, Encoded)
    assert CAFE.partition(b"\t")[2].replace("lait", "th\u00e9").startswith(("x", "au"))
    assert CAFE[5] == "\t" and CAFE[-1:] == "t" and CAFE[:4].text == "caf\ufffd"
    assert next(iter(CAFE)) == "c" and len(list(CAFE)) == len(CAFE) == 13
    assert (
        CAFE.find("l") == 9
        and CAFE < "d"
        and CAFE >= b"caf"
        and CAFE * 2 == "caf\u00e9\tau lait" * 2
    )
    assert second.join(["a", b"b"]) == "aau laitb" and b"<" + second == "<au lait"
    with pytest.raises(IndexError):
        CAFE[13]
    for again in (copy.deepcopy(CAFE), pickle.loads(pickle.dumps(CAFE))):
        assert again == CAFE and again.encoding == "utf-8"


def test_a_script_that_adds_text_to_what_it_encoded_is_of_python_2(tmp_path: Path) -> None:
    (tmp_path / "save.py").write_text(
        "def save(path, rows, code='utf-8'):\n"
        "    with open(path, 'w') as out:\n"
        "        [out.write(row.encode(code) + '\\n') for row in rows]\n"
        "save('rows', ['caf\u00e9', 'tea'])\n",
        encoding="utf-8",
    )
    ran = refluid("run", "save.py", folder=tmp_path)
    assert (tmp_path / "rows").read_text(encoding="utf-8") == "caf\u00e9\ntea\n", ran.stderr
