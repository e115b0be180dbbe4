import pytest

import regard
from regard import RegardError
from small_models import MIXED, QUICK, copying, reversing, reversing_recipe, words, write_pairs

BOTH = pytest.mark.parametrize("kind", ["transformer", "seq2seq"])


# answering


def test_one_text_gives_one_answer_and_a_list_a_list():
    model = reversing("transformer")
    assert model(["abc", "dd"]) == [model("abc"), model("dd")]
    assert model([]) == []


def test_nothing_is_answered_to_nothing():
    model = reversing("transformer")
    assert model(["", "abc", "  "]) == ["", model("abc"), ""]
    (answer,) = model.answers([""], decoding=model.decoding({"n_best": 3}))[0]
    assert (answer.text, answer.tokens, answer.logprobs) == ("", (), ())
    assert model.word_alignment("", answer) == []


@BOTH
@pytest.mark.parametrize("beam", [1, 3])
def test_a_batch_gives_the_answers_of_one_by_one(kind, beam):
    model = reversing(kind)
    decoding = model.decoding({"beam": beam, "n_best": beam})
    together = model.answers(MIXED, decoding=decoding)
    alone = [model.answers([text], decoding=decoding)[0] for text in MIXED]
    assert [[a.tokens for a in found] for found in together] == [[a.tokens for a in found] for found in alone]
    for one, other in zip(together, alone, strict=True):
        assert [a.score for a in one] == pytest.approx([a.score for a in other], abs=1e-4)


@pytest.mark.parametrize("together", [1, 2, 100])
def test_a_stream_keeps_the_order_of_its_texts(together):
    model = reversing("transformer")
    texts = [*MIXED, "", "abc"]
    found = list(model.stream(iter(texts), together=together))
    assert [text for text, _ in found] == texts
    assert [answers[0].text for _, answers in found] == model(texts)


def test_the_n_best_are_different_and_the_best_comes_first():
    model = reversing("transformer")
    found = model.answers(["abcde"], decoding=model.decoding({"n_best": 7}))[0]
    scores = [answer.score for answer in found]
    assert len({answer.text for answer in found}) == 7
    assert scores == sorted(scores, reverse=True)
    assert found[0].text == model("abcde")
    assert scores[0] == pytest.approx(sum(found[0].logprobs) / len(found[0].logprobs))


def test_an_answer_begins_with_its_prefix():
    model = reversing("transformer")
    assert [found[0].text[:2] for found in model.answers(MIXED, prefix="ca")] == ["ca"] * len(MIXED)


def test_sampling_is_repeated_by_its_seed():
    model = reversing("transformer")
    drawn = [
        [a[0].text for a in model.answers(MIXED, decoding=model.decoding({"sample": True, "temperature": 5.0} | seed))]
        for seed in ({"seed": 3}, {"seed": 3}, {"seed": 4})
    ]
    assert drawn[0] == drawn[1] != drawn[2]


def test_words_that_are_unknown_are_copied_from_the_source():
    model = copying()
    decoding = model.decoding({"replace_unknown": True})
    texts = ["big zebra sees cat", "old old emu", "dog likes gnu"]
    assert "<unk>" in model(texts[0])
    assert [found[0].text for found in model.answers(texts, decoding=decoding)] == texts
    several = model.answers(texts[:1], decoding=model.decoding({"replace_unknown": True, "n_best": 3}))[0]
    assert not any("<unk>" in answer.text for answer in several)


@BOTH
def test_alignments_have_a_row_for_each_piece_of_the_answer_and_a_column_for_each_of_the_source(kind):
    model = reversing(kind)
    (answer,) = model.answers(["abc"])[0]
    source, target, looked = model.alignment("abc", answer)
    assert source == ["a", "b", "c", "</s>"]
    assert target == list(answer.text)
    assert looked.shape == (len(target), len(source))
    assert looked.sum(1).tolist() == pytest.approx([1.0] * len(target), abs=1e-5)
    assert model.word_alignment("abc", answer) == [(0, 0)]


def test_a_model_without_attention_says_that_it_cannot_align(tmp_path):
    changes = [*QUICK, "model.score=none"]
    model = regard.train(reversing_recipe(tmp_path, kind="seq2seq"), out=tmp_path / "out", changes=changes)
    with pytest.raises(RegardError, match="nothing can be aligned"):
        model.word_alignment("abc", model.answers(["abc"])[0][0])


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"beem": 3}, "'beem' is unknown; did you mean 'beam'"),
        ({"n_best": 3, "beam": 2}, "n_best=3 exceeds beam=2"),
        ({"temperature": 0.5}, "without sample=true"),
        ({"beam": "many"}, "beam = 'many'"),
    ],
)
def test_wrong_decoding_settings_are_told(settings, told):
    with pytest.raises(RegardError, match=told):
        reversing("transformer").decoding(settings)


# scoring


def test_evaluating_a_file_counts_what_is_right(tmp_path):
    model = reversing("transformer")
    pairs = [(word, word[::-1]) for word in words(40)]
    right = sum(model(source) == target for source, target in pairs)
    file = write_pairs(tmp_path / "test.tsv", pairs)
    scores = model.evaluate(file)
    assert scores["exact"].value == pytest.approx(100 * right / len(pairs))
    assert "tok:13a" in scores["bleu"].signature
    assert "tok:none" in model.evaluate(str(file), tokenize="none")["bleu"].signature


def test_two_files_of_lines_score_as_one_of_pairs(tmp_path):
    model = reversing("transformer")
    pairs = [(word, word[::-1]) for word in words(20)]
    one = write_pairs(tmp_path / "test.tsv", pairs)
    for side, lines in zip(("source", "target"), zip(*pairs, strict=True), strict=True):
        (tmp_path / side).write_text("\n".join(lines) + "\n", encoding="utf-8")
    two = {"source": str(tmp_path / "source"), "target": str(tmp_path / "target")}
    assert model.evaluate(two) == model.evaluate(one)


def test_any_target_of_a_source_counts_as_right_and_blank_lines_do_not_count(tmp_path):
    model = reversing("transformer")
    pairs = [("abc", "wrong"), ("abc", model("abc")), ("", ""), ("dd", "wrong"), ("", "")]
    file = write_pairs(tmp_path / "test.tsv", pairs)
    assert model.references(file) == {"abc": ["wrong", model("abc")], "dd": ["wrong"]}
    assert model.evaluate(file)["exact"].value == 50


def test_without_a_file_a_model_is_judged_on_what_it_did_not_learn_from():
    model = reversing("transformer")
    assert model.judged_on == "what was held out of data.train"
    assert {name: score.value for name, score in model.evaluate().items()} == model.report["scores"]
    assert len(model.references()) == 60


@pytest.mark.parametrize("data", [42, {"source": "only.txt"}, {"source": "a", "target": "b", "third": "c"}])
def test_what_names_no_pairs_is_told(data):
    with pytest.raises(RegardError, match="data: "):
        reversing("transformer").evaluate(data)


def test_a_file_of_blank_lines_cannot_be_scored(tmp_path):
    (tmp_path / "blank.tsv").write_text("\n\n")
    with pytest.raises(RegardError, match=r"blank\.tsv has no pairs"):
        reversing("transformer").evaluate(tmp_path / "blank.tsv")


def test_two_models_are_compared_on_the_same_pairs(tmp_path):
    good = reversing("transformer")
    bad = regard.train(reversing_recipe(tmp_path), out=tmp_path / "bad", changes=QUICK)
    apart, same = good.compare(bad), good.compare(good)
    assert all(row["p"] == 1 and row["first"] == row["second"] for row in same.values())
    assert apart["ter"]["first"] == pytest.approx(good.report["scores"]["ter"])
    assert apart["ter"]["first"] < apart["ter"]["second"]
    assert apart["ter"]["p"] < 0.05
