"""Calls that reduce rows by numbers, and send messages along the edges of graphs."""

from tests.paddle.two.cases import Call, c, f, i, numbered

_HOW = ["sum", "mean", "max", "min"]
_JOINED = ["add", "sub", "mul", "div"]
_EDGES = (i(9), i(9))


def _segments(module: str, how: str) -> list[Call]:
    name = f"{module}.segment_{how}"
    few, none = i(7, high=4, kind="ordered"), i(7, low=2, high=7, kind="ordered")
    return [
        c(name, f(7, 3), few),
        c(name, f(7), none),
        c(name, f(7, 2, 3), none),
        c(name, i(7, 3), few),  # whole numbers
        c(name, f(1, 3), i(1, high=4, kind="ordered")),
    ]


GEOMETRIC = [
    *(one for how in _HOW for one in _segments("geometric", how)),
    *(one for how in _HOW for one in _segments("incubate", how)),
    *(c("geometric.send_u_recv", f(5, 3), *_EDGES, how) for how in _HOW),
    *(c("geometric.send_u_recv", f(5, 2, 3), *_EDGES, how, 8) for how in _HOW),
    *(c("geometric.send_u_recv", f(5), *_EDGES, how) for how in _HOW),
    *(c("geometric.send_u_recv", i(5, 3), *_EDGES, how, 6) for how in _HOW),
    *(c("incubate.graph_send_recv", f(5, 3), *_EDGES, how) for how in _HOW),
    *(
        c("geometric.send_ue_recv", f(5, 3), f(9, 3, low=0.5), *_EDGES, join, how)
        for join in _JOINED
        for how in _HOW
    ),
    *(c("geometric.send_ue_recv", f(5, 3), f(9, 1, low=0.5), *_EDGES, one) for one in _JOINED),
    *(c("geometric.send_ue_recv", f(5, 1), f(9, 4), *_EDGES, one, "max", 7) for one in _JOINED[:3]),
    *(c("geometric.send_uv", f(5, 3), f(5, 3, low=0.5), *_EDGES, one) for one in _JOINED),
    *(c("geometric.send_uv", f(5, 1, 3), f(5, 4, 1, low=0.5), *_EDGES, one) for one in _JOINED),
]
MASKED = [
    c("incubate.softmax_mask_fuse", f(2, 2, 8, 32), f(2, 1, 8, 32, fixed=True)),
    c("incubate.softmax_mask_fuse_upper_triangle", f(2, 2, 32, 32)),
    *(c("incubate.identity_loss", f(3, 4), one) for one in ("none", "mean", "sum", 0, 1, 2)),
]
CASES = numbered([*GEOMETRIC, *MASKED])
