"""`paddle.linalg`: linear algebra."""

from refluid.paddle.naming import name_table

name_table(
    __name__,
    """
    refluid.paddle.tensor.linalg: cholesky det inv=inverse matmul matrix_power multi_dot norm solve
    """,
)
