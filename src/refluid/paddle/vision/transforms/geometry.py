"""Where a transformed image takes its elements from, as matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

Matrix = list[float]


def inverse_affine(
    center: Sequence[float],
    angle: float,
    translate: Sequence[float],
    scale: float,
    shear: Sequence[float],
) -> Matrix:
    """Six numbers: x and y in the image of (x, y, 1) in one that is rotated about its centre,

    sheared, scaled and moved. Angles in degrees.
    """
    turn, (sx, sy) = math.radians(angle), map(math.radians, shear)
    a = math.cos(turn - sy) / math.cos(sy)
    b = -math.cos(turn - sy) * math.tan(sx) / math.cos(sy) - math.sin(turn)
    c = math.sin(turn - sy) / math.cos(sy)
    d = -math.sin(turn - sy) * math.tan(sx) / math.cos(sy) + math.cos(turn)
    found = [one / scale for one in (d, -b, 0.0, -c, a, 0.0)]
    x, y = center[0] + translate[0], center[1] + translate[1]
    found[2] += center[0] - found[0] * x - found[1] * y
    found[5] += center[1] - found[3] * x - found[4] * y
    return found


def perspective_matrix(targets: Sequence[Any], sources: Sequence[Any]) -> Matrix:
    """Eight numbers that take four corners of the result to those of the image.

    They are solved for exactly: on which side of an edge a pixel falls must not hang on how a
    processor rounds. ValueError where three corners lie on a line.
    """
    rows: list[list[Fraction]] = []
    for target, source in zip(targets, sources, strict=True):
        x, y, u, v = (Fraction(float(one)) for one in (*target, *source))
        one, zero = Fraction(1), Fraction(0)
        rows.append([x, y, one, zero, zero, zero, -u * x, -u * y, u])
        rows.append([zero, zero, zero, x, y, one, -v * x, -v * y, v])
    return [float(one) for one in _solved(rows)]


def _solved(rows: list[list[Fraction]]) -> list[Fraction]:
    """The solution of equations, each its coefficients and what they add up to."""
    for place in range(len(rows)):
        found = next((row for row in rows[place:] if row[place]), None)
        if found is None:
            raise ValueError("three corners lie on a line: there is no such perspective")
        rows.remove(found)
        rows.insert(place, found)
        lead = [one / found[place] for one in found]
        rows[:] = [
            [one - row[place] * its for one, its in zip(row, lead, strict=True)]
            if number != place
            else lead
            for number, row in enumerate(rows)
        ]
    return [row[-1] for row in rows]


def expanded(width: int, height: int, angle: float, origin: float = 0.5) -> tuple[int, int]:
    """The width and height that hold all corners of an image turned about its middle.

    origin: where elements are counted from: 0.5 is the corner, 0 the middle.
    """
    turn = math.radians(angle)
    across, down = abs(math.cos(turn)), abs(math.sin(turn))
    sizes = (width, across * width + down * height), (height, down * width + across * height)
    return tuple(  # type: ignore[return-value]
        math.ceil(round(size * origin + wanted / 2, 6))
        - math.floor(round(size * origin - wanted / 2, 6))
        for size, wanted in sizes
    )


def size_after(given: Any, width: int, height: int) -> tuple[int, int]:
    """(height, width) of a resized image: a number is meant for the shorter edge."""
    if not isinstance(given, int):
        return int(given[0]), int(given[1])
    if width <= height:
        return int(given * height / width), given
    return given, int(given * width / height)


def borders(padding: Any) -> tuple[int, int, int, int]:
    """Left, top, right and bottom of what is padded by one number, two or four."""
    if isinstance(padding, int):
        return padding, padding, padding, padding
    if len(padding) == 2:
        left, top = padding
        return left, top, left, top
    left, top, right, bottom = padding
    return left, top, right, bottom
