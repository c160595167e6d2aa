"""Decompositions of matrices, and what is solved by them, as Paddle 2 has them."""

from __future__ import annotations

import torch
from torch import Tensor

from refluid.core.dtypes import VarType
from refluid.ir.operator import Operator
from refluid.ops.registry import OperatorDef, operator


@operator("eigh", outputs="Eigenvalues Eigenvectors", uses="X", amp="keep")
def eigh(X: Tensor, *, UPLO: str = "L") -> tuple[Tensor, Tensor]:
    """Eigenvalues (.., n), smallest first, and vectors of symmetric matrices (.., n, n)."""
    values, vectors = torch.linalg.eigh(X, UPLO)
    return values, vectors


@operator("eigvalsh", outputs="Eigenvalues", uses="X", amp="keep")
def eigvalsh(X: Tensor, *, UPLO: str = "L") -> Tensor:
    """Eigenvalues (.., n), smallest first, of symmetric matrices (.., n, n)."""
    out: Tensor = torch.linalg.eigvalsh(X, UPLO)
    return out


@operator("eig", outputs="Eigenvalues Eigenvectors", uses="X", amp="keep")
def eig(X: Tensor) -> tuple[Tensor, Tensor]:
    """Complex eigenvalues (.., n) and vectors as columns of square matrices (.., n, n)."""
    values, vectors = torch.linalg.eig(X)
    return values, vectors


@operator("eigvals", outputs="Out", uses=None, amp="keep")
def eigvals(X: Tensor) -> Tensor:
    """Complex eigenvalues (.., n) of square matrices (.., n, n)."""
    out: Tensor = torch.linalg.eigvals(X)
    return out


@operator("svd", outputs="U S VH", uses="X", amp="keep")
def svd(X: Tensor, *, full_matrices: bool = False) -> tuple[Tensor, Tensor, Tensor]:
    """U, singular values and the transposed V, whose product is X (.., m, n)."""
    u, s, vh = torch.linalg.svd(X, full_matrices=full_matrices)
    return u, s, vh


@operator("qr", outputs="Q R", uses="X", amp="keep")
def qr(X: Tensor, *, mode: str = "reduced") -> tuple[Tensor, Tensor]:
    """Q and the upper triangle R, whose product is X (.., m, n). mode: reduced, complete or r."""
    q, r = torch.linalg.qr(X, mode)
    return q, r


@operator("slogdet", outputs="Out", uses="Input", amp="keep")
def slogdet(Input: Tensor) -> Tensor:
    """The sign of the determinant of each matrix and the logarithm of its size: (2, ..)."""
    out = torch.stack([*torch.linalg.slogdet(Input)])
    return out if out.dim() > 1 else out.reshape(2, 1)


@operator("lu", outputs="Out Pivots Infos", uses="X", amp="keep")
def lu(X: Tensor, *, pivot: bool = True) -> tuple[Tensor, Tensor, Tensor]:
    """Lower and upper triangle in one matrix, rows exchanged, counted from 1, and how it went."""
    found, pivots, infos = torch.linalg.lu_factor_ex(X, pivot=pivot)
    return found, pivots, infos if infos.dim() else infos.reshape(1)


@operator("lu_unpack", outputs="Pmat L U", uses="X Pivots", differentiable="X", amp="keep")
def lu_unpack(X: Tensor, Pivots: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The permutation, lower and upper triangles that `lu` gave as one matrix and exchanges."""
    p, lower, upper = torch.lu_unpack(X, Pivots)
    return p, lower, upper


@operator("triangular_solve", outputs="Out", uses="X Y", amp="keep")
def triangular_solve(
    X: Tensor,
    Y: Tensor,
    *,
    upper: bool = True,
    transpose: bool = False,
    unitriangular: bool = False,
) -> Tensor:
    """The solution of X · Out = Y (.., n, k), X (.., n, n) being a triangle, or its transpose."""
    given = X.mT if transpose else X
    out: Tensor = torch.linalg.solve_triangular(
        given, Y, upper=upper != transpose, unitriangular=unitriangular
    )
    return out


@operator("cholesky_solve", outputs="Out", uses="X Y", amp="keep")
def cholesky_solve(X: Tensor, Y: Tensor, *, upper: bool = False) -> Tensor:
    """The solution of A · Out = X (.., n, k), Y being the Cholesky triangle of A."""
    return torch.cholesky_solve(X, Y.triu() if upper else Y.tril(), upper)


@operator("pinv", outputs="Out", uses="X", amp="keep")
def pinv(X: Tensor, *, rcond: float = 1e-15, hermitian: bool = False) -> Tensor:
    """The pseudo-inverse (.., n, m); singular values below rcond times the largest count as 0."""
    given = (X + X.mT) / 2 if hermitian else X
    out: Tensor = torch.linalg.pinv(given, rcond=rcond, hermitian=hermitian)
    return out


@operator("matrix_rank", outputs="Out", uses=None, amp="keep")
def matrix_rank(
    X: Tensor, TolTensor: Tensor | None = None, *, tol: float = -1.0, hermitian: bool = False
) -> Tensor:
    """How many singular values are above tol, by default above what rounding makes of 0."""
    given = TolTensor if TolTensor is not None else tol if tol >= 0 else None
    if given is None:
        out: Tensor = torch.linalg.matrix_rank(X, hermitian=hermitian)
    else:
        out = torch.linalg.matrix_rank(X, atol=given, rtol=0.0, hermitian=hermitian)
    return (out if out.dim() else out.reshape(1)).to(torch.int32)


@operator("householder_product", outputs="Out", uses="X Tau", amp="keep")
def householder_product(X: Tensor, Tau: Tensor) -> Tensor:
    """The first n columns of a product of Householder matrices, of vectors X (.., m, n) and Tau."""
    out: Tensor = torch.linalg.householder_product(X, Tau)
    return out


def _infer_lstsq(definition: OperatorDef, op: Operator) -> None:
    x, y = (op.block.var_recursive(op.input(slot)[0]) for slot in "XY")
    (*batch, rows, columns), count = x.shape, y.shape[-1]
    full = rows > columns
    driver = op.attrs["driver"]
    shapes = {
        "Solution": (*batch, columns, count),
        "Residuals": (*batch, count) if full and driver != "gelsy" else (0,),
        "Rank": tuple(batch) or (1,) if driver != "gels" else (0,),
        "SingularValues": (*batch, min(rows, columns)) if driver in ("gelsd", "gelss") else (0,),
    }
    for slot, shape in shapes.items():
        kind = VarType.INT32 if slot == "Rank" else x.dtype
        op.block.var_recursive(op.output(slot)[0]).describe(shape=shape, dtype=kind)


@operator(
    "lstsq",
    outputs="Solution Residuals Rank SingularValues",
    uses="X Y",
    amp="keep",
    lod="",
    infer=_infer_lstsq,
)
def lstsq(
    X: Tensor, Y: Tensor, *, rcond: float = -1.0, driver: str = "gelsy"
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """What brings X · Solution closest to Y; the squares that are left, ranks, singular values."""
    found = torch.linalg.lstsq(X, Y, None if rcond < 0 else rcond, driver=driver)
    rank = found.rank.int()
    ranks = rank if rank.dim() else rank.reshape(1)
    return found.solution, found.residuals, ranks, found.singular_values


@operator("cdist", outputs="Out", uses="X Y", amp="keep")
def cdist(X: Tensor, Y: Tensor, *, p: float = 2.0, compute_mode: str = "") -> Tensor:
    """Distances (.., m, n) of vectors X (.., m, k) from vectors Y (.., n, k), in the p-norm."""
    how = compute_mode or "use_mm_for_euclid_dist_if_necessary"
    return torch.cdist(X, Y, p, how)
