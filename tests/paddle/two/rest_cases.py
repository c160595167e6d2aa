"""Calls of functions that no other module of cases has."""

from tests.paddle.two.cases import b, c, f, i, numbered

CASES = numbered(
    [
        c("diag_embed", f(2, 3)),
        c("diag_embed", f(2, 3), offset=1),
        c("diag_embed", f(2, 3), offset=-2, dim1=0, dim2=2),
        c("masked_fill", f(3, 4), b(3, 4), 0.5),
        c("masked_fill", f(3, 4), b(4), -2.0),
        c("linalg.inv", f(4, 4)),
        c("linalg.inv", f(2, 3, 3)),
        c("nn.functional.cosine_embedding_loss", f(3, 4), f(3, 4), i(3, high=2)),
        c("nn.functional.cosine_embedding_loss", f(3, 4), f(3, 4), i(3, high=2), 0.3, "sum"),
        c(
            "nn.functional.ctc_loss",
            f(7, 2, 5),
            i(2, 3, low=1, kind="int32"),
            i(2, low=6, high=8),
            i(2, low=1, high=4),
        ),
        c(
            "nn.functional.ctc_loss",
            f(7, 2, 5),
            i(2, 3, low=1, kind="int32"),
            i(2, low=7, high=8),
            i(2, low=2, high=4),
            reduction="none",
        ),
        c("nn.functional.gather_tree", i(4, 2, 3), i(4, 2, 3, high=3)),
        c("nn.functional.triplet_margin_with_distance_loss", f(3, 4), f(3, 4), f(3, 4)),
        c(
            "nn.functional.triplet_margin_with_distance_loss",
            f(3, 4),
            f(3, 4),
            f(3, 4),
            margin=2.0,
            swap=True,
            reduction="none",
        ),
        c("nn.functional.hardtanh", f(3, 4), -0.5, 0.7),
        c("nn.functional.max_unpool2d", f(1, 2, 2, 2), i(1, 2, 2, 2, high=16, kind="int32"), 2),
        c("nn.functional.max_unpool1d", f(1, 2, 3), i(1, 2, 3, high=6, kind="int32"), 2),
        c(
            "nn.functional.max_unpool3d",
            f(1, 1, 2, 2, 2),
            i(1, 1, 2, 2, 2, high=64, kind="int32"),
            2,
        ),
        c("broadcast_to", f(1, 4), [3, 4]),
        c("text.viterbi_decode", f(3, 5, 4), f(4, 4), i(3, low=1, high=6), False),
        c("text.viterbi_decode", f(3, 5, 4), f(4, 4), i(3, low=1, high=6)),
        c("text.viterbi_decode", f(1, 1, 3), f(3, 3), i(1, low=1, high=2)),
        c("text.viterbi_decode", f(2, 6, 5), f(5, 5), i(2, low=1, high=4)),
    ]
)
