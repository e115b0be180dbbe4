"""Marks stay with their words: placeholders, names, terms and elements, whatever a model says."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from regard.errors import RegardError
from regard.serve.texts import documents
from regard.serve.texts.marked import Mark, Marked, plain

SAME = [(number, number) for number in range(20)]  # each word looked at the word in the same place


def said(marked: Marked, answer: str, alignment: list[tuple[int, int]] | None = SAME) -> str:
    return marked.rendered(answer, alignment)


def test_a_copied_placeholder_stays_where_the_model_said_it() -> None:
    assert said(plain("Hello {{name}}, welcome"), "Willkommen, {{name}}, hallo") == "Willkommen, {{name}}, hallo"


def test_a_placeholder_takes_the_place_of_the_word_that_looked_at_it() -> None:
    marked = plain("Hello {{name}}, welcome")
    assert said(marked, "Willkommen hallo Nahme,", [(2, 0), (0, 1), (1, 2)]) == "Willkommen hallo {{name}},"


def test_a_lost_placeholder_follows_the_word_before_it() -> None:
    assert said(plain("see {{x}} now"), "jetzt sehen", [(2, 0), (0, 1)]) == "jetzt sehen {{x}}"
    assert said(plain("{{x}} now"), "jetzt", [(1, 0)]) == "{{x}} jetzt"
    assert said(plain("now {{x}}"), "", []) == "{{x}}"
    assert said(plain("{{x}} or <keep>New York</keep> now"), "", []) == "{{x}} New York"


def test_kept_words_are_not_translated_and_their_tags_are_left_out() -> None:
    marked = plain("I live in <keep>New York</keep>.")
    assert marked.text == "I live in New York."
    assert said(marked, "Ich wohne in Neu Jork.", [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4)]) == "Ich wohne in New York."


def test_a_term_has_its_rendering_where_its_words_were() -> None:
    glossary = {"dog": "Köter", "big dog": "Riesenköter"}
    marked = plain("A dog and a big dog; no dogs").with_terms(glossary)
    links = [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4), (5, 4), (6, 5), (7, 6)]
    assert said(marked, "Ein Hund und ein Hund keine Hunde", links) == "Ein Köter und ein Riesenköter; keine Hunde"
    assert said(plain("the dog").with_terms(glossary), "der Köter") == "der Köter"


def test_text_without_letters_is_left_alone() -> None:
    assert not plain("12:30 – {{name}} <keep>Bob</keep> …").has_letters
    assert plain("12:30 – {{name}} <keep>Bob</keep> …").unchanged() == "12:30 – {{name}} Bob …"
    assert plain("{{name}} 1a").has_letters


def test_a_part_has_its_own_marks() -> None:
    marked = Marked("one two three", (Mark(0, 7, "<b>", "</b>"), Mark(4, 7, fixed="2", plain="two")))
    assert marked.part(4, 13) == Marked("two three", (Mark(0, 3, "<b>", "</b>"), Mark(0, 3, fixed="2", plain="two")))
    assert marked.cuts(5)
    assert not marked.cuts(4)


ALPHABET = st.sampled_from(["a", "bc", "d,", "(e)", "{{x}}", "{{y}}.", "<keep>k l</keep>", "7"])
LINKS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=10)


@given(st.lists(ALPHABET, min_size=1, max_size=9), st.lists(ALPHABET, max_size=9), LINKS, st.booleans())
def test_every_fixed_mark_is_in_the_translation_once(
    source: list[str], answer: list[str], links: list[tuple[int, int]], aligned: bool
) -> None:
    marked = plain(" ".join(source))
    spoken = " ".join(answer).replace("<keep>", "").replace("</keep>", "")
    found = said(marked, spoken, links if aligned else None)
    for mark in ("{{x}}", "{{y}}", "k l"):
        wanted, copied = marked.text.count(mark), spoken.count(mark)
        # a model may say a mark more often than it was asked to: what it says is not taken away
        assert found.count(mark) >= wanted
        if copied in (0, wanted):
            assert found.count(mark) == wanted


# documents


def html(content: str, answer: str | None = None, links: list[tuple[int, int]] | None = SAME) -> str:
    """A document of one part, translated by a model that says this; or by one that says what it hears."""
    document = documents.html(content)
    return document.joined([part.rendered(part.text if answer is None else answer, links) for part in document.parts])


@pytest.mark.parametrize(
    "content",
    [
        "<p>A <b>big</b> dog</p>",
        '<p class="x">Hi <a href="https://ä.example/?q={{q}}&amp;b">you</a>!</p>\n\n  <p>Bye</p>',
        "plain &amp; simple &lt;text&gt;",
        "<ul>\n <li>one</li>\n <li>two <br>three</li>\n</ul>",
        '<img src="a.png" alt="x"> a <i><u>nested</u> one</i>',
        "<!-- a comment --><p>x</p><script>if (a < b && c) {}</script><style>p > a {}</style>",
        "<pre>two\n  lines <b>and\nbold</b></pre>",
        "<table><tbody><tr><td>cell</td></tr></tbody></table>",
        "a&nbsp;b",
        "<p>One.<img> Two <b>three</b> <img> </p>",
        "",
        "   ",
        '<!DOCTYPE html>\n<html lang="en"><head><title>T</title></head><body><p>x</p></body></html>',
    ],
)
def test_markup_is_kept_as_it_was(content: str) -> None:
    assert html(content) == content


def test_inline_elements_do_not_divide_a_sentence() -> None:
    assert [part.text for part in documents.html("<p>A <b>big <i>old</i></b> dog. <br>Two</p>").parts] == [
        "A big old dog.",
        "Two",
    ]


def test_elements_follow_the_words_that_they_were_around() -> None:
    content = '<p>the <b>red</b> house, <a href="#">see</a></p>'
    links = [(3, 0), (0, 1), (2, 2), (1, 3)]
    assert html(content, "voir la maison rouge,", links) == '<p><a href="#">voir</a> la maison <b>rouge</b>,</p>'


def test_punctuation_outside_an_element_stays_outside() -> None:
    assert html("<p><b>Hello</b>, you</p>", "Hallo, du") == "<p><b>Hallo</b>, du</p>"


def test_an_element_is_opened_again_where_its_words_were_parted() -> None:
    assert html("<p><b>a b</b> c</p>", "x y z", [(0, 0), (2, 1), (1, 2)]) == "<p><b>x</b> y <b>z</b></p>"


def test_an_element_whose_words_are_gone_is_kept() -> None:
    assert html('<p>a <a id="x">b</a></p>', "c", [(0, 0)]).count('<a id="x"></a>') == 1


def test_what_must_not_be_translated_passes_through() -> None:
    content = 'Ask <span translate="no" class="h">@<b>Bob</b></span> or <code>x &lt; y</code> or <keep>Eve</keep>'
    assert documents.html(content).parts[0].text == "Ask @Bob or x < y or Eve"
    found = html(content, "Frag @Bob oder z oder Eva", [(0, 0), (1, 1), (2, 2), (3, 3), (6, 4), (7, 5)])
    assert found == content.replace("Ask", "Frag").replace(" or", " oder").replace("<keep>Eve</keep>", "Eve")


def test_special_characters_of_an_answer_are_escaped() -> None:
    assert html("<p>x</p>", "a < b & c") == "<p>a &lt; b &amp; c</p>"


def test_html_that_is_too_deep_is_refused() -> None:
    for depth in (150, 5000):
        with pytest.raises(RegardError, match="nested too deeply"):
            documents.html("<div>" * depth + "x" + "</div>" * depth)


TREE = st.recursive(
    st.sampled_from(["a", "b c", " ", "d.", "{{x}}", "<img>", "<br>", "&amp;"]),
    lambda inner: st.builds(
        lambda tag, parts: f"<{tag}>{''.join(parts)}</{tag}>",
        st.sampled_from(["b", "i", "span", "div", "code", "x-y"]),
        st.lists(inner, max_size=3),
    ),
    max_leaves=12,
)


@given(TREE, st.lists(st.sampled_from(["u", "v,", "(w)", "{{x}}"]), max_size=6), LINKS)
def test_a_translated_document_is_well_formed_and_has_every_element(
    content: str, answer: list[str], links: list[tuple[int, int]]
) -> None:
    found = html(content, " ".join(answer), links)
    for tag in ("b", "i", "span", "div", "code", "x-y", "img", "br"):
        assert found.count(f"<{tag}>") >= content.count(f"<{tag}>")
    for tag in ("div", "code", "img", "br"):
        assert found.count(f"<{tag}>") == content.count(f"<{tag}>")
    closed = re.sub(r"<(img|br)>", r"<\1/>", found)
    etree.fromstring(f"<r>{closed}</r>")  # as XML, where every tag must be closed in order


@given(st.text(alphabet=" \n\r\tab.{}<>é", max_size=40))
def test_white_space_and_lines_of_a_text_survive(content: str) -> None:
    document = documents.text(content)
    assert document.joined([part.text for part in document.parts]) == content
    assert not any(set("\r\n") & set(part.text) for part in document.parts)


SUBTITLES = """1
00:00:01,000 --> 00:00:02,500
<i>Hello there,</i>
my friend.

2
00:00:03,000 --> 00:00:04,000
Bye!
"""


@pytest.mark.parametrize("content", [SUBTITLES, SUBTITLES.rstrip(), "", "\n", "no times here\n", SUBTITLES + "\n\n"])
def test_subtitles_are_one_part_each(content: str) -> None:
    document = documents.subtitles(content)
    assert document.joined([part.unchanged() for part in document.parts]) == content
    if content.startswith("1"):
        assert [part.text for part in document.parts] == ["Hello there, my friend.", "Bye!"]


def test_a_subtitle_has_as_many_lines_as_before() -> None:
    document = documents.subtitles(SUBTITLES)
    found = document.joined(["Hallo mein Freund wie geht es", "Adieu"])
    assert "02,500\nHallo mein Freund\nwie geht es\n\n2" in found
