"""The operators: what one is, in the files of this folder, and all there are, in folders by family.

Every module below is imported, so a new operator is found by itself.
"""

from __future__ import annotations

import importlib
import pkgutil

for _module in pkgutil.walk_packages(__path__, f"{__name__}."):
    importlib.import_module(_module.name)
