"""`fluid.unique_name`: numbers of names go on where a generator is given back."""

from __future__ import annotations

import pytest

from refluid import fluid
from refluid.paddle.utils import unique_name as of_paddle


@pytest.mark.parametrize("whole", [False, True])
def test_switch_gives_the_former_generator_and_its_checker(whole: bool) -> None:
    names = fluid.unique_name
    with names.guard():
        assert names.generate("fc") == "fc_0"
        former = names.switch()
        generator, checker = former
        assert checker is None
        assert names.generate("fc") == "fc_0"
        names.switch(former if whole else generator)
        assert names.generate("fc") == "fc_1"


def test_a_checker_is_kept_and_given_back() -> None:
    names, checker = fluid.unique_name, object()
    former = names.switch(None, checker)
    assert names.switch(*former)[1] is checker
    assert names.switch(former)[1] is None
    assert of_paddle.switch is names.switch
