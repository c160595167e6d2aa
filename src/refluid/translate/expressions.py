"""Expressions: `and`, `or`, `not`, chained comparisons, `a if b else c`, calls and shapes."""

from __future__ import annotations

import ast
from typing import Any

from refluid.translate.building import ASKED, ask, load, unnamed
from refluid.translate.changed import path
from refluid.translate.source import refuse

# Functions of Python's that look at the frame they are called from.
_OF_FRAMES = frozenset({"super", "locals", "globals", "vars", "dir", "eval", "exec"})


class Expressions(ast.NodeTransformer):
    """Rewrites expressions of a function.

    first: the function's first parameter, which `super()` is about.
    """

    def __init__(self, file: str, first: str | None) -> None:
        self.file, self.first = file, first

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return node  # it is translated when it is called

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        question = "both" if isinstance(node.op, ast.And) else "either"
        self.generic_visit(node)
        *rest, found = node.values
        found = self._later(found)
        for one in reversed(rest):
            last = ask(question, self._later(one), found)
            found = unnamed(last)
        return last

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        self.generic_visit(node)
        return ask("opposite", node.operand) if isinstance(node.op, ast.Not) else node

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        self.generic_visit(node)
        if len(node.ops) == 1:
            return node
        # The lambdas take the two operands: each is computed once.
        tests = [
            ast.Lambda(
                ast.arguments([], [ast.arg("a"), ast.arg("b")], None, [], [], None, []),
                ast.Compare(load("a"), [op], [load("b")]),
            )
            for op in node.ops
        ]
        operands = [self._later(one) for one in node.comparators]
        return ask(
            "chain",
            node.left,
            ast.List([*operands], ast.Load()),
            ast.List([*tests], ast.Load()),
        )

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        self.generic_visit(node)
        return ask("choose", node.test, self._later(node.body), self._later(node.orelse))

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        self.generic_visit(node)
        if node.attr == "shape" and isinstance(node.ctx, ast.Load):
            return ask("shape", node.value)
        return node

    def visit_comprehension(self, node: ast.comprehension) -> ast.comprehension:
        self.generic_visit(node)
        node.iter = ask("elements", node.iter)
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id in _OF_FRAMES:
            if node.func.id == "super" and not node.args and self.first:
                node.args = [load("__class__"), load(self.first)]
            return node
        if (path(node.func) or "").partition(".")[0] != ASKED:
            node.func = ask("callee", node.func)
        return node

    def visit(self, node: ast.AST) -> Any:
        """The node, rewritten."""
        if isinstance(node, ast.Yield | ast.YieldFrom | ast.Await):
            problem = "a generator can't become a program; return a list instead"
            raise refuse(self.file, node, problem)
        return super().visit(node)

    def _later(self, node: ast.expr) -> ast.expr:
        for one in ast.walk(node):
            if isinstance(one, ast.NamedExpr):
                raise refuse(
                    self.file,
                    one,
                    "`:=` within and, or, or a conditional expression can't be translated; "
                    "assign the name in a line before",
                )
        return unnamed(node)
