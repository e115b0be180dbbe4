"""Rules on one text. Each finds a defect; most know how to mend it, and where they do not the example is dropped."""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass

from regard.doctor import block
from regard.doctor.report import Outcome


@dataclass(frozen=True)
class TextRule:
    """A defect of one text. `needs` are flags of `block`, of which a text with the defect has at least one."""

    name: str
    about: str
    needs: int
    finds: Callable[[str], object]
    mends: Callable[[str], str] | None = None
    outcome: Outcome = "dropped"  # if nothing mends it

    def mended(self, text: str) -> str | None:
        """The text without the defect; None if it cannot be mended."""
        found = None if self.mends is None else self.mends(text)
        return None if found is None or self.finds(found) else found


def _search(pattern: str, flags: int = 0) -> Callable[[str], object]:
    return re.compile(pattern, flags).search


def _replace(pattern: str, by: str | Callable[[re.Match[str]], str]) -> Callable[[str], str]:
    compiled = re.compile(pattern)
    return lambda text: compiled.sub(by, text)


_CJK = re.compile(r"[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff]")
_LINES = r"[\x0b\x0c\x1c-\x1e\x85\u2028\u2029\r]"
_INVISIBLE = r"[\u200b\u2060-\u2064\u00ad\u202a-\u202e]"
_ODD_SPACE = r"[\u1680\u2000-\u2008\u200a\u205f]"
_TAG = r"</?[a-zA-Z][a-zA-Z0-9]*(?:\s[^<>]{0,300})?/?>|<!--.*?-->"
_ENTITY = r"&(?:#\d{1,6}|#x[0-9a-fA-F]{1,5}|[a-zA-Z][a-zA-Z0-9]{1,9});"
_ESCAPE = r"\\(?:[nrt\"'/\\]|u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2})"
_ESCAPED = {"n": " ", "r": " ", "t": " "}
# what the first byte of a character of UTF-8 becomes as Latin, before what its next byte becomes in Windows-1252
_MOJIBAKE = r"[ÃÂÐÑÅÄ][\x80-\xbf€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ]|â€|ï¿½|ðŸ"
_CODE = (
    r"\bfunction\s*\w*\(|#include\s*[<\"]|\b(?:var|let|const)\s+\w+\s*=|\bpublic\s+(?:static|class|void)\b|\)\s*=>"
    r"|\(\)\s*[{;]|<\?php"
)


def _is_wide(text: str) -> bool:
    """Whether a text has ligatures, or letters of double width outside of texts in Chinese, Japanese or Korean."""
    return bool(re.search(r"[\ufb00-\ufb06]", text) or (re.search(r"[\uff10-\uff5a]", text) and not _CJK.search(text)))


def _to_plain_forms(text: str) -> str:
    return re.sub(r"[\ufb00-\ufb06\uff01-\uff5e]", lambda found: unicodedata.normalize("NFKC", found[0]), text)


def _decoded_again(text: str) -> str:
    """A text that was UTF-8 and was read as Windows-1252, or the same text if it was not."""
    try:
        return b"".join(map(_as_windows, text)).decode()
    except UnicodeError:
        return text


def _as_windows(character: str) -> bytes:
    """The byte of a character in Windows-1252, which leaves five bytes without a character."""
    return character.encode("latin-1" if character in "\x81\x8d\x8f\x90\x9d" else "cp1252")


def _unescaped(found: re.Match[str]) -> str:
    escape = found[0][1:]
    if len(escape) > 1:
        return chr(int(escape[1:], 16))
    return _ESCAPED.get(escape, escape)


def _stutters(text: str) -> bool:
    """Whether a word stands three times in a row."""
    words = text.casefold().split()
    same = (a == b == c and any(map(str.isalnum, a)) for a, b, c in zip(words, words[1:], words[2:], strict=False))
    return any(same)


def _has_long_word(text: str) -> bool:
    words = (word for word in text.split() if len(word) >= block.LONG_WORD)
    return any(not _CJK.search(word) and "://" not in word and "www." not in word for word in words)


TEXT_RULES = (
    TextRule(
        "mojibake",
        "UTF-8 that was read as Windows-1252",
        block.ODD,
        _search(_MOJIBAKE),
        _decoded_again,
    ),
    TextRule("NUL", "NUL characters", block.CONTROL, lambda text: "\0" in text, lambda text: text.replace("\0", "")),
    TextRule(
        "line separators",
        "characters that some programs take for the end of a line",
        block.CONTROL | block.ODD,
        _search(_LINES),
        _replace(rf"\s*{_LINES}\s*", " "),
    ),
    TextRule(
        "control characters",
        "control characters",
        block.CONTROL | block.ODD,
        _search(r"[\x01-\x08\x0e-\x1b\x1f\x7f-\x84\x86-\x9f]"),
        _replace(r"[\x01-\x08\x0e-\x1b\x1f\x7f-\x84\x86-\x9f]", ""),
    ),
    TextRule(
        "byte-order mark",
        "a byte-order mark inside the text",
        block.ODD,
        lambda text: "\ufeff" in text,
        lambda text: text.replace("\ufeff", ""),
    ),
    TextRule("replacement character", "a character that was lost", block.ODD, lambda text: "\ufffd" in text),
    TextRule("private characters", "characters of private use", block.ODD, _search(r"[\ue000-\uf8ff\ud800-\udfff]")),
    TextRule("invisible characters", "invisible characters", block.ODD, _search(_INVISIBLE), _replace(_INVISIBLE, "")),
    TextRule("odd spaces", "spaces of odd widths", block.ODD, _search(_ODD_SPACE), _replace(_ODD_SPACE, " ")),
    TextRule(
        "Unicode form",
        "letters and accents that are not composed (not NFC)",
        block.ODD,
        lambda text: not unicodedata.is_normalized("NFC", text),
        lambda text: unicodedata.normalize("NFC", text),
    ),
    TextRule(
        "compatibility characters",
        "ligatures, or letters of double width",
        block.ODD,
        _is_wide,
        _to_plain_forms,
    ),
    TextRule("HTML entities", "HTML entities", block.AMPERSAND, _search(_ENTITY), html.unescape),
    TextRule("HTML tags", "HTML tags", block.ANGLE, _search(_TAG), _replace(_TAG, "")),
    TextRule("escapes", "backslash escapes", block.BACKSLASH, _search(_ESCAPE), _replace(_ESCAPE, _unescaped)),
    TextRule(
        "joiners", "marks of a tokeniser: @-@", block.AT, _search(r" @[-/,.:]@ "), _replace(r" @([-/,.:])@ ", r"\1")
    ),
    TextRule(
        "subword marks",
        "marks of subwords: @@ or ▁",
        block.AT | block.ODD,
        _search(r"@@(?: |$)|▁"),
        lambda text: re.sub(r"@@(?: |$)", "", text).replace(" ", "" if "▁" in text else " ").replace("▁", " ").strip(),
    ),
    TextRule(
        "tokenised text",
        "a space before a full stop, a comma or n't",
        block.SPACED,
        _search(r"\w [.,](?= |$)|\w n't\b|\w '(?:s|re|ll|ve|m)\b"),
        _replace(r"(?<=\w) (?=[.,](?: |$)|n't\b|'(?:s|re|ll|ve|m)\b)", ""),
    ),
    TextRule(
        "wiki markup", "wiki markup or footnotes", block.BRACE, _search(r"\[\[|\]\]|={2,}[^=]+={2,}|\w\[\d{1,3}\]")
    ),
    TextRule("code", "program code", block.BRACE | block.ANGLE, _search(_CODE)),
    TextRule("repeated words", "a word three times in a row", block.STUTTER, _stutters),
    TextRule(
        "repeated characters", "a character eight times in a row", block.RUN, _search(r"(\S)\1{7,}"), outcome="kept"
    ),
    TextRule("long word", f"a word of {block.LONG_WORD} letters or more", block.STRETCH, _has_long_word),
    TextRule(
        "repeated spaces",
        "several spaces in a row",
        block.SPACES,
        lambda text: "  " in text,
        _replace(" {2,}", " "),
    ),
)
