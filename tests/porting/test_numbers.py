"""Arrays of one element are numbers to old scripts, as they were before NumPy 2.4."""

from __future__ import annotations

from pathlib import Path

from tests.started import refluid


def test_arrays_of_one_element_are_numbers(tmp_path: Path) -> None:
    """Also those that the script makes itself."""
    text = (
        "import math\n"
        "import numpy as np\n"
        "one = np.ones((1, 1)) * 2.5\n"
        "assert int(one) == 2 and float(one[0]) == 2.5 and int('7') == 7 and int('11', 2) == 3\n"
        "assert '%.1f %d %s' % (one, one[0], one[0]) == '2.5 2 [2.5]'\n"
        "assert '%.1f' % one == '2.5' and '%(a)s' % {'a': 1} == '1'\n"
        "form, more = '%.1f %d', True\n"
        "assert form % (one, one) == '2.5 2' and 7 % 4 == 3\n"
        "assert ('%.1f' + (' %d' if more else '')) % (one, one) == '2.5 2'\n"
        "assert math.floor(one) == 2 and math.pow(one, 2) == 6.25 and math.ceil(0.5) == 1\n"
        "for wrong in (lambda: int(np.ones(2)), lambda: '%d' % np.ones(2), lambda: float(None)):\n"
        "    try:\n"
        "        wrong()\n"
        "    except TypeError:\n"
        "        continue\n"
        "    raise SystemExit('no error')\n"
        "assert one.ptp() == 0 and np.arange(4).ptp(0) == 3\n"
        "one.itemset(0, 0, 4)\n"
        "assert one.tolist() == [[4.0]]\n"
    )
    (tmp_path / "train.py").write_text(text)
    ran = refluid("run", "train.py", folder=tmp_path)
    assert ran.returncode == 0, ran.stderr
