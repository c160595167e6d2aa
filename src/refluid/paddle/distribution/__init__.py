"""`paddle.distribution`: distributions with their moments, densities, entropies and samples."""

from refluid.paddle.naming import name_table

name_table(
    __name__,
    """
    refluid.paddle.distribution.base: Distribution ExponentialFamily
    refluid.paddle.distribution.bounded: Beta Dirichlet Uniform
    refluid.paddle.distribution.derived: Independent TransformedDistribution
    refluid.paddle.distribution.composed: ChainTransform IndependentTransform ReshapeTransform
    refluid.paddle.distribution.composed: StackTransform
    refluid.paddle.distribution.maps: AbsTransform AffineTransform ExpTransform PowerTransform
    refluid.paddle.distribution.maps: SigmoidTransform SoftmaxTransform StickBreakingTransform
    refluid.paddle.distribution.maps: TanhTransform
    refluid.paddle.distribution.transform: Transform
    refluid.paddle.distribution.discrete: Bernoulli Categorical Geometric Multinomial
    refluid.paddle.distribution.divergences: kl_divergence register_kl
    refluid.paddle.distribution.unbounded: Cauchy Gumbel Laplace LogNormal Normal
    """,
)
