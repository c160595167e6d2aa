"""`paddle.linalg`: linear algebra."""

from refluid.paddle.naming import name_table

name_table(
    __name__,
    """
    refluid.paddle.tensor.matrices: cholesky_solve cond corrcoef cov eigh eigvalsh
    refluid.paddle.tensor.matrices: householder_product lstsq lu lu_unpack matrix_rank pca_lowrank
    refluid.paddle.tensor.matrices: pinv qr slogdet svd triangular_solve
    refluid.paddle.tensor.complexes: eig eigvals
    refluid.paddle.tensor.linalg: cholesky det inv=inverse matmul matrix_power multi_dot norm solve
    """,
)
