"""Times as texts and numbers, and back."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy
from numpy.typing import NDArray

from regard.errors import RegardError, shown

Times = NDArray[numpy.datetime64]  # in seconds
Steps = NDArray[numpy.int64]

FORMS = "1949, 1949-01, 1949-01-31, 1949/01/31, 1949Q1, 19490131 or 1949-01-31 12:00 (UTC with Z or +00:00)"
_WHOLE = re.compile(r"[+-]?\d{1,15}")
_DAY = re.compile(r"(\d{4})(\d{2})(\d{2})")
_QUARTER = re.compile(r"(\d{4})-?[Qq]([1-4])")
_DATE = re.compile(
    r"(\d{4})[-/](\d{1,2})(?:[-/](\d{1,2}))?(?:[ T](\d{1,2}):(\d{2})(?::(\d{2})(?:\.0+)?)?)?(?:Z|[+-]00:?00)?"
)
_ZONE = re.compile(r"(?:Z|[+-]00:?00)$")


def parse(texts: Sequence[str], places: Sequence[str]) -> Times | Steps:
    """The times that texts stand for: whole numbers if all are, otherwise dates. `places` are named in errors.

    Numbers of eight digits that are all dates, such as 19490131, are dates. All times state UTC, or none does.
    """
    plain = [text.strip() for text in texts]
    if all(map(_WHOLE.fullmatch, plain)) and not _are_days(plain):
        return numpy.array(plain, dtype=numpy.int64)
    found = [moment(text, place) for text, place in zip(plain, places, strict=True)]
    zoned = [_ZONE.search(text) is not None for text in plain]
    if any(zoned) and not all(zoned):
        at = zoned.index(not zoned[0])
        raise RegardError(
            f"{places[at]} has the time {shown(plain[at])} and {places[0]} has {shown(plain[0])}: one of them states a "
            "time zone; write all times alike"
        )
    return numpy.array(found, "datetime64[s]")


def is_date(text: str) -> bool:
    """Whether a text is a date; a whole number is one only if it has eight digits."""
    plain = text.strip()
    return _iso(plain) is not None and not (_WHOLE.fullmatch(plain) and not _are_days([plain]))


def _are_days(texts: Sequence[str]) -> bool:
    return all(_DAY.fullmatch(text) and _iso(text) is not None for text in texts)


def moment(text: str, place: str) -> numpy.datetime64:
    """The time that a text stands for; a year is its first day."""
    found = _iso(text)
    if found is None:
        raise RegardError(f"{place} has the time {shown(text)}, which is not one of the forms {FORMS}")
    return found


def _iso(text: str) -> numpy.datetime64 | None:
    """The time of a text in one of the forms; None if there is none, as on 30 February."""
    if found := _QUARTER.fullmatch(text):
        parts = [found[1], str(3 * int(found[2]) - 2)]
    elif found := _DAY.fullmatch(text) or _DATE.fullmatch(text):
        parts = [part or "" for part in found.groups()]
    elif re.fullmatch(r"\d{4}", text):
        parts = [text]
    else:
        return None
    year, month, day, hour, minute, second, *_ = [*parts, "", "", "", "", "", ""]
    clock = f"{int(hour or 0):02}:{int(minute or 0):02}:{int(second or 0):02}"
    try:
        return numpy.datetime64(f"{year}-{int(month or 1):02}-{int(day or 1):02}T{clock}", "s")
    except ValueError:
        return None
