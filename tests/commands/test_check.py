import json

DATA = [
    ("a man in a blue shirt stands there", "ein Mann in einem blauen Hemd steht da"),
    ("the <b>children</b> sing a song at school", "die Kinder singen in der Schule ein Lied"),
    ("a man in a blue shirt stands there", "ein Mann in einem blauen Hemd steht da"),
]
LEFT = [DATA[0], ("the children sing a song at school", DATA[1][1])]


def tsv(rows):
    return "".join(f"{source}\t{target}\n" for source, target in rows)


def test_a_report_for_programs_and_a_mended_copy(call, tmp_path):
    (tmp_path / "data.tsv").write_text(tsv(DATA), encoding="utf-8")
    result = call("check", tmp_path / "data.tsv", "--as", "pairs", "--fix", tmp_path / "out.tsv", "--json")
    assert result.code == 0
    report = json.loads(result.out)
    assert (report["examples"], report["left"]) == (3, 2)
    found = {each["name"]: each for each in report["findings"]}
    assert found["HTML tags"]["mended"] == found["duplicate"]["dropped"] == 1
    assert found["duplicate"]["examples"][0]["line"] == 3
    assert (tmp_path / "out.tsv").read_text(encoding="utf-8") == tsv(LEFT)


def test_two_files_are_mended_in_a_folder(call, tmp_path):
    for place, name in enumerate(("train.en", "train.de")):
        (tmp_path / name).write_text("".join(f"{row[place]}\n" for row in DATA), encoding="utf-8")
    result = call("check", tmp_path / "train.en", "--target", tmp_path / "train.de", "--fix", tmp_path / "clean")
    assert result.code == 0
    assert "3 examples, 2 are left" in result.out
    for place, name in enumerate(("train.en", "train.de")):
        assert (tmp_path / "clean" / name).read_text(encoding="utf-8").splitlines() == [row[place] for row in LEFT]


def test_exit_codes(call, tmp_path):
    (tmp_path / "data.tsv").write_text(tsv(DATA), encoding="utf-8")
    (tmp_path / "clean.tsv").write_text(tsv(LEFT), encoding="utf-8")
    assert call("check", tmp_path / "clean.tsv", "--as", "pairs", "--strict").code == 0
    strict = call("check", tmp_path / "data.tsv", "--as", "pairs", "--strict")
    assert strict.code == 1
    assert "HTML tags" in strict.out
    itself = call("check", tmp_path / "data.tsv", "--as", "pairs", "--fix", tmp_path / "data.tsv")
    assert itself.code == 2
    assert "is the data itself" in itself.err
    assert call("check", tmp_path / "nothing.tsv").code == 2


def test_defects_do_not_hide_what_a_file_holds(call, tmp_path):
    rows = [(f"sentence {number} is a text", f"Satz {number} ist ein Text") for number in range(40)]
    defects = (
        b"a line without a tab\n"
        + b"a NUL\0 is here now\tein NUL ist jetzt hier\n"
        + "der Bär\tthe bear\n".encode("cp1252")
    )
    (tmp_path / "data.tsv").write_bytes(tsv(rows).encode() + defects)
    result = call("check", tmp_path / "data.tsv", "--fix", tmp_path / "out.tsv", "--json")
    assert "data.tsv is read as pairs: it has two columns of text; --as chooses" in result.err
    report = json.loads(result.out)
    found = {each["name"]: each["examples"][0]["line"] for each in report["findings"]}
    assert {"columns": 41, "NUL": 42, "encoding": 43}.items() <= found.items()
    assert (tmp_path / "out.tsv").read_text(encoding="utf-8").startswith(tsv(rows))


def test_plain_text_in_another_encoding_is_mended_and_a_binary_file_refused(call, tmp_path):
    (tmp_path / "latin.txt").write_bytes("die Straße und die Bäume\n".encode("cp1252"))
    assert call("check", tmp_path / "latin.txt", "--fix", tmp_path / "out.txt").code == 0
    assert (tmp_path / "out.txt").read_text(encoding="utf-8") == "die Straße und die Bäume\n"
    (tmp_path / "binary.tsv").write_bytes(b"\0\1\2\tab" * 50)
    refused = call("check", tmp_path / "binary.tsv")
    assert refused.code == 2
    assert "is a binary file" in refused.err
