"""One text in, one text out: translation, and everything of that shape (spelling to sound, messy to clean).

batch  → loss       Σ over target tokens of −log P(y_t | y_<t, x), smoothed
texts  → answers    by greedy, beam or sampling
answers → scores    BLEU, chrF, TER and exact match; for lexicons word and symbol error
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from regard.data.batches import SourceBatch, source_batches
from regard.data.tokenizers import Tokenizers
from regard.decoding import DecodingConfig, Hypothesis, align, search, side_by_side, unknown_sources
from regard.tasks.answers import NOTHING, Answer, fill_in, source_words, word_alignment, worth_asking
from regard.tasks.r_drop import r_drop_loss
from regard.tasks.scores import Score, bleu, lexicon_scores, text_scores
from regard.tasks.significance import Comparison, compare_lexicons, compare_texts
from regard.tasks.vocabulary_loss import vocabulary_loss


class Translate:
    """The task, with the tokenizers of both sides."""

    def __init__(
        self, tokenizers: Tokenizers, *, lexicon: bool = False, smoothing: float = 0.0, r_drop: float = 0.0
    ) -> None:
        self.tokenizers = tokenizers
        self.lexicon = lexicon
        self.smoothing = smoothing
        self.r_drop = r_drop

    def loss(self, model: Any, batch: Any) -> Tensor:
        """Summed over the target tokens of the batch.

        A model that draws at random while it learns (hard attention) says so by `rollout`, and adds what its draws can
        learn from.
        """
        wanted, source, lengths, given = batch.target[:, 1:], batch.source, batch.source_lengths, batch.target[:, :-1]
        if self.r_drop:  # two passes with different dropout, as one batch twice as high
            wanted, source, given = (x.repeat(2, 1) for x in (wanted, source, given))
            lengths = lengths.repeat(2)
        real = wanted != self.tokenizers.special.pad
        rollout = model.rollout(source, lengths, given) if hasattr(model, "rollout") else None
        hidden, targets = (model(source, lengths, given) if rollout is None else rollout.hidden)[real], wanted[real]
        if self.r_drop:
            first, second = hidden.chunk(2)
            total, losses = r_drop_loss(
                first, second, model.output, targets.chunk(2)[0], weight=self.r_drop, smoothing=self.smoothing
            )
        else:
            total, losses = vocabulary_loss(hidden, model.output, targets, smoothing=self.smoothing)
        if rollout is not None:
            surrogate = rollout.surrogate(losses.new_zeros(wanted.shape).masked_scatter(real, losses), real)
            total = total + (surrogate / 2 if self.r_drop else surrogate)
        return total

    def answer(
        self, model: Any, texts: Sequence[str], *, decoding: DecodingConfig, prefix: Sequence[str] | None = None
    ) -> list[list[Answer]]:
        """The `n_best` answers to each text, best first, in the order of the texts; to an empty one, the empty one."""
        sources = self.tokenizers.source.encode(list(texts))
        asked = worth_asking(texts, sources)
        starts = self.tokenizers.target.encode(list(prefix)) if prefix is not None else [[] for _ in texts]
        device = next(model.parameters()).device

        def work(batch: SourceBatch) -> list[list[Answer]]:
            rows = [asked[place] for place in batch.rows]
            source, lengths = batch.source.to(device), batch.source_lengths.to(device)
            found = search(model, source, lengths, config=decoding, prefix=[starts[row] for row in rows])
            if not decoding.replace_unknown:
                return [self._texts(hypotheses, None) for hypotheses in found]
            words = self._replacements(model, [texts[row] for row in rows], source, lengths, found)
            return [self._texts(hypotheses, known) for hypotheses, known in zip(found, words, strict=True)]

        batches = list(self._batches([sources[row] for row in asked], decoding.batch_tokens))
        watched = decoding.replace_unknown or decoding.coverage_penalty
        found = map(work, batches) if watched else side_by_side(model, work, batches)
        answers: list[list[Answer]] = [[NOTHING] for _ in texts]
        for batch, said in zip(batches, found, strict=True):
            for place, answer in zip(batch.rows, said, strict=True):
                answers[asked[place]] = answer
        return answers

    def _batches(self, sources: list[list[int]], batch_tokens: int) -> Iterator[SourceBatch]:
        return source_batches(sources, batch_tokens=batch_tokens, special=self.tokenizers.special)

    def _texts(self, hypotheses: list[Hypothesis], words: list[list[str]] | None) -> list[Answer]:
        texts = self.tokenizers.target.decode([list(found.tokens) for found in hypotheses])
        if words is not None:
            unknown = self.tokenizers.target.unknown
            texts = [fill_in(text, known, unknown=unknown) for text, known in zip(texts, words, strict=True)]
        return [Answer(t, h.score, h.tokens, h.logprobs) for t, h in zip(texts, hypotheses, strict=True)]

    def _replacements(
        self, model: Any, texts: Sequence[str], source: Tensor, lengths: Tensor, found: list[list[Hypothesis]]
    ) -> list[list[list[str]]]:
        """For each row and hypothesis, the source words that its unknown tokens looked at most."""
        owner = torch.tensor([row for row, hypotheses in enumerate(found) for _ in hypotheses], device=source.device)
        every = [hypothesis.tokens for hypotheses in found for hypothesis in hypotheses]
        weights = align(model, source[owner], every, lengths[owner])
        words: list[list[list[str]]] = [[] for _ in found]
        for row, tokens, looked in zip(owner.tolist(), every, weights, strict=True):
            unk = self.tokenizers.special.unk
            chosen = unknown_sources(tokens, looked[:, :-1], unk=unk).values()  # EOS, the last, is no word
            words[row].append(source_words(texts[row], chosen, tokenizer=self.tokenizers.source))
        return words

    def alignment(self, model: Any, source: str, answer: Sequence[int]) -> Tensor:
        """How much each token of an answer looked at each token of the source and at its end: (T, S + 1)."""
        device = next(model.parameters()).device
        (batch,) = self._batches(self.tokenizers.source.encode([source]), 1)
        return align(model, batch.source.to(device), [list(answer)], batch.source_lengths.to(device))[0]

    def word_alignment(self, model: Any, source: str, answer: Answer) -> list[tuple[int, int]]:
        """For each word of the answer, the source word it looked at most: (source, target) by number, from 0."""
        weights = self.alignment(model, source, answer.tokens)[:, :-1]  # EOS is no word
        return word_alignment(weights.tolist(), source, answer.tokens, tokenizers=self.tokenizers)

    def scores(
        self, answers: Sequence[str], references: Sequence[Sequence[str]], *, tokenize: str = "13a"
    ) -> dict[str, Score]:
        """What the task is judged by."""
        if self.lexicon:
            return lexicon_scores(answers, references)
        return text_scores(answers, references, tokenize=tokenize)

    def compare(
        self,
        first: Sequence[str],
        second: Sequence[str],
        references: Sequence[Sequence[str]],
        *,
        tokenize: str = "13a",
    ) -> Comparison:
        """The scores of two models' answers, and how likely their difference is chance."""
        if self.lexicon:
            return compare_lexicons(first, second, references)
        return compare_texts(first, second, references, tokenize=tokenize)

    def validation_score(self, answers: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, float]:
        """The one number by which checkpoints are compared."""
        if self.lexicon:
            return {"word_error": lexicon_scores(answers, references)["word_error"].value}
        return {"bleu": bleu(answers, references)}
