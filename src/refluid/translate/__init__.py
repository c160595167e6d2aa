"""Python functions rewritten so that control flow asks run-time functions what it should do.

`translated` gives the function with every `if`, `while`, `for`, `and`, `not`, `assert` and call
replaced by a call of an object with methods of these meanings, which decides by the values that
it meets. What such an object does with tensors is told elsewhere; here is only Python.
"""

from refluid.translate.function import Translation, translated
from refluid.translate.jumps import FLAGS
from refluid.translate.source import Untranslatable

__all__ = ["FLAGS", "Translation", "Untranslatable", "translated"]
