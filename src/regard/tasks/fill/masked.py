"""BERT's pretraining: predict masked tokens, and predict whether the second text follows the first.

    loss    mean over masked tokens of −log P(token | the rest)  +  mean of −log P(follows or not)

15 % of the tokens are chosen, anew in each epoch; 80 % of these become [MASK], 10 % become any token, 10 % stay.
                                                                                              Devlin 2019, 3.1
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy
import torch
from tokenizers.models import WordLevel, WordPiece
from torch import Tensor, nn
from torch.nn import functional as F

from regard.data.rows.batches import Draw, RowBatch
from regard.data.rows.framing import IGNORED, Row
from regard.data.tokenizers import Tokenizer
from regard.data.vocabularies import CONTINUED, SPACE
from regard.errors import RegardError
from regard.models.heads import body_of
from regard.tasks.base import Looking, Score, Setting, Sight
from regard.tasks.fill.documents import Document, pack, pair_up
from regard.tasks.fill.reading import FillData, Filled, GapReading, mask_of
from regard.tasks.fill.task import Fill
from regard.tasks.modules import FillsGaps
from regard.tasks.parts import perplexities, shares
from regard.tasks.rows import Choices, Rows, body_config
from regard.tasks.surfaces import Texts
from regard.tasks.together import together

HIDDEN, CHANGED = 0.8, 0.9  # a draw below HIDDEN masks the token, below CHANGED replaces it, above leaves it


class Masked(Fill):
    """The task for models that predict masked tokens. `mask` is the id of the mask."""

    best = "accuracy"
    hidden: ClassVar[str] = "masked tokens"  # what is predicted, in words

    def __init__(self, rows: Rows, *, pairs: bool, share: float, whole_words: bool = False, seed: int = 1) -> None:
        self.rows, self.pairs, self.share, self.seed = rows, pairs, share, seed
        self.mask = mask_of(rows)
        self.reading = GapReading(rows, self.mask)
        self.size = rows.tokenizer.size
        self.silent = rows.framing.special.silent | {self.mask}
        self.continues = _continuations(rows.tokenizer) if whole_words else frozenset()

    @classmethod
    def made(cls, rows: Rows, setting: Setting[FillData]) -> Masked:
        model, data = body_config(setting.model), setting.data
        if not model.says_words():
            raise RegardError('task = "fill" needs the head that fills in words; set model.masked_words=true')
        pairs = model.says_what_follows()
        return cls(rows, pairs=pairs, share=data.mask, whole_words=data.whole_words, seed=setting.seed)

    def encode(self, examples: Sequence[Document]) -> list[Row]:
        """Rows before masking; the target of a row is whether its second text follows the first."""
        documents = [self.rows.tokenizer.encode(list(each.sentences)) for each in examples]
        if self.pairs:
            return pair_up(documents, framing=self.rows.framing, seed=self.seed)
        return pack(documents, framing=self.rows.framing)

    def drawing(self) -> Draw:
        return self.draw

    def _drawn_once(self, rows: Sequence[Row]) -> list[Row]:
        return [self.draw(row, numpy.random.default_rng([0, at])) for at, row in enumerate(rows)]

    def draw(self, row: Row, generator: numpy.random.Generator) -> Row:
        """The row with some tokens masked. The targets are these tokens, and at the first place whether the texts
        follow.

        Words are drawn until `share` of the tokens are masked. If every word is longer than that, a shortest is masked.
        """
        ids, wanted = list(row.ids), [IGNORED] * len(row.ids)
        groups = self.groups(row)
        hide = max(round(self.share * sum(map(len, groups))), min(map(len, groups), default=0))
        for number in generator.permutation(len(groups)).tolist():
            if len(groups[number]) > hide:
                continue
            hide -= len(groups[number])
            for place in groups[number]:
                wanted[place], ids[place] = ids[place], self._instead(ids[place], generator)
        if row.wanted:
            wanted[0] = row.wanted[0]
        return Row(tuple(ids), row.segments, tuple(wanted))

    def groups(self, row: Row) -> list[list[int]]:
        """The places of the tokens that may be hidden; those of a word together, if words are hidden whole."""
        groups: list[list[int]] = []
        for place, token in enumerate(row.ids):
            if token in self.silent:
                continue
            if token in self.continues and groups and groups[-1][-1] == place - 1:
                groups[-1].append(place)
            else:
                groups.append([place])
        return groups

    def loss(self, model: nn.Module, batch: RowBatch, *, plain: bool = False) -> Tensor:
        """The mean over masked tokens plus the mean over pairs, times the number of targets.

        With pairs this is no sum over targets: the weight of a pair depends on how many masked tokens the batch has for
        each pair. Accumulating several batches is therefore close to one large batch, but not equal to it. Without
        pairs the loss is the sum over masked tokens, and both are equal.
        """
        losses = self._losses(model, batch)
        return torch.stack([each.mean() for each, _ in losses]).sum() * batch.targets

    def sight(self, model: nn.Module, asked: Texts, look: Looking) -> Sight:
        """What the model reads of a text or a pair, and which token it chooses for each mask, if there are any."""
        tokenizer = self.rows.tokenizer
        row = self._row(asked)
        places = [place for place, token in enumerate(row.ids) if token == self.mask]

        def said(chosen: Sequence[int]) -> str:
            filled = list(row.ids)
            for place, token in zip(places, chosen, strict=True):
                filled[place] = token
            return tokenizer.decode([filled])[0]

        names = tokenizer.pieces(list(range(len(body_of(model).embedding.table.weight))))
        choices = Choices([names] * len(places), said=said, places=places)
        return self.rows.sight(
            model,
            row,
            asked.title,
            lambda batch: self.words_at(model, batch, places),
            choices=choices.forced(look.reference) if places else None,
        )

    def words_at(self, model: nn.Module, batch: RowBatch, places: Sequence[int]) -> Tensor:
        """The logits of the tokens at the places of masks: (B, N, V)"""
        assert isinstance(model, FillsGaps)
        return model.words(model.states(batch.tokens, batch.lengths, batch.segments)[:, places])

    def scores(self, model: nn.Module, examples: Sequence[Document]) -> dict[str, Score]:
        """The scores on one draw of masks, the same in each call."""
        names = ("accuracy", "next_sentence")

        def part(rows: Sequence[Row]) -> list[tuple[str, float, float]]:
            """Of each masked token, and of each pair: what it counts for, its loss, and whether it is right."""
            found: list[tuple[str, float, float]] = []
            for batch, _ in self.rows.applied(model, rows, lambda batch: batch.tokens):
                with torch.no_grad():
                    both = self._losses(model, batch)
                for name, (losses, right) in zip(names, both, strict=False):
                    found += [(name, *pair) for pair in zip(losses.tolist(), right.float().tolist(), strict=True)]
            return found

        judged = together(self._drawn_once(self.encode(examples)), part)
        how = {"accuracy": f"percent of {self.hidden}", "next_sentence": "percent of pairs judged right"}
        hits = {name: [right for which, _, right in judged if which == name] for name in names}
        percent = {name: 100 * float(torch.tensor(each).mean()) for name, each in hits.items() if each}
        losses = torch.tensor([loss for which, loss, _ in judged if which == names[0]])
        perplexity = Score(float(losses.mean().exp()), f"of {self.hidden}", perplexities(losses.tolist()))
        found = {name: Score(value, how[name], shares(hits[name])) for name, value in percent.items()}
        return found | {"perplexity": perplexity}

    def filled(self, model: nn.Module, asked: Texts) -> list[list[Filled]]:
        row = self.reading.with_gaps(asked, self._row(asked))
        ((_, logits),) = self.rows.applied(model, [row], lambda batch: self.words_at(model, batch, row.targets)[0])
        return self.reading.filled(row, logits.float().cpu().numpy())

    def _losses(self, model: nn.Module, batch: RowBatch) -> list[tuple[Tensor, Tensor]]:
        """The loss of each masked token and whether the prediction is right, and the same for each pair."""
        assert isinstance(model, FillsGaps)
        hidden = model.states(batch.tokens, batch.lengths, batch.segments)
        real = batch.wanted != IGNORED
        real[:, 0] = False
        given = [(model.words(hidden[real]), batch.wanted[real])]
        if self.pairs:
            given.append((model.follows(hidden), batch.wanted[:, 0]))
        return [(F.cross_entropy(a, b, reduction="none"), a.argmax(-1) == b) for a, b in given]

    def _instead(self, token: int, generator: numpy.random.Generator) -> int:
        drawn = generator.random()
        if drawn < HIDDEN:
            return self.mask
        return int(generator.integers(self.size)) if drawn < CHANGED else token

    def _row(self, asked: Texts) -> Row:
        """The row of a text or a pair."""
        return self.reading.row(asked)


def _continuations(tokenizer: Tokenizer) -> frozenset[int]:
    """The tokens that continue a word: in WordPiece those that begin with ##, elsewhere those that do not begin with a
    space. Where no token has a space, as in a vocabulary of words, each token is a word of its own."""
    names, model = tokenizer.vocabulary, tokenizer.inner.model
    if isinstance(model, WordPiece):
        return frozenset(number for name, number in names.items() if name.startswith(CONTINUED))
    if isinstance(model, WordLevel) and " " not in names:
        return frozenset()
    return frozenset(number for name, number in names.items() if not name.startswith((SPACE, "Ġ", " ")))
