"""Messages that fit on a screen, whatever values they quote."""

from __future__ import annotations

LONGEST_LINE = 400
MOST_LINES = 60


def shortened(text: str, longest: int = LONGEST_LINE) -> str:
    """The text itself, or its beginning and its end with the number of characters between."""
    if len(text) <= longest:
        return text
    end = longest // 4
    begin = longest - end - 40
    return f"{text[:begin]} ... {len(text) - begin - end} characters ... {text[-end:]}"


def screenful(text: str) -> str:
    """The text with its long lines shortened, and of many lines the first and last ones."""
    if len(text) <= LONGEST_LINE:
        return text
    lines = [shortened(line) for line in text.split("\n")]
    if len(lines) > MOST_LINES:
        half = MOST_LINES // 2
        gone = len(lines) - 2 * half
        lines = [*lines[:half], f"... {gone} lines ...", *lines[-half:]]
    return "\n".join(lines)


def shorten_causes(error: BaseException) -> None:
    """Makes the messages of an error and of what it follows from fit on a screen."""
    cause: BaseException | None = error
    while cause is not None:
        if len(cause.args) == 1 and isinstance(cause.args[0], str):
            cause.args = (screenful(cause.args[0]),)
        cause = cause.__cause__ or cause.__context__
