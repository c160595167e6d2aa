"""Which splits of a day's data each pass of online learning trains on."""

from __future__ import annotations

import re


def pass_intervals(hours: str, interval: int, per_pass: int, *, hourly: bool) -> list[list[str]]:
    """Names of splits, `per_pass` for each pass: HHMM every `interval` minutes, or HH by the hour.

    hours: numbers, or ranges as {0..23}. ValueError for other text, and where an hour is not a
    whole number of intervals.
    """
    chosen = _hours(hours)
    if interval < 1 or per_pass < 1 or 60 % interval:
        raise ValueError(f"60 minutes are no whole number of splits of {interval} minutes")
    step = 60 if hourly else interval
    names = [f"{hour:02d}{minute:02d}" for hour in chosen for minute in range(0, 60, step)]
    names = [name[:2] for name in names] if hourly else names
    return [names[at : at + per_pass] for at in range(0, len(names) - per_pass + 1, per_pass)]


def _hours(text: str) -> list[int]:
    found: list[int] = []
    for word in text.replace(",", " ").split():
        match = re.fullmatch(r"\{(\d+)\.\.(\d+)\}", word)
        if match:
            found += range(int(match[1]), int(match[2]) + 1)
        elif word.isdigit():
            found.append(int(word))
        else:
            raise ValueError(f"hours are numbers, or ranges as {{0..23}}, not {word!r}")
    if any(hour > 23 for hour in found):
        raise ValueError(f"a day has hours 0 to 23: {text!r}")
    return found
