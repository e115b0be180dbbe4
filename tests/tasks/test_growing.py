"""A text that is decoded at once is the one that grows token by token."""

import random

import pytest

from regard.data.tokenizers import Tokenizer
from regard.tasks.write.growing import Growing

TEXTS = ["der hund läuft über die straße .", "ein 🐕 schläft", "日本語 テスト"]


@pytest.mark.parametrize("kind", ["bpe", "unigram", "wordpiece", "bytes", "byte_bpe", "characters", "words"])
def test_all_tokens_at_once_are_as_one_by_one(kind):
    tokenizer = Tokenizer.train(TEXTS * 3, kind=kind, vocabulary=300)
    draw = random.Random(0)
    rows = [[draw.randrange(4, tokenizer.size) for _ in range(draw.randint(0, 30))] for _ in range(200)]
    for row in [*rows, *tokenizer.encode(TEXTS)]:
        prompt, tokens = row[: len(row) // 3], row[len(row) // 3 :]
        growing = Growing(tokenizer, prompt)
        for token in tokens:
            growing.add(token)
        growing.finish()
        assert Growing.of(tokenizer, prompt, tokens, ()).text == growing.text
