"""What a user can put right."""

import difflib
import reprlib
from collections.abc import Iterable

LONGEST = 200  # characters of somebody's text that an error repeats
NEAR = 0.5  # share of equal letters from which on a known name is suggested for an unknown one

_BRIEF = reprlib.Repr()
_BRIEF.maxstring = _BRIEF.maxlong = _BRIEF.maxother = LONGEST


class RegardError(ValueError):
    """Wrong input, with a sentence that says what is wrong, where, and what to do.

    The command line prints the sentence on one line and ends with exit code 2.
    """


class CutWarning(UserWarning):
    """A part of an input is not read, because it is longer than what a model reads."""


def listed(names: Iterable[str], *, most: int = 8) -> str:
    """Names for a sentence, in order: "a, b", or of more than `most` the first and how many more."""
    names = sorted(names)
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def cut(text: object, *, most: int = LONGEST) -> str:
    """Somebody's text for a sentence: on one line, and cut where it is long."""
    plain = " ".join(str(text).split())
    return plain if len(plain) <= most else plain[: most - 1] + "…"


def shown(value: object, *, most: int = LONGEST) -> str:
    """A value for a sentence as Python writes it, cut where it is long or deeply nested."""
    return cut(_BRIEF.repr(value), most=most)


def unknown_name(what: str, name: str, known: Iterable[str]) -> RegardError:
    """The error for a name that is not among those known, with the nearest of them if one is near."""
    names = list(known)
    near = difflib.get_close_matches(name.lower()[:80], names, n=1, cutoff=NEAR)
    known_names = f"here are {', '.join(names)}"
    said = f"did you mean {near[0]!r}? T{known_names}" if near else f"t{known_names}"
    return RegardError(f"{what} {shown(name)} is unknown; {said}")
