"""Every kind of defect, planted into clean data, is found at its line and nothing else is."""

from __future__ import annotations

from pathlib import Path

import pytest

from regard.doctor.examine import Wanted, examine
from regard.doctor.report import Report
from regard.errors import RegardError

CLEAN = [
    ("a man in a blue shirt is standing on a ladder", "ein Mann in einem blauen Hemd steht auf einer Leiter"),
    ("two young children play in the garden", "zwei kleine Kinder spielen im Garten"),
    ("the woman reads a book on the train", "die Frau liest im Zug ein Buch"),
    ("a brown dog runs along the beach", "ein brauner Hund läuft am Strand entlang"),
    ("people are waiting for the bus in the rain", "Leute warten im Regen auf den Bus"),
    ("the old church was built in 1652", "die alte Kirche wurde 1652 gebaut"),
    ("she asked, “do you like it?”", "sie fragte: „Gefällt es dir?“"),
    ("it costs 1,500 dollars", "es kostet 1.500 Dollar"),
]
GOOD_SOURCE, GOOD_TARGET = "the children sing a song at school", "die Kinder singen in der Schule ein Lied"
SOURCES = {  # a source with the defect → what is left of it, None if it is dropped
    "NUL": ("the children\0 sing a song at school", GOOD_SOURCE),
    "line separators": ("the children\u2028sing a song at school", GOOD_SOURCE),
    "control characters": ("the children \x07sing a song at school", GOOD_SOURCE),
    "byte-order mark": ("the \ufeffchildren sing a song at school", GOOD_SOURCE),
    "mojibake": ("the children sing â€œa songâ€\x9d at school", "the children sing “a song” at school"),
    "replacement character": ("the children sing a s\ufffdng at school", None),
    "private characters": ("the children \ue123 sing a song at school", None),
    "invisible characters": ("the chil\u00addren sing a\u200b song at school", GOOD_SOURCE),
    "odd spaces": ("the children sing\u2003a song at school", GOOD_SOURCE),
    "Unicode form": ("the cafe\u0301 sings a song at school", "the café sings a song at school"),
    "compatibility characters": ("the \ufb01rst children sing at school", "the first children sing at school"),
    "HTML entities": ("the children sing &quot;a song&quot; at school", 'the children sing "a song" at school'),
    "HTML tags": ('the <b>children</b> sing a <a href="x">song</a> at school', GOOD_SOURCE),
    "escapes": (r"the children sing\na song at school", GOOD_SOURCE),
    "joiners": ("the well @-@ known children sing at school", "the well-known children sing at school"),
    "subword marks": ("the child@@ ren sing a song at school", GOOD_SOURCE),
    "tokenised text": ("the children do n't sing , at school .", "the children don't sing, at school."),
    "wiki markup": ("the [[children]] sing a song at school", None),
    "code": ("if (x) { var y = 3; return y } at school", None),
    "repeated words": ("the children sing sing sing a song at school", None),
    "repeated characters": (
        "the children sing a song at school!!!!!!!!!!",
        "the children sing a song at school!!!!!!!!!!",
    ),
    "long word": ("the children " + "si" * 40 + " at school", None),
    "repeated spaces": ("the children  sing a song   at school", GOOD_SOURCE),
    "outer spaces": (" the children sing a song at school ", GOOD_SOURCE),
    "empty source": ("", None),
    "length ratio": ("the children sing a song at school" + " and then sing a song at school" * 5, None),
    "few letters": ("12 34 + 56 / 78 * 90 - 11 = ??", None),
    "script": ("дети поют песню в школе", None),
    "overlong": ("the children" + " sing a song at school and then" * 25, None),
}
PAIRS = {  # both sides
    "empty target": (GOOD_SOURCE, " "),
    "copy": (GOOD_SOURCE, GOOD_SOURCE),
    "near copy": (GOOD_SOURCE + " today", GOOD_SOURCE + " heute"),
    "numbers": ("the train has 245 seats", "der Zug hat 254 Plätze"),
    "URLs": ("see https://example.org/a for more", "mehr bei https://example.org/b steht"),
    "e-mails": ("write to me@example.org today", "schreibe heute an du@example.org"),
    "placeholders": ("hello {{name}}, how are you", "hallo {{nmae}}, wie geht es dir"),
    "currencies": ("the book costs $ and little", "das Buch kostet € und wenig"),
}


def run(folder: Path, content: bytes, **settings: object) -> tuple[Report, list[list[str]]]:
    (folder / "data.tsv").write_bytes(content)
    wanted = Wanted(**{"form": "pairs", "files": (str(folder / "data.tsv"),), **settings})  # type: ignore[arg-type]
    report, rows = examine(wanted)
    return report, list(rows)


def tsv(rows: list[tuple[str, ...]]) -> bytes:
    return "".join("\t".join(row) + "\n" for row in rows).encode()


def names(report: Report) -> dict[str, int]:
    return {name: finding.count for name, finding in report.findings.items()}


def test_clean_data_has_no_defect(tmp_path: Path) -> None:
    report, left = run(tmp_path, tsv(CLEAN))
    assert names(report) == {}
    assert report.clean
    assert left == [list(row) for row in CLEAN]


@pytest.mark.parametrize("name", SOURCES)
def test_a_defect_of_a_text_is_found_where_it_is_and_mended(tmp_path: Path, name: str) -> None:
    text, expected = SOURCES[name]
    target = GOOD_TARGET + " singen ein Lied in der Schule" * 25 if name == "overlong" else GOOD_TARGET
    report, left = run(tmp_path, tsv([*CLEAN, (text, target)]))
    assert names(report) == {name: 1}
    assert report.findings[name].examples[0].line == len(CLEAN) + 1
    assert left[len(CLEAN) :] == ([] if expected is None else [[expected, target]])


@pytest.mark.parametrize("name", PAIRS)
def test_a_defect_of_a_pair_is_found(tmp_path: Path, name: str) -> None:
    report, left = run(tmp_path, tsv([*CLEAN, PAIRS[name]]))
    assert names(report) == {name: 1}
    assert report.findings[name].counts == {"dropped": 1}
    assert len(left) == len(CLEAN)


def test_a_mended_text_is_looked_at_again(tmp_path: Path) -> None:
    report, left = run(tmp_path, tsv([*CLEAN, ("<br/>", GOOD_TARGET)]))
    assert names(report) == {"HTML tags": 1, "empty source": 1}
    assert len(left) == len(CLEAN)


def test_bytes_that_are_wrong_are_found_and_mended(tmp_path: Path) -> None:
    content = tsv(CLEAN) + "die Tür\tthe door is open\n".encode("cp1252")
    report, left = run(tmp_path, content)
    assert names(report) == {"encoding": 1}
    assert left[-1][0] == "die Tür"
    report, left = run(tmp_path, b"\xef\xbb\xbf" + tsv(CLEAN).replace(b"\n", b"\r\n"))
    assert names(report) == {"byte-order mark": 1, "carriage returns": 1}
    assert left == [list(row) for row in CLEAN]
    report, left = run(tmp_path, tsv(CLEAN).decode().encode("utf-16"))
    assert names(report) == {"UTF-16": 1}
    assert left == [list(row) for row in CLEAN]


def test_lines_with_wrong_columns_are_found(tmp_path: Path) -> None:
    report, left = run(tmp_path, tsv([*CLEAN, ("alone",), ("a", "b", "c"), ("",)]))
    assert names(report) == {"columns": 2, "empty": 1}
    assert [example.line for example in report.findings["columns"].examples] == [len(CLEAN) + 1, len(CLEAN) + 2]
    assert len(left) == len(CLEAN)
    with pytest.raises(RegardError, match=r":1 has \|\|\| where a tab is expected"):
        run(tmp_path, b"the door ||| die Tuer\n")


def test_examples_are_compared_with_each_other(tmp_path: Path) -> None:
    twice = [(f"sentence number {'abcdefghijklm'[i]} of all", "dies ist ein fester Satz hier") for i in range(10)]
    report, left = run(tmp_path, tsv([*CLEAN, CLEAN[1], (CLEAN[2][0], "sie liest ein Buch im Zug"), *twice]))
    assert names(report) == {"duplicate": 1, "many targets": 1, "many sources": 1}
    assert report.findings["duplicate"].examples[0].line == len(CLEAN) + 1
    assert len(left) == len(CLEAN) + 11


def test_test_data_leaks(tmp_path: Path) -> None:
    test = tmp_path / "test.tsv"
    test.write_bytes(tsv([CLEAN[0], ("Two young children PLAY in the garden!", "zwei Kinder spielen")]))
    report, left = run(tmp_path, tsv(CLEAN), test=(str(test),))
    assert names(report) == {"leakage": 1, "leaked source": 1}
    assert left == [list(row) for row in CLEAN[2:]]


def test_labels(tmp_path: Path) -> None:
    rows = [(f"review {word}", "good") for word in ("one", "two", "three", "four")]
    rows += [("a bad review", "bad"), ("a bad review", "Bad"), ("no label", "")]
    report, _ = run(tmp_path, tsv(rows), form="labels")
    assert names(report) == {"contradiction": 1, "no label": 1}
    assert any("differ only in case" in note for note in report.notes)
    assert any("single example" in note for note in report.notes)
    report, _ = run(tmp_path, tsv([("a text", "same"), ("a second text", "same")]), form="labels")
    assert report.notes == ["all examples have the label 'same': there is nothing to learn"]
    many = [(f"text of {number} words", "often") for number in range(200)] + [
        ("the one", "seldom"),
        ("the two", "seldom"),
    ]
    report, _ = run(tmp_path, tsv(many), form="labels")
    assert any("200 examples have the label 'often' and 2 the label 'seldom'" in note for note in report.notes)


def test_plain_text(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("A first line.\n\nA\tsecond line.\nA &amp; B.\n", encoding="utf-8")
    report, rows = examine(Wanted("text", (str(tmp_path / "text.txt"),)))
    assert list(rows) == [["A first line."], ["A second line."], ["A & B."]]
    assert names(report) == {"tabs": 1, "HTML entities": 1}


def test_languages(tmp_path: Path) -> None:
    rows = [*CLEAN, (GOOD_TARGET + " und im Garten", GOOD_SOURCE + " and in the garden")]
    rows.append(("la femme lit un livre dans le train de nuit vers Paris", "die Frau liest im Zug nach Paris ein Buch"))
    report, left = run(tmp_path, tsv(rows), languages=("en", "de"))
    assert names(report) == {"sides swapped": 1, "language": 1}
    assert len(left) == len(CLEAN)


@pytest.mark.parametrize("lost", ["source", "target"])
def test_the_first_line_that_drifts(tmp_path: Path, lost: str) -> None:
    lengths = [(number * 37) % 90 + 10 for number in range(400)]
    sides = {"source": ["x" * length for length in lengths], "target": ["y" * (length + 3) for length in lengths]}
    del sides[lost][250]
    for name, lines in sides.items():
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    report, rows = examine(Wanted("pairs", (str(tmp_path / "source"), str(tmp_path / "target"))))
    list(rows)
    assert report.findings["drift"].examples[0].line == 251
    assert "up to line 250" in report.notes[0]
