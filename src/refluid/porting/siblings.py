"""Modules of its own package that a file imports by their bare names, as Python 2 found them.

from layers import Net -> try: from layers import Net
                          except ImportError as missing:
                              given_back.beside(missing, "layers", FILE, LINE)
                              from .layers import Net

What Python 3 finds under the bare name comes first, also where the file extends `sys.path` before,
unless it lacks the names that are imported of it.
"""

from __future__ import annotations

import ast
from pathlib import Path

_HELP = "_refluid_given_back"
_MISSING = "_refluid_missing"
_IMPORTS = ast.Import | ast.ImportFrom


def rewrite(tree: ast.Module, file: str) -> bool:
    """Rewrites the tree of a package's file in place; whether anything was changed."""
    rewriter = _BareImports(file)
    rewriter.visit(tree)
    if rewriter.changed:
        ast.fix_missing_locations(tree)
    return rewriter.changed


class _BareImports(ast.NodeTransformer):
    def __init__(self, file: str) -> None:
        self._file, self._folder = file, Path(file).parent
        self.changed = False

    def _is_beside(self, name: str) -> bool:
        """`a` of the package, not `a.b`: importing that binds another name than `from . import`."""
        place = self._folder / name
        return "." not in name and (
            place.with_suffix(".py").is_file() or (place / "__init__.py").is_file()
        )

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.stmt:
        module = node.module or ""
        if node.level or not self._is_beside(module.partition(".")[0]):
            return node
        return self._tried(node, module, ast.ImportFrom(module, node.names, 1))

    def visit_Import(self, node: ast.Import) -> ast.stmt | list[ast.stmt]:
        if not any(self._is_beside(one.name) for one in node.names):
            return node
        each = [ast.copy_location(ast.Import([one]), node) for one in node.names]
        return [
            self._tried(one, name, ast.ImportFrom(None, one.names, 1))
            if self._is_beside(name := one.names[0].name)
            else one
            for one in each
        ]

    def _tried(self, node: _IMPORTS, module: str, instead: ast.ImportFrom) -> ast.stmt:
        self.changed = True
        helper = ast.ImportFrom("refluid.porting", [ast.alias("given_back", _HELP)], 0)
        given = [ast.Constant(module.partition(".")[0]), ast.Constant(self._file)]
        said = ast.Call(
            ast.Attribute(ast.Name(_HELP, ast.Load()), "beside", ast.Load()),
            [ast.Name(_MISSING, ast.Load()), *given, ast.Constant(node.lineno)],
            [],
        )
        caught = ast.ExceptHandler(
            ast.Name("ImportError", ast.Load()), _MISSING, [helper, ast.Expr(said), instead]
        )
        made = ast.copy_location(ast.Try([node], [caught], [], []), node)
        return ast.fix_missing_locations(made)
