"""`paddle.distribution`: distributions with their moments, densities, entropies and samples."""

from refluid.paddle.naming import name_table

name_table(
    __name__,
    """
    refluid.paddle.distribution.base: Distribution ExponentialFamily
    refluid.paddle.distribution.bounded: Beta Dirichlet Uniform
    refluid.paddle.distribution.discrete: Bernoulli Categorical Geometric Multinomial
    refluid.paddle.distribution.divergences: kl_divergence register_kl
    refluid.paddle.distribution.unbounded: Cauchy Gumbel Laplace LogNormal Normal
    """,
)
