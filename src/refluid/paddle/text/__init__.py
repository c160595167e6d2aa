"""`paddle.text`: tags of sequences."""

from refluid.paddle.naming import name_table

name_table(
    __name__,
    """
    refluid.paddle.text.tagging: ViterbiDecoder viterbi_decode
    """,
)
