"""Fill in what is masked, and say whether a second text follows the first: how BERT learns to read.

    loss    mean over masked tokens of −log P(token | the rest)  +  mean of −log P(follows or not)

Of the tokens 15 % are chosen, anew in each epoch; of these 80 % become [MASK], 10 % any token, 10 % stay.
                                                                                              Devlin 2019, 3.1
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy
import torch
from torch import Tensor
from torch.nn import functional as F

from regard.data.documents import Document, pack, pair_up
from regard.data.framing import IGNORED, Framed
from regard.data.text_batches import TextBatch
from regard.data.tokenizers import Tokenizer
from regard.errors import RegardError
from regard.tasks.reading import Reading, Sight
from regard.tasks.scores import Score

MASK = "[MASK]"
HIDDEN, CHANGED = 0.8, 0.9  # up to here a chosen token is masked, up to there it is another, and from there on itself
MOST = 5  # answers to each mask


class Fill:
    """The task. `mask` is the id of what stands for a hidden token."""

    best = "accuracy"

    def __init__(
        self, reading: Reading, *, pairs: bool, share: float = 0.15, whole_words: bool = False, seed: int = 1
    ) -> None:
        self.reading, self.pairs, self.share, self.seed = reading, pairs, share, seed
        special, inner = reading.framing.special, reading.tokenizer.inner
        found = special.mask if special.mask is not None else inner.token_to_id(MASK)
        if found is None:
            raise RegardError(f"the tokenizer has no {MASK}, so nothing can be masked; take a body that has one")
        self.mask: int = found
        self.size = reading.tokenizer.size
        self.silent = special.silent | {self.mask}
        self.continues = _continuations(reading.tokenizer.vocabulary) if whole_words else frozenset()

    @staticmethod
    def labels_of(examples: Sequence[Document]) -> list[str]:  # noqa: ARG004 - the vocabulary is the tokenizer's
        return []

    @staticmethod
    def texts(examples: Sequence[Document]) -> Iterator[str]:
        return (sentence for example in examples for sentence in example.sentences)

    def encode(self, examples: Sequence[Document]) -> list[Framed]:
        """Rows in which nothing is masked yet; what is wanted of each is whether its second text follows."""
        documents = [self.reading.tokenizer.encode(list(each.sentences)) for each in examples]
        if self.pairs:
            return pair_up(documents, framing=self.reading.framing, seed=self.seed)
        return pack(documents, framing=self.reading.framing)

    def draw(self, row: Framed, generator: numpy.random.Generator) -> Framed:
        """The row with some of its tokens hidden: those are wanted, and at the first place whether the texts follow."""
        ids, wanted = list(row.ids), [IGNORED] * len(row.ids)
        groups: list[list[int]] = []
        for place, token in enumerate(row.ids):
            if token in self.silent:
                continue
            if token in self.continues and groups and groups[-1][-1] == place - 1:
                groups[-1].append(place)
            else:
                groups.append([place])
        tokens = sum(map(len, groups))
        hide = max(1, round(self.share * tokens)) if tokens else 0
        for number in generator.permutation(len(groups)).tolist():
            if len(groups[number]) > hide:
                continue
            hide -= len(groups[number])
            for place in groups[number]:
                wanted[place], ids[place] = ids[place], self._instead(ids[place], generator)
        if row.wanted:
            wanted[0] = row.wanted[0]
        return Framed(tuple(ids), row.segments, tuple(wanted))

    def loss(self, model: Any, batch: TextBatch) -> Tensor:
        """Summed over all that is wanted, where the mean over pairs weighs as much as the mean over masked tokens."""
        losses = self._losses(model, batch)
        return torch.stack([each.mean() for each, _ in losses]).sum() * batch.targets

    def answer(self, model: Any, asked: Sequence[str | Sequence[str]]) -> list[list[Any]]:
        """For the mask in each text, the likeliest tokens; for several masks, a list for each."""
        return [self._fill(model, text if isinstance(text, str) else " ".join(text)) for text in asked]

    def sight(self, model: Any, asked: str | Sequence[str]) -> Sight:
        """What the model reads of a text or a pair, and which token it chooses for each mask, if there are any."""
        texts = [asked] if isinstance(asked, str) else list(asked)
        framing, tokenizer = self.reading.framing, self.reading.tokenizer
        ids = [self._masked(text) for text in texts]
        if sum(map(len, ids)) > framing.maximum - framing.room_taken(pair=len(ids) > 1):
            raise RegardError(f"{texts[0][:40]!r}… is longer than the model reads; shorten it")
        row = framing.frame(*ids)
        places = [place for place, token in enumerate(row.ids) if token == self.mask]

        def logits(batch: TextBatch) -> Tensor:
            hidden = model(batch.tokens, batch.lengths, batch.segments if model.segments is not None else None)
            return model.output(model.transform(hidden[:, places]))

        def said(chosen: Sequence[int]) -> str:
            filled = list(row.ids)
            for place, token in zip(places, chosen, strict=True):
                filled[place] = token
            return tokenizer.decode([filled])[0]

        names = tokenizer.pieces(list(range(model.output.out_features)))
        return Sight(row, " | ".join(texts), logits, names=[names] * len(places), places=places, said=said)

    def scores(self, model: Any, examples: Sequence[Document]) -> dict[str, Score]:
        """On one draw of masks, always the same."""
        rows = [self.draw(row, numpy.random.default_rng([0, at])) for at, row in enumerate(self.encode(examples))]
        names = ("accuracy", "next_sentence")
        hits: dict[str, list[Tensor]] = {name: [] for name in names}
        losses: list[Tensor] = []
        for batch, _ in self.reading.applied(model, rows, lambda batch: batch.tokens):
            with torch.no_grad():
                found = self._losses(model, batch)
            losses.append(found[0][0])
            for name, (_, right) in zip(names, found, strict=False):
                hits[name].append(right)
        how = {"accuracy": "percent of masked tokens", "next_sentence": "percent of pairs judged right"}
        shares = {name: 100 * float(torch.cat(each).float().mean()) for name, each in hits.items() if each}
        perplexity = Score(float(torch.cat(losses).mean().exp()), "of masked tokens")
        return {name: Score(value, how[name]) for name, value in shares.items()} | {"perplexity": perplexity}

    def shown(self, answer: Sequence[Any]) -> list[str]:
        """The text with its mask filled in by the likeliest token; of several masks, those tokens."""
        if isinstance(answer[0], Mapping):
            return [str(answer[0]["sequence"])]
        return [" ".join(each[0]["token_str"] for each in answer)]

    def _losses(self, model: Any, batch: TextBatch) -> list[tuple[Tensor, Tensor]]:
        """For masked tokens, and then for pairs: the loss of each, and whether it was right."""
        hidden = model(batch.tokens, batch.lengths, batch.segments if model.segments is not None else None)
        real = batch.wanted != IGNORED
        real[:, 0] = False
        given = [(model.output(model.transform(hidden[real])), batch.wanted[real])]
        if self.pairs:
            given.append((model.next_sentence(model.pool(hidden)), batch.wanted[:, 0]))
        return [(F.cross_entropy(a, b, reduction="none"), a.argmax(-1) == b) for a, b in given]

    def _instead(self, token: int, generator: numpy.random.Generator) -> int:
        drawn = generator.random()
        if drawn < HIDDEN:
            return self.mask
        return int(generator.integers(self.size)) if drawn < CHANGED else token

    def _masked(self, text: str) -> list[int]:
        """The tokens of a text, where the name of the mask is the mask."""
        name = self.reading.tokenizer.inner.id_to_token(self.mask)
        return [token for piece in self.reading.tokenizer.encode(text.split(name)) for token in (self.mask, *piece)][1:]

    def _fill(self, model: Any, text: str) -> list[Any]:
        ids = self._masked(text)
        if self.mask not in ids:
            name = self.reading.tokenizer.inner.id_to_token(self.mask)
            raise RegardError(f"{text!r} has no {name}; put it where a word is to be filled in")
        if len(ids) > self.reading.framing.maximum - self.reading.framing.room_taken(pair=False):
            raise RegardError(f"{text[:40]!r}… has {len(ids)} tokens, more than the model reads; shorten it")
        ((_, hidden),) = self.reading.applied(model, [self.reading.framing.frame(ids)], lambda b: model(b.tokens))
        places = [place for place, token in enumerate(ids) if token == self.mask]
        with torch.no_grad():
            shares = model.output(model.transform(hidden[0, [place + 1 for place in places]])).softmax(-1)
        tokenizer = self.reading.tokenizer
        found = [likeliest(tokenizer, each, ids, place) for each, place in zip(shares, places, strict=True)]
        return found[0] if len(found) == 1 else found


def likeliest(tokenizer: Tokenizer, shares: Tensor, ids: Sequence[int], place: int) -> list[dict[str, Any]]:
    """The tokens with the largest shares (V,), and the text with each of them at the place."""
    best, tokens = (each.tolist() for each in shares.topk(min(MOST, len(shares))))
    rows = tokenizer.decode([[*ids[:place], token, *ids[place + 1 :]] for token in tokens])
    words = tokenizer.decode([[token] for token in tokens])
    return [
        {"score": score, "token": token, "token_str": word.strip(), "sequence": row}
        for score, token, word, row in zip(best, tokens, words, rows, strict=True)
    ]


def _continuations(vocabulary: Mapping[str, int]) -> frozenset[int]:
    """The tokens that go on with a word: those that begin with ##, or where none does, those without a space."""
    marked = frozenset(number for name, number in vocabulary.items() if name.startswith("##"))
    return marked or frozenset(number for name, number in vocabulary.items() if not name.startswith(("▁", "Ġ")))
