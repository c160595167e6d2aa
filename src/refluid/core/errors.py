"""Error types of Fluid's core, so that `except core.EnforceNotMet` of a script keeps working."""

from __future__ import annotations

from refluid.core.texts import screenful


class EnforceNotMet(Exception):
    """A condition of the runtime does not hold: bad input, missing variable, failing operator.

    Its message fits on a screen, whatever values it quotes.
    """

    def __init__(self, *args: object) -> None:
        super().__init__(*(screenful(one) if isinstance(one, str) else one for one in args))


class EOFException(Exception):
    """A reader has no more data; call `reset()` on it before the next epoch."""


class OperatorNotImplemented(EnforceNotMet):
    """A program asks for an operator that refluid does not have."""


class OutOfBounds(EnforceNotMet, ValueError):
    """A number is too small or too large: what Fluid's core refuses, and Python's word for it."""


class NothingReached(EnforceNotMet, ValueError):
    """A gradient by a variable that the result doesn't depend on."""


def no_second_gradient(type: str) -> str:
    """What there is to say of a gradient operator whose gradient is wanted, and isn't there."""
    return (
        f"operator {type} has no gradient: a loss that depends on a gradient through "
        f"{type.removesuffix('_grad')} can't be differentiated"
    )


class GraphFreed(EnforceNotMet, RuntimeError):
    """Gradients were computed from these results before, and what that takes wasn't kept."""


def explain_freed(error: RuntimeError, call: str) -> None:
    """Raises GraphFreed where torch says so in that error, of a call of the user."""
    if "a second time" in str(error):
        raise GraphFreed(
            f"{call}: gradients were computed from these results before, and what that takes was "
            "freed; compute the results anew for each backward pass, or pass retain_graph=True to "
            "the earlier one"
        ) from error
    if "derivative for" in str(error) or "modified by an inplace" in str(error):
        raise OperatorNotImplemented(
            f"{call}: a gradient of a gradient leads through an operator whose gradient has none "
            f"({error})"
        ) from error


class PeerFailed(Exception):
    """Another replica failed, so this one can't go on; the other's error says why."""
