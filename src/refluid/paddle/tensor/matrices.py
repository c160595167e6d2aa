"""Matrices decomposed, and what is solved by that."""

from __future__ import annotations

from typing import Any

from refluid.build import op
from refluid.core.dtypes import VarType
from refluid.ir.variable import Variable
from refluid.paddle.tensor import manipulation, math, reduction
from refluid.paddle.tensor.linalg import inverse, matmul
from refluid.paddle.tensor.making import cast_to, rank_of
from refluid.paddle.tensor.random import randn


def _uplo(UPLO: str) -> dict[str, Any]:
    if UPLO not in ("L", "U"):
        raise ValueError(f"UPLO must be L or U. But received UPLO is: {UPLO}")
    return {"UPLO": UPLO}


def eigh(x: Variable, UPLO: str = "L", name: str | None = None) -> tuple[Variable, Variable]:
    """Eigenvalues, smallest first, and vectors of symmetric matrices (.., n, n)."""
    makes = ("Eigenvalues", "Eigenvectors")
    values, vectors = op("eigh", {"X": x}, _uplo(UPLO), makes, name=name)
    return values, vectors


def eigvalsh(x: Variable, UPLO: str = "L", name: str | None = None) -> Variable:
    """Eigenvalues, smallest first, of symmetric matrices (.., n, n)."""
    return op("eigvalsh", {"X": x}, _uplo(UPLO), name=name)


def svd(
    x: Variable, full_matrices: bool = False, name: str | None = None
) -> tuple[Variable, Variable, Variable]:
    """U, singular values, and V transposed."""
    attrs = {"full_matrices": bool(full_matrices)}
    u, s, vh = op("svd", {"X": x}, attrs, ("U", "S", "VH"), name=name)
    return u, s, vh


def qr(x: Variable, mode: str = "reduced", name: str | None = None) -> Any:
    """(Q, R) with mode `reduced` or `complete`, R alone with `r`; ValueError for others."""
    if mode not in ("reduced", "complete", "r"):
        raise ValueError(f"QR mode must be reduced, complete or r. But received mode is: {mode}")
    q, r = op("qr", {"X": x}, {"mode": mode}, ("Q", "R"), name=name)
    return r if mode == "r" else (q, r)


def slogdet(x: Variable, name: str | None = None) -> Variable:
    """Signs of determinants, and logarithms of their sizes: (2, ..)."""
    return op("slogdet", {"Input": x}, name=name)


def lu(x: Variable, pivot: bool = True, get_infos: bool = False, name: str | None = None) -> Any:
    """(triangles in one matrix, rows that were exchanged, counted from 1), and with

    `get_infos` whether a matrix has none: the place of a zero, else 0.
    """
    made = {"Out": x.dtype, "Pivots": VarType.INT32, "Infos": VarType.INT32}
    found, pivots, infos = op("lu", {"X": x}, {"pivot": bool(pivot)}, made, name=name)
    return (found, pivots, infos) if get_infos else (found, pivots)


def lu_unpack(
    x: Variable,
    y: Variable,
    unpack_ludata: bool = True,
    unpack_pivots: bool = True,
    name: str | None = None,
) -> tuple[Any, Any, Any]:
    """(permutation, lower, upper triangle) of what `lu` gave; None for what isn't asked."""
    inputs = {"X": x, "Pivots": y}
    p, lower, upper = op("lu_unpack", inputs, None, ("Pmat", "L", "U"), name=name)
    pair = (lower, upper) if unpack_ludata else (None, None)
    return (p if unpack_pivots else None, *pair)


def triangular_solve(
    x: Variable,
    y: Variable,
    upper: bool = True,
    transpose: bool = False,
    unitriangular: bool = False,
    name: str | None = None,
) -> Variable:
    """The solution of x · out = y, x being a triangle, or of its transpose."""
    attrs = {"upper": upper, "transpose": transpose, "unitriangular": unitriangular}
    return op("triangular_solve", {"X": x, "Y": y}, attrs, name=name)


def cholesky_solve(
    x: Variable, y: Variable, upper: bool = False, name: str | None = None
) -> Variable:
    """The solution of A · out = x, y being the Cholesky triangle of A."""
    return op("cholesky_solve", {"X": x, "Y": y}, {"upper": bool(upper)}, name=name)


def pinv(
    x: Variable, rcond: float = 1e-15, hermitian: bool = False, name: str | None = None
) -> Variable:
    """The pseudo-inverse; singular values below rcond times the largest count as 0."""
    attrs = {"rcond": float(rcond), "hermitian": bool(hermitian)}
    return op("pinv", {"X": x}, attrs, name=name)


def matrix_rank(
    x: Variable, tol: Any = None, hermitian: bool = False, name: str | None = None
) -> Variable:
    """How many singular values, or eigenvalues' sizes, are above tol."""
    is_tensor = isinstance(tol, Variable)
    inputs = {"X": x, "TolTensor": tol if is_tensor else None}
    attrs = {"tol": -1.0 if tol is None or is_tensor else float(tol), "hermitian": bool(hermitian)}
    return op("matrix_rank", inputs, attrs, name=name, dtype=VarType.INT32)


def householder_product(x: Variable, tau: Variable, name: str | None = None) -> Variable:
    """The first columns of a product of Householder matrices, by vectors x and factors tau."""
    return op("householder_product", {"X": x, "Tau": tau}, name=name)


def lstsq(
    x: Variable,
    y: Variable,
    rcond: float | None = None,
    driver: str | None = None,
    name: str | None = None,
) -> tuple[Variable, Variable, Variable, Variable]:
    """(solution, squares that are left, ranks, singular values) of x · solution close to y.

    driver: gelsy, gels, gelsd or gelss, as of LAPACK; ValueError for others.
    """
    chosen = "gelsy" if driver is None else driver
    if chosen not in ("gels", "gelss", "gelsd", "gelsy"):
        raise ValueError(
            "Only support valid driver is 'gels', 'gelss', 'gelsd', 'gelsy' or None for CPU "
            f"inputs. But got {driver}"
        )
    makes = {
        "Solution": x.dtype,
        "Residuals": x.dtype,
        "Rank": VarType.INT32,
        "SingularValues": x.dtype,
    }
    attrs = {"rcond": -1.0 if rcond is None else float(rcond), "driver": chosen}
    a, b, c, d = op("lstsq", {"X": x, "Y": y}, attrs, makes, name=name)
    return a, b, c, d


def cond(x: Variable, p: Any = None, name: str | None = None) -> Variable:
    """The condition number of each matrix: its norm times that of its inverse.

    p: None or 2 and -2 by singular values, fro, nuc, 1, -1, inf, -inf; ValueError for others.
    """
    if p in (None, 2, -2, "nuc"):
        values = svd(x)[1]
        low, high = reduction.min(values, -1), reduction.max(values, -1)
        if p == "nuc":
            inverses = math.reciprocal(values)
            return math.multiply(reduction.sum(values, -1), reduction.sum(inverses, -1))
        return math.divide(low, high) if p == -2 else math.divide(high, low)
    if p not in ("fro", 1, -1, float("inf"), float("-inf")):
        raise ValueError(f"cond's p is fro, nuc, 1, -1, 2, -2, inf or -inf, not {p!r}")
    return math.multiply(_size(x, p), _size(inverse(x), p))


def _size(x: Variable, p: Any) -> Variable:
    """A norm of each matrix."""
    if p == "fro":
        return math.sqrt(reduction.sum(math.square(x), [-2, -1]))
    sums = reduction.sum(math.abs(x), -2 if abs(p) == 1 else -1)
    return reduction.max(sums, -1) if p > 0 else reduction.min(sums, -1)


def cov(
    x: Variable,
    rowvar: bool = True,
    ddof: bool = True,
    fweights: Variable | None = None,
    aweights: Variable | None = None,
    name: str | None = None,
) -> Variable:
    """Covariances of rows, of columns with rowvar=False.

    ddof: divided by one less than the count. fweights: how often each observation counts.
    aweights: how much it does. ValueError for more than two dimensions.
    """
    if rank_of(x) > 2:
        raise ValueError(
            f"Input(x) only support N-D (1<=N<=2) tensor in cov, but received length {rank_of(x)}"
        )
    rows = manipulation.reshape(x, [1, -1]) if rank_of(x) == 1 else x
    if not rowvar and rows.shape[0] != 1:
        rows = manipulation.transpose(rows, [1, 0])
    weights: Variable | None = None
    for one in (fweights, aweights):
        if one is not None:
            given = cast_to(one, rows.dtype)
            weights = given if weights is None else math.multiply(weights, given)
    if weights is None:
        count: Any = float(rows.shape[1])
        middle = reduction.mean(rows, 1, keepdim=True)
        weighted = apart = math.subtract(rows, middle)
        lost: Any = 1.0
    else:
        count = reduction.sum(weights)
        middle = math.divide(reduction.sum(math.multiply(rows, weights), 1, keepdim=True), count)
        apart = math.subtract(rows, middle)
        weighted = math.multiply(apart, weights)
        lost = 1.0
        if aweights is not None:
            again = math.multiply(weights, cast_to(aweights, rows.dtype))
            lost = math.divide(reduction.sum(again), count)
    below = count - lost if ddof else count
    found = matmul(apart, weighted, transpose_y=True)
    scaled = (
        math.divide(found, below) if isinstance(below, Variable) else math.scale(found, 1 / below)
    )
    return scaled if rank_of(x) > 1 else manipulation.reshape(scaled, [1])


def corrcoef(x: Variable, rowvar: bool = True, name: str | None = None) -> Variable:
    """Correlations of rows, of columns with rowvar=False, between -1 and 1."""
    if rank_of(x) > 2:
        raise ValueError(
            "Input(x) only support N-D (1<=N<=2) tensor in corrcoef, but received length "
            f"{rank_of(x)}"
        )
    found = cov(x, rowvar)
    if rank_of(x) == 1:
        return math.divide(found, found)
    spread = math.sqrt(op("diagonal", {"Input": found}, {"offset": 0, "axis1": 0, "axis2": 1}))
    rows = math.divide(found, manipulation.unsqueeze(spread, 1))
    return math.clip(math.divide(rows, manipulation.unsqueeze(spread, 0)), -1.0, 1.0)


def pca_lowrank(
    x: Variable, q: int | None = None, center: bool = True, niter: int = 2, name: str | None = None
) -> tuple[Variable, Variable, Variable]:
    """U, singular values and V of the q largest of x (.., m, n), its columns centred, by chance.

    niter: rounds of the search for them. ValueError for a q that x doesn't have.
    """
    rows, columns = int(x.shape[-2]), int(x.shape[-1])
    count = min(6, rows, columns) if q is None else q
    if not 0 <= count <= min(rows, columns):
        raise ValueError(
            f"q(={q}) must be non-negative integer and not greater than {min(rows, columns)}"
        )
    given = math.subtract(x, reduction.mean(x, -2, keepdim=True)) if center else x
    basis = qr(matmul(given, randn([columns, count], x.dtype)))[0]
    for _ in range(niter):
        other = qr(matmul(given, basis, transpose_x=True))[0]
        basis = qr(matmul(given, other))[0]
    u, s, vh = svd(matmul(basis, given, transpose_x=True))
    order = [*range(rank_of(vh) - 2), rank_of(vh) - 1, rank_of(vh) - 2]
    return matmul(basis, u), s, manipulation.transpose(vh, order)


def cdist(
    x: Variable,
    y: Variable,
    p: float = 2.0,
    compute_mode: str = "use_mm_for_euclid_dist_if_necessary",
    name: str | None = None,
) -> Variable:
    """Distances (.., m, n) of vectors x (.., m, k) from vectors y (.., n, k), in the p-norm."""
    modes = (
        "use_mm_for_euclid_dist_if_necessary",
        "use_mm_for_euclid_dist",
        "donot_use_mm_for_euclid_dist",
    )
    assert compute_mode in modes, f"compute_mode should be one of {', '.join(modes)}"
    attrs = {"p": float(p), "compute_mode": compute_mode}
    return op("cdist", {"X": x, "Y": y}, attrs, name=name)
