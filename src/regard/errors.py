"""What a user can put right."""

import difflib
from collections.abc import Iterable


class RegardError(ValueError):
    """Wrong input, with a sentence that says what is wrong, where, and what to do.

    The command line prints the sentence on one line and ends with exit code 2.
    """


def listed(names: Iterable[str], *, most: int = 8) -> str:
    """Names for a sentence, in order: "a, b", or of more than `most` the first and how many more."""
    names = sorted(names)
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def shown(value: object, *, most: int = 80) -> str:
    """A value for a sentence: what Python writes for it, cut where it is long."""
    text = repr(value)
    return text if len(text) <= most else f"{text[:most]}…"


def unknown_name(what: str, name: str, known: Iterable[str]) -> RegardError:
    """The error for a name that is not among those known, with the nearest that is."""
    names = list(known)
    (nearest,) = difflib.get_close_matches(name.lower()[:80], names, n=1, cutoff=0.0)
    return RegardError(f"{what} {shown(name)} is unknown; did you mean {nearest!r}? There are {', '.join(names)}")
