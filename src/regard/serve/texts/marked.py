"""A text with marks that are not translated, and its translation with the same marks.

An element (<b>…</b>) surrounds what the words in it became. A fixed mark is put where its own words stood, or where the
model has copied them: a placeholder, a name that is kept, a term with a given rendering, an empty element. The places
come from the words that the model looked at (the alignment); without one, from the order of the words.

Every fixed mark is in the translation exactly once, whatever the model says.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

from regard.serve.texts.sentences import edges

WORD = re.compile(r"\S+")
CORE = re.compile(r"\w.*\w|\w", re.DOTALL)
UNSPACED = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")
PLACEHOLDER = re.compile(r"\{\{.*?\}\}|\$\{[^{}\s]+\}|\{[A-Za-z0-9_.]*\}|%\([A-Za-z0-9_]+\)[a-z]", re.DOTALL)
KEEP = re.compile(r"<keep>(.*?)</keep>", re.DOTALL | re.IGNORECASE)

Link = tuple[int, int]  # number of a source word, number of a word of the answer
Stack = tuple[int, ...]  # the elements around a character, outermost first, by number


def as_is(text: str) -> str:
    return text


@dataclass(frozen=True)
class Mark:
    """A part of a text, in characters: an element with what stands before and after it, or fixed as it is written."""

    start: int
    end: int
    before: str = ""
    after: str = ""
    fixed: str | None = None
    plain: str = ""  # what a model says that renders a fixed mark well

    def moved(self, by: int) -> Mark:
        return replace(self, start=self.start + by, end=self.end + by)


@dataclass(frozen=True)
class Marked:
    """A text with its marks: an element comes before the marks in it. `escape` writes text beside marks."""

    text: str
    marks: tuple[Mark, ...] = ()
    escape: Callable[[str], str] = field(default=as_is, compare=False)

    @property
    def has_letters(self) -> bool:
        """Whether there is something to translate outside the fixed marks."""
        if not self.marks:
            return any(map(str.isalpha, self.text))
        taken = self._taken()
        return any(character.isalpha() and not taken[place] for place, character in enumerate(self.text))

    def _taken(self) -> bytearray:
        """1 for each character that is in a fixed mark."""
        found = bytearray(len(self.text))
        for mark in self.marks:
            if mark.fixed is not None:
                found[mark.start : mark.end] = b"\1" * (mark.end - mark.start)
        return found

    def fixing(self, pattern: re.Pattern[str], said: Callable[[str], str]) -> Marked:
        """What matches a pattern as fixed marks, where there are none yet."""
        taken = self._taken()
        more = [
            Mark(match.start(), match.end(), fixed=self.escape(said(match[0])), plain=said(match[0]))
            for match in pattern.finditer(self.text)
            if match[0] and not any(taken[match.start() : match.end()])
        ]
        crossing = [mark for mark in more if self._crosses(mark)] if self.marks else []
        marks = sorted([*self.marks, *(m for m in more if m not in crossing)], key=lambda m: (m.start, -m.end))
        return replace(self, marks=tuple(marks)) if more else self

    def _crosses(self, new: Mark) -> bool:
        """Whether an element begins or ends inside."""
        return any(
            mark.fixed is None and (new.start < mark.start < new.end or new.start < mark.end < new.end)
            for mark in self.marks
        )

    def unchanged(self) -> str:
        """The text with its marks as they were."""
        words = len(self.text.split())
        return self.rendered(self.text, [(number, number) for number in range(words)])

    def with_terms(self, glossary: Mapping[str, str]) -> Marked:
        """The terms of a glossary as fixed marks, where they are whole words outside of other fixed marks."""
        if not glossary:
            return self
        longest = sorted(filter(None, glossary), key=len, reverse=True)
        pattern = re.compile("|".join(rf"(?<!\w){re.escape(term)}(?!\w)" for term in longest))
        return self.fixing(pattern, glossary.__getitem__)

    def part(self, start: int, end: int) -> Marked:
        """The characters from start to end. Elements are cut; a mark without characters belongs to what follows it."""
        last = end == len(self.text)
        inside = [
            replace(mark, start=max(mark.start, start), end=min(mark.end, end)).moved(-start)
            for mark in self.marks
            if (mark.start < end and start < mark.end) or (mark.start == mark.end and _within(mark, start, end, last))
        ]
        return replace(self, text=self.text[start:end], marks=tuple(inside))

    def cuts(self, start: int) -> bool:
        """Whether a part that begins here would cut a fixed mark."""
        return any(mark.fixed is not None and mark.start < start < mark.end for mark in self.marks)

    def rendered(self, answer: str, alignment: Iterable[Sequence[int]] | None = None) -> str:
        """The translation of the text, with the marks, and with the white space that was around it."""
        before, inner, after = edges(self.text)
        answer = f"{before}{answer.strip()}{after}" if inner else self.text
        if not self.marks:
            return self.escape(answer)
        return _Rendering(self, answer, alignment).written()


def plain(text: str) -> Marked:
    """A text in which placeholders and <keep>…</keep> are fixed; the tags themselves are left out."""
    found, marks, at = "", list[Mark](), 0
    for match in KEEP.finditer(text):
        found += text[at : match.start()]
        marks.append(Mark(len(found), len(found) + len(match[1]), fixed=match[1], plain=match[1]))
        found += match[1]
        at = match.end()
    found += text[at:]
    return Marked(found, tuple(marks)).fixing(PLACEHOLDER, as_is)


def _within(mark: Mark, start: int, end: int, last: bool) -> bool:
    return start <= mark.start < end or (last and mark.start == end)


@dataclass(frozen=True)
class _Placed:
    """A fixed mark in the answer, in place of the characters from start to end."""

    start: int
    end: int
    mark: int
    text: str


class _Rendering:
    """How one answer is written with the marks of its source."""

    def __init__(self, marked: Marked, answer: str, alignment: Iterable[Sequence[int]] | None) -> None:
        self.marked, self.marks, self.answer = marked, marked.marks, answer
        unspaced = bool(UNSPACED.search(marked.text) or UNSPACED.search(answer))
        self.aligned = alignment is not None and not unspaced
        self.words = _words(marked.text, unspaced=unspaced)
        self.said = _words(answer, unspaced=unspaced)
        self.links = self._links(alignment if self.aligned and alignment is not None else ())
        self.around, self.at = self._elements()

    def _links(self, alignment: Iterable[Sequence[int]]) -> list[int]:
        """The source word of each word of the answer."""
        sources, targets = len(self.words), len(self.said)
        found = {target: source for source, target in alignment if source < sources and target < targets}
        return [found.get(target, target * sources // targets) for target in range(targets)]

    def _elements(self) -> tuple[list[Stack], list[Stack]]:
        """The elements around each mark, itself included if it is one, and around each character of the source."""
        around, at = list[Stack](), list[Stack]()
        now: Stack = ()
        for number, mark in enumerate(self.marks):
            now = self._until(mark.start, now, at)
            while now and self.marks[now[-1]].end < mark.end:
                now = now[:-1]
            now = now if mark.fixed is not None else (*now, number)
            around.append(now)
        self._until(len(self.marked.text), now, at)
        return around, at

    def _until(self, place: int, now: Stack, at: list[Stack]) -> Stack:
        """Go on to a character of the source; the elements that are still open there."""
        while now and (end := self.marks[now[-1]].end) <= place:
            at += [now] * (end - len(at))
            now = now[:-1]
        at += [now] * (place - len(at))
        return now

    def written(self) -> str:
        stacks = self._stacks()
        pieces: list[tuple[str, Stack]] = []
        at = 0
        for placed in self._placed():
            pieces += self._plain(at, placed.start, stacks)
            pieces.append((placed.text, self.around[placed.mark]))
            at = placed.end
        pieces += self._plain(at, len(self.answer), stacks)
        return self._nested(self._with_lost(pieces))

    def _plain(self, start: int, end: int, stacks: Sequence[Stack]) -> list[tuple[str, Stack]]:
        """The characters of the answer from start to end, each with its elements."""
        runs = groupby(range(start, end), key=lambda place: stacks[place])
        return [(self.marked.escape("".join(self.answer[place] for place in run)), stack) for stack, run in runs]

    def _nested(self, pieces: Sequence[tuple[str, Stack]]) -> str:
        """Pieces with their elements opened before and closed after them."""
        found, open_now = list[str](), list[int]()
        for text, stack in [*pieces, ("", ())]:
            while open_now and tuple(open_now) != stack[: len(open_now)]:
                found.append(self.marks[open_now.pop()].after)
            for number in stack[len(open_now) :]:
                found.append(self.marks[number].before)
                open_now.append(number)
            found.append(text)
        return "".join(found)

    def _with_lost(self, pieces: list[tuple[str, Stack]]) -> list[tuple[str, Stack]]:
        """Elements whose words became no word surround nothing, where they would have stood."""
        used = {number for _, stack in pieces for number in stack}
        for number, mark in enumerate(self.marks):
            if mark.fixed is None and number not in used:
                used.update(self.around[number])
                place = len(pieces) * mark.start // max(len(self.marked.text), 1)
                pieces.insert(place, ("", self.around[number]))
        return pieces

    # elements

    def _stacks(self) -> list[Stack]:
        """The elements around each character of the answer: those around the source word that was looked at.

        White space, and punctuation that the source word does not have, is in the elements that both its neighbours
        are in.
        """
        found: list[Stack | None] = [None] * len(self.answer)
        for (start, end), source in zip(self.said, self.links, strict=True):
            if not self.words:
                break
            inner = CORE.search(self.answer, start, end)
            begin, after = inner.span() if inner else (start, end)
            first, core, last = self._of_word(*self.words[source])
            found[start:begin] = [first] * (begin - start)
            found[begin:after] = [core] * (after - begin)
            found[after:end] = [last] * (end - after)
        return _filled(found, first=self.at[0] if self.at else (), last=self.at[-1] if self.at else ())

    def _of_word(self, start: int, end: int) -> tuple[Stack | None, Stack, Stack | None]:
        """The elements around the punctuation before a source word, around its letters, and around what follows."""
        inner = CORE.search(self.marked.text, start, end)
        begin, after = inner.span() if inner else (start, end)
        return (self.at[start] if start < begin else None, self.at[begin], self.at[end - 1] if after < end else None)

    # fixed marks

    def _placed(self) -> list[_Placed]:
        """Where each fixed mark stands in the answer, in order."""
        copied = self._copied()
        taken = [(placed.start, placed.end) for placed in copied.values()]
        found: list[_Placed] = []
        for number, mark in enumerate(self.marks):
            if mark.fixed is None:
                continue
            if number in copied:
                found.append(copied[number])
            elif not self.marked.text[mark.start : mark.end].strip():
                found.append(self._point(number, taken))
            else:
                found.append(self._looked_at(number, taken))
                taken.append((found[-1].start, found[-1].end))
        return sorted(found, key=lambda placed: (placed.start, placed.end, placed.mark))

    def _copied(self) -> dict[int, _Placed]:
        """The marks that the model has said by itself, as often as they were there."""
        by_text: dict[str, list[int]] = defaultdict(list)
        for number, mark in enumerate(self.marks):
            if mark.fixed is not None and mark.plain.strip():
                by_text[mark.plain].append(number)
        found: dict[int, _Placed] = {}
        for text, numbers in sorted(by_text.items(), key=lambda item: -len(item[0])):
            places = [match.span() for match in re.finditer(rf"(?<!\w){re.escape(text)}(?!\w)", self.answer)]
            free = [place for place in places if not _overlaps(place, [(p.start, p.end) for p in found.values()])]
            if len(free) == len(numbers):
                for number, (start, end) in zip(numbers, free, strict=True):
                    found[number] = _Placed(start, end, number, self.marks[number].fixed or "")
        return found

    def _looked_at(self, number: int, taken: Sequence[tuple[int, int]]) -> _Placed:
        """In place of the words that looked at it; if there is none, after those of the word before it."""
        mark = self.marks[number]
        sources = {n for n, (start, end) in enumerate(self.words) if start < mark.end and mark.start < end}
        free = [n for n, link in enumerate(self.links) if link in sources and not _overlaps(self.said[n], taken)]
        text = self._with_punctuation(mark, sources)
        if free and self.aligned:
            first, last = _longest_run(free)
            return _Placed(self.said[first][0], self.said[last][1], number, text)
        place = self._after(min(sources) - 1, taken) if sources else 0
        if UNSPACED.search(self.answer) or not self.answer:
            return _Placed(place, place, number, f" {text}" if taken and not self.answer else text)
        return _Placed(place, place, number, f" {text}" if place else f"{text} ")

    def _point(self, number: int, taken: Sequence[tuple[int, int]]) -> _Placed:
        """A mark without words: after the word that it follows without a space, or before the next word."""
        at, text = self.marks[number].start, self.marks[number].fixed or ""
        if at in (0, len(self.marked.text)):
            place = 0 if at == 0 else len(self.answer)
            return _Placed(place, place, number, text)
        sources = [n for n, (start, _) in enumerate(self.words) if start >= at]
        if (at and not self.marked.text[at - 1].isspace()) or not sources:
            place = self._after(len(self.words) - len(sources) - 1, taken)
        else:
            places = [self.said[n][0] for n, link in enumerate(self.links) if link >= sources[0]]
            place = min(places, default=len(self.answer))
        inside = [end for start, end in taken if start < place < end]
        place = inside[0] if inside else place
        return _Placed(place, place, number, text)

    def _after(self, source: int, taken: Sequence[tuple[int, int]]) -> int:
        """The end of the last word of the answer that looked at this source word, or at one before it."""
        for number in range(source, -1, -1):
            ends = [self.said[n][1] for n, link in enumerate(self.links) if link == number]
            if ends:
                return max([max(ends), *(end for start, end in taken if start < max(ends) < end)])
        return 0

    def _with_punctuation(self, mark: Mark, sources: set[int]) -> str:
        """A fixed mark with the punctuation that stands beside it in its words."""
        if not sources:
            return mark.fixed or ""
        start, end = self.words[min(sources)][0], self.words[max(sources)][1]
        others = [other for other in self.marks if other.fixed is not None and other is not mark]
        start = max([start, *(other.end for other in others if other.end <= mark.start)])
        end = min([end, *(other.start for other in others if other.start >= mark.end)])
        beside = self.marked.text[start : mark.start], self.marked.text[mark.end : end]
        before, after = ("" if any(map(str.isalnum, text)) else self.marked.escape(text) for text in beside)
        if any(other.end == start < mark.start for other in others):
            before = ""  # the mark before this one has it
        return f"{before}{mark.fixed}{after}"


def _words(text: str, *, unspaced: bool) -> list[tuple[int, int]]:
    """Where words begin and end. In scripts without spaces between words, each character is one."""
    pattern = re.compile(rf"{UNSPACED.pattern}|(?:(?!{UNSPACED.pattern})\S)+") if unspaced else WORD
    return [match.span() for match in pattern.finditer(text)]


def _filled(stacks: Sequence[Stack | None], *, first: Stack, last: Stack) -> list[Stack]:
    """What is not known is what its neighbours share."""
    found: list[Stack] = []
    for known, run in groupby(range(len(stacks)), key=lambda place: stacks[place]):
        places = list(run)
        if known is None:
            after = stacks[places[-1] + 1] if places[-1] + 1 < len(stacks) else None
            known = _shared(found[-1] if found else first, last if after is None else after)
        found += [known] * len(places)
    return found


def _shared(first: Stack, second: Stack) -> Stack:
    """The elements that both are in."""
    size = next((n for n, pair in enumerate(zip(first, second, strict=False)) if pair[0] != pair[1]), None)
    return first[: min(len(first), len(second)) if size is None else size]


def _overlaps(place: tuple[int, int], others: Iterable[tuple[int, int]]) -> bool:
    return any(start < place[1] and place[0] < end for start, end in others)


def _longest_run(numbers: Sequence[int]) -> tuple[int, int]:
    """The first and last of the longest run of successive numbers."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    best = max(runs, key=len)
    return best[0], best[-1]
