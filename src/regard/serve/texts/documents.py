"""Documents as texts to translate, and documents of the translations: plain text, HTML, subtitles.

    document = html("<p>A <b>big</b> dog</p>")      # .parts: [Marked("A big dog", …)]
    document.joined(["<translation>"])             # what each part became, with its marks, between what was between

Line breaks, white space and markup stay; a part is a line of a text, the text of a paragraph, or a subtitle.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from lxml import etree

from regard.errors import RegardError
from regard.serve.texts.marked import PLACEHOLDER, Mark, Marked, as_is, plain
from regard.serve.texts.sentences import lines

DEEPEST = 100  # elements in elements
BLANK = " \t\n\r\f"  # white space in HTML
SPACE = re.compile(f"[{BLANK}]+")
WHOLE = re.compile(r"\s*<(!doctype|html|\?xml)", re.IGNORECASE)


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


BLOCKS = _names("""
    address article aside audio base blockquote body br button canvas caption center col colgroup dd details
    dialog dir div dl dt fieldset figcaption figure footer form frame frameset h1 h2 h3 h4 h5 h6 head header
    hgroup hr html iframe input legend li link main map menu meta nav noframes noscript object ol optgroup
    option p param picture pre script search section select source style summary table tbody td template
    textarea tfoot th thead title tr track ul video
""")
KEPT = _names("code kbd math samp script style svg template textarea var")  # not translated
VOID = _names("area base br col embed hr img input link meta param source track wbr")
RAW = frozenset(["script", "style"])  # their text is written as it is
TAG = re.compile(r"</?[A-Za-z][^<>]*>|\{\\[^{}]*\}")  # in subtitles
TIME = re.compile(r"\s*[\d:,.]+\s*-->")


@dataclass(frozen=True)
class Document:
    """Parts to translate, and what stands before, between and after them: one more than there are parts."""

    parts: list[Marked] = field(default_factory=list)
    between: list[str] = field(default_factory=lambda: [""])
    shaped: Callable[[int, str], str] = lambda _place, text: text  # what a translated part is written as

    def add(self, part: Marked) -> None:
        self.parts.append(part)
        self.between.append("")

    def literal(self, text: str) -> None:
        self.between[-1] += text

    def joined(self, texts: Sequence[str]) -> str:
        """The document of the translated parts."""
        written = [self.shaped(place, text) for place, text in enumerate(texts)]
        pairs = zip(written, self.between[1:], strict=True)
        return self.between[0] + "".join(text + after for text, after in pairs)


def text(content: str) -> Document:
    """Plain text: each line is a part."""
    found = lines(content)
    return Document([plain(part) for part in found.parts], list(found.between))


def html(content: str) -> Document:
    """HTML: the text of each block is a part; elements inside a sentence do not divide it."""
    document = Document()
    if WHOLE.match(content):
        root = _parsed(content)
        if doctype := root.getroottree().docinfo.doctype:
            document.literal(f"{doctype}\n")
        _Reader(document, root).whole()
    else:
        root = _parsed(f"<html><body>{content}</body></html>")
        _Reader(document, root).fragment()
    return document


def subtitles(content: str) -> Document:
    """SubRip: the lines of a subtitle are one part, which is broken into as many lines again."""
    heights: list[int] = []
    document = Document(shaped=lambda place, text: _broken(text, heights[place]))
    waiting: list[str] = []
    inside = False

    def flush() -> None:
        if waiting:
            heights.append(len(waiting))
            joined = " ".join(line.strip() for line in waiting)
            document.add(_without_tags(joined))
            document.literal("\n")
            waiting.clear()

    for line in content.removeprefix("\ufeff").replace("\r\n", "\n").split("\n"):
        if inside and line.strip():
            waiting.append(line)
            continue
        flush()
        inside = bool(TIME.match(line))
        document.literal(f"{line}\n")
    flush()
    document.between[-1] = document.between[-1][:-1]  # the line break that was added to the last line
    return document


def _broken(text: str, height: int) -> str:
    """A text in so many lines of about the same length, if it has as many words."""
    words, found = text.split(" "), list[str]()
    for left in range(height, 0, -1):
        goal, line = len(" ".join(words)) / left, [words.pop(0)] if words else []
        while words and (left == 1 or len(" ".join(line)) + (len(words[0]) + 1) / 2 < goal):
            line.append(words.pop(0))
        found.append(" ".join(line))
    return "\n".join(filter(None, found))


def _without_tags(content: str) -> Marked:
    """The text of a subtitle, whose tags are marks."""
    found, marks, at = "", list[Mark](), 0
    for match in TAG.finditer(content):
        found += content[at : match.start()]
        marks.append(Mark(len(found), len(found), fixed=match[0]))
        at = match.end()
    return Marked(found + content[at:], tuple(marks)).fixing(PLACEHOLDER, as_is)


# HTML


def escaped(text: str) -> str:
    """Text as HTML writes it."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("\xa0", "&nbsp;")


def _parsed(content: str) -> etree._Element:
    parser = etree.HTMLParser(encoding="utf-8", no_network=True)
    root = etree.fromstring(content.encode(), parser)
    if root is None:
        raise RegardError("the HTML cannot be read; send markup such as <p>text</p>")
    if any(error.level == etree.ErrorLevels.FATAL for error in parser.error_log):
        raise RegardError("the HTML is nested too deeply; make it simpler")
    return root


class _Reader:
    """Divides a tree into parts, which are texts with marks, and what stands between them."""

    def __init__(self, document: Document, root: etree._Element) -> None:
        self.document, self.root = document, root
        self.blocks = _with_blocks(root)
        self.text, self.marks = "", list[Mark]()

    def whole(self) -> None:
        self._block(self.root, 0, pre=False)
        self._flush()

    def fragment(self) -> None:
        """What stands in the body, and in a head that the parser may have made."""
        for part in self.root:
            self._inside(part, 1, pre=False)
        self._flush()

    def _inside(self, element: etree._Element, depth: int, *, pre: bool) -> None:
        """The text and the elements inside an element."""
        self._add(element.text, pre=pre)
        for child in element:
            if child in self.blocks:
                self._flush()
                self._block(child, depth + 1, pre=pre)
                self._flush()
            else:
                self._inline(child, depth + 1, pre=pre)
            self._add(child.tail, pre=pre)

    def _block(self, element: etree._Element, depth: int, *, pre: bool) -> None:
        if depth > DEEPEST:
            raise RegardError("the HTML is nested too deeply; make it simpler")
        if _is_kept(element):
            self.document.literal(_written(element))
            return
        self.document.literal(_opening(element))
        if element.tag not in VOID:
            self._inside(element, depth, pre=pre or element.tag == "pre")
            self._flush()
            self.document.literal(f"</{element.tag}>")

    def _inline(self, element: etree._Element, depth: int, *, pre: bool) -> None:
        if depth > DEEPEST:
            raise RegardError("the HTML is nested too deeply; make it simpler")
        if not isinstance(element.tag, str) or _is_kept(element):
            self._fixed(element)
            return
        if not "".join(element.itertext()).strip():  # nothing to be put around words
            self.marks.append(Mark(len(self.text), len(self.text), fixed=_written(element)))
            return
        opening, closing = _opening(element), f"</{element.tag}>"
        number, start = len(self.marks), len(self.text)
        self.marks.append(Mark(start, start, opening, closing))
        self._inside(element, depth, pre=pre)
        self.marks[number] = Mark(start, len(self.text), opening, closing)

    def _fixed(self, element: etree._Element) -> None:
        """An element that is not translated; a model reads its text where it is a few words."""
        said = SPACE.sub(" ", "".join(element.itertext())) if isinstance(element.tag, str) else ""
        start = len(self.text)
        self.text += said
        written = escaped(said) if element.tag == "keep" else _written(element)
        self.marks.append(Mark(start, len(self.text), fixed=written, plain=said))

    def _add(self, text: str | None, *, pre: bool) -> None:
        if not text:
            return
        if not pre:
            self.text += text
            return
        first, *others = text.split("\n")
        self.text += first
        for line in others:
            self._flush()
            self.document.literal("\n")
            self.text += line

    def _flush(self) -> None:
        """End a part. White space around it is kept; in it, it is one space."""
        if not self.text and not self.marks:
            return
        points = [mark.start for mark in self.marks if mark.fixed is not None and mark.start == mark.end]
        begin = min([len(self.text) - len(self.text.lstrip(BLANK)), *points])
        end = max([len(self.text.rstrip(BLANK)), begin, *points])
        inner, places = _collapsed(self.text[begin:end])

        def moved(place: int) -> int:
            return places[min(max(place, begin), end) - begin]

        marks = [replace(mark, start=moved(mark.start), end=moved(mark.end)) for mark in self.marks]
        self.document.literal(self.text[:begin])
        self.document.add(Marked(inner, tuple(marks), escaped).fixing(PLACEHOLDER, as_is))
        self.document.literal(self.text[end:])
        self.text, self.marks = "", []


def _with_blocks(root: etree._Element) -> set[etree._Element]:
    """The elements that divide a text: blocks, elements that have some inside, and those of several lines in <pre>."""
    found: set[etree._Element] = set()
    for line in (each for pre in root.iter("pre") for each in pre.iterdescendants()):
        if isinstance(line.tag, str) and "\n" in "".join(line.itertext()):
            found.add(line)
    for element in root.iter():
        each: etree._Element | None = element if element.tag in BLOCKS else None
        while each is not None and (each not in found or each is element):
            found.add(each)
            each = each.getparent()
    return found


def _is_kept(element: etree._Element) -> bool:
    """Whether an element must not be translated."""
    if not isinstance(element.tag, str):
        return True
    told = (element.get("translate") or "").lower()
    named = "notranslate" in (element.get("class") or "").split()
    return told == "no" or named or element.tag == "keep" or (element.tag in KEPT and told != "yes")


def _collapsed(text: str) -> tuple[str, list[int]]:
    """A text with one space for each run of white space, and where each character and the end have gone."""
    found, places = list[str](), list[int]()
    for character in text:
        space = character in BLANK
        places.append(len(found))
        if not space:
            found.append(character)
        elif not found or found[-1] != " ":
            found.append(" ")
        else:
            places[-1] = len(found) - 1
    return "".join(found), [*places, len(found)]


def _opening(element: etree._Element) -> str:
    """The opening tag of an element."""
    attributes = "".join(
        f' {name}="{value.replace("&", "&amp;").replace(chr(0xA0), "&nbsp;").replace(chr(34), "&quot;")}"'
        for name, value in element.attrib.items()
    )
    return f"<{element.tag}{attributes}>"


def _written(element: etree._Element) -> str:
    """An element as it is."""
    if not isinstance(element.tag, str):
        text = element.text or ""
        return f"<!--{text}-->" if element.tag is etree.Comment else f"<?{text}>"
    if element.tag in VOID:
        return _opening(element)
    inner = (element.text or "") if element.tag in RAW else escaped(element.text or "")
    inner += "".join(_written(child) + escaped(child.tail or "") for child in element)
    return f"{_opening(element)}{inner}</{element.tag}>"
