"""The script of each side, and with the extra `check` its language.

A side has the script of most of its letters in the first examples, unless its language is given. A text most of whose
letters are of another script is of another language, or of the other side.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence

from regard.errors import RegardError

SCRIPTS = {
    "Latin": r"A-Za-z\u00aa\u00ba\u00c0-\u024f\u1e00-\u1eff",
    "Greek": r"\u0370-\u03ff\u1f00-\u1fff",
    "Cyrillic": r"\u0400-\u052f",
    "Armenian": r"\u0530-\u058f",
    "Hebrew": r"\u0590-\u05ff",
    "Arabic": r"\u0600-\u06ff\u0750-\u077f\u08a0-\u08ff",
    "Devanagari": r"\u0900-\u097f",
    "Bengali": r"\u0980-\u09ff",
    "Tamil": r"\u0b80-\u0bff",
    "Thai": r"\u0e00-\u0e7f",
    "Georgian": r"\u10a0-\u10ff",
    "Ethiopic": r"\u1200-\u137f",
    "Hangul": r"\u1100-\u11ff\uac00-\ud7af",
    "Han and Kana": r"\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff",
}
_LETTERS = {name: re.compile(f"[{letters}]") for name, letters in SCRIPTS.items()}
_OTHERS = {name: re.compile(f"[{''.join(SCRIPTS[each] for each in SCRIPTS if each != name)}]") for name in SCRIPTS}
FEWEST = 5  # letters of another script in a text of that script
SURE = 0.9  # of the probability, for a language that was not expected
LONG_ENOUGH = 40  # characters of a text whose language can be told


def script_of(texts: Sequence[str]) -> str | None:
    """The script that most letters of these texts have; None if there are no letters."""
    together = "".join(texts)
    counts = Counter({name: len(find.findall(together)) for name, find in _LETTERS.items()})
    name, count = counts.most_common(1)[0]
    return name if count else None


def is_other_script(text: str, script: str) -> bool:
    """Whether more letters are of other scripts than of this one."""
    others = len(_OTHERS[script].findall(text))
    return others >= FEWEST and others > len(_LETTERS[script].findall(text))


def identifier(languages: Sequence[str]) -> Callable[[str], str]:
    """A function that tells which of all languages a text has, or "" where it is not sure; one side each.

    It needs py3langid, of the extra `check`.
    """
    try:
        from py3langid.langid import MODEL_FILE, LanguageIdentifier
    except ImportError:
        raise RegardError(
            "languages are told apart by py3langid, which is not installed; install it with: pip install regard[check]"
        ) from None
    known = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    for language in languages:
        if language not in known.nb_classes:
            raise RegardError(f"py3langid does not know the language {language!r}; give codes such as en, de, fr")

    def told(text: str) -> str:
        language, probability = known.classify(text)
        return str(language) if len(text) >= LONG_ENOUGH and probability >= SURE else ""

    return told
