"""One text in, one text out: translation, and everything of that shape (spelling to sound, messy to clean).

    batch  → loss       Σ over target tokens of −log P(y_t | y_<t, x), smoothed
    texts  → answers    by greedy, beam or sampling
    answers → scores    BLEU, chrF, TER and exact match; for lexicons word and symbol error
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from regard.data.special import NAMES
from regard.data.tokenizers import Tokenizers
from regard.decoding import DecodingConfig, Hypothesis, align, search, unknown_sources
from regard.layers.embedding import PAD, UNK
from regard.tasks.scores import Score, bleu, lexicon_scores, text_scores
from regard.tasks.vocabulary_loss import divergence, vocabulary_loss


@dataclass(frozen=True)
class Answer:
    """A text, the score it was ranked by, and its tokens."""

    text: str
    score: float
    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]


class Translate:
    """The task, with the tokenizers of both sides."""

    def __init__(self, tokenizers: Tokenizers, *, lexicon: bool = False, smoothing: float = 0.0, r_drop: float = 0.0) -> None:
        self.tokenizers = tokenizers
        self.lexicon = lexicon
        self.smoothing = smoothing
        self.r_drop = r_drop

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        """Summed over the target tokens of the batch.

        A model that draws at random while it learns (hard attention) tells so by `rollout`, and adds what its draws can learn from.
        """
        wanted, source, lengths, given = batch.target[:, 1:], batch.source, batch.source_lengths, batch.target[:, :-1]
        if self.r_drop:  # two passes with different dropout, as one batch twice as high
            wanted, source, given = (x.repeat(2, 1) for x in (wanted, source, given))
            lengths = lengths.repeat(2)
        real = wanted != PAD
        rollout = model.rollout(source, lengths, given) if hasattr(model, "rollout") else None
        hidden = (model(source, lengths, given) if rollout is None else rollout.hidden)[real]
        total, losses = vocabulary_loss(hidden, model.output, wanted[real], smoothing=self.smoothing)
        if rollout is not None:
            total = total + rollout.surrogate(losses.new_zeros(wanted.shape).masked_scatter(real, losses), real)
        if self.r_drop:
            total = total / 2 + self.r_drop * divergence(*hidden.chunk(2), model.output)
        return total

    def answer(
        self, model: nn.Module, texts: Sequence[str], *, decoding: DecodingConfig, prefix: Sequence[str] | None = None
    ) -> list[list[Answer]]:
        """The `n_best` answers to each text, best first, in the order of the texts; nothing is answered to an empty one."""
        sources = self.tokenizers.source.encode(list(texts))
        starts = self.tokenizers.target.encode(list(prefix)) if prefix is not None else [[] for _ in texts]
        answers: list[list[Answer]] = [[Answer("", 0.0, (), ())] for _ in texts]
        device = next(model.parameters()).device
        for rows in _by_length(sources, decoding.batch_tokens):
            source, lengths = padded([sources[row] for row in rows], device)
            found = search(model, source, lengths, config=decoding, prefix=[starts[row] for row in rows])  # type: ignore[arg-type]
            words = self._replacements(model, texts, rows, source, lengths, found) if decoding.replace_unknown else None
            for place, (row, hypotheses) in enumerate(zip(rows, found, strict=True)):
                answers[row] = self._texts(hypotheses, None if words is None else words[place])
        return answers

    def _texts(self, hypotheses: list[Hypothesis], words: list[list[str]] | None) -> list[Answer]:
        texts = self.tokenizers.target.decode([list(found.tokens) for found in hypotheses])
        if words is not None:
            texts = [_fill_in(text, known) for text, known in zip(texts, words, strict=True)]
        return [Answer(t, h.score, h.tokens, h.logprobs) for t, h in zip(texts, hypotheses, strict=True)]

    def _replacements(
        self, model: nn.Module, texts: Sequence[str], rows: list[int], source: Tensor, lengths: Tensor, found: list[list[Hypothesis]]
    ) -> list[list[list[str]]]:
        """For each row and hypothesis, the source words that its unknown tokens looked at most."""
        owner = torch.tensor([place for place, hypotheses in enumerate(found) for _ in hypotheses], device=source.device)
        every = [hypothesis.tokens for hypotheses in found for hypothesis in hypotheses]
        weights = align(model, source[owner], every, lengths[owner])
        words: list[list[list[str]]] = [[] for _ in rows]
        for place, tokens, looked in zip(owner.tolist(), every, weights, strict=True):
            text = texts[rows[place]]
            offsets = self.tokenizers.source.offsets(text)
            chosen = unknown_sources(tokens, looked).values()
            words[place].append([_word_at(text, *offsets[position]) for position in chosen])
        return words

    def alignment(self, model: nn.Module, source: str, answer: Sequence[int]) -> Tensor:
        """How much each token of an answer looked at each token of the source: (T, S)."""
        rows, lengths = padded(self.tokenizers.source.encode([source]), next(model.parameters()).device)
        return align(model, rows, [list(answer)], lengths)[0]

    def scores(self, answers: Sequence[str], references: Sequence[Sequence[str]], *, tokenize: str = "13a") -> dict[str, Score]:
        """What the task is judged by."""
        return lexicon_scores(answers, references) if self.lexicon else text_scores(answers, references, tokenize=tokenize)

    def validation_score(self, answers: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, float]:
        """The one number by which checkpoints are compared."""
        if self.lexicon:
            return {"word_error": lexicon_scores(answers, references)["word_error"].value}
        return {"bleu": bleu(answers, references)}


def padded(rows: Sequence[Sequence[int]], device: torch.device) -> tuple[Tensor, Tensor]:
    """Rows of ids as one tensor (B, S), filled up with PAD, and their lengths (B,)."""
    lengths = torch.tensor([len(row) for row in rows])
    tokens = torch.full((len(rows), int(lengths.max())), PAD)
    for place, row in enumerate(rows):
        tokens[place, : len(row)] = torch.tensor(row)
    return tokens.to(device), lengths.to(device)


def _by_length(sources: Sequence[Sequence[int]], batch_tokens: int) -> Iterator[list[int]]:
    """The rows that say something, those of like length together, at most `batch_tokens` in a batch, padding included."""
    batch: list[int] = []
    for row in sorted((row for row, ids in enumerate(sources) if ids), key=lambda row: len(sources[row])):
        if batch and (len(batch) + 1) * len(sources[row]) > batch_tokens:
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch


def _word_at(text: str, begin: int, end: int) -> str:
    """The word, between spaces, that holds the characters from begin to end."""
    while begin < end and text[begin].isspace():
        begin += 1
    return text[: begin + 1].rpartition(" ")[2][:-1] + text[begin:].partition(" ")[0]


def _fill_in(text: str, words: Sequence[str]) -> str:
    """`text` with the first <unk> replaced by the first word, the second by the second, and so on."""
    for word in words:
        before, _, after = text.partition(NAMES[UNK])
        text = before + word + after
    return text
