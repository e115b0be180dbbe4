"""The input is a picture, the output is a text about it.

batch    → loss       Σ over target tokens of −log P(y_t | y_<t, picture), smoothed
pictures → answers    by greedy search, beam search or sampling
answers  → scores     BLEU, chrF, TER and exact match with any of the captions; on drawn pictures also the pointing game

Every score is of captions that the model has written by itself, token after token, and never of teacher forcing.

N pictures  B batch  C channels  H height  W width  T tokens  S places
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import ClassVar, Self

import numpy
import torch
from torch import Tensor, nn

from regard import models
from regard.checking import check
from regard.data.captions.batches import CaptionBatch, CaptionStream, tensor_of
from regard.data.captions.examples import Captioned, CaptionsData, looks_of, open_splits, pixels, read_captions
from regard.data.pictures.frames import frame_for
from regard.data.pictures.reading import Pixels
from regard.data.splits import Splits
from regard.data.streams import Batch, Stream
from regard.data.tokenizers import Tokenizer, Tokenizers
from regard.decoding import DecodingConfig, Hypothesis, align, search, side_by_side
from regard.decoding.tree import Tree
from regard.errors import RegardError
from regard.models.facts import ModelConfig
from regard.tasks.base import Codec, Exam, Looking, Objective, RunOptions, Score, Setting, Sight, Task, Work
from regard.tasks.caption.pointing import pointing, words_of
from regard.tasks.counting import counter
from regard.tasks.modules import Describes
from regard.tasks.pictures import Asked, Measured, shown_as, side_of
from regard.tasks.saying import answers_of, sight_of, target_loss
from regard.tasks.scores import text_scores
from regard.tasks.surfaces import SEARCH, Answer, TextsOut
from regard.tasks.together import together

QUICK = 500  # pictures that validation describes: enough to rank checkpoints by
RANKING = ("bleu", "exact", "pointing")  # the scores of validation
TOGETHER = 64  # pictures described in one batch


class PictureToTexts(TextsOut[Asked]):
    """A picture in, texts out, best first."""

    pipeline = "image-to-text"
    example = "photo.jpg"
    options = SEARCH | {"prefix"}
    files = True

    def parse(self, line: str) -> Asked:
        return Asked(line)

    def from_json(self, body: object) -> Asked:
        return Asked.from_json(body)

    def from_request(self, body: object) -> Asked:
        return Asked.from_request(body)


class Caption(Task[CaptionsData, Captioned, Asked, list[Answer], CaptionBatch]):
    """The task, with the tokenizer of captions and what was measured on the pictures."""

    forms = ("captions",)
    honours = frozenset({"tokenizer", "training.batch_size", "training.label_smoothing", "decoding"})
    defaults: ClassVar = {"tokenizer.kind": "words"}
    searched = True
    data = CaptionsData
    surface = PictureToTexts()

    def __init__(self, tokenizer: Tokenizer, measured: Measured, *, smoothing: float = 0.0) -> None:
        self.tokenizer, self.measured, self.smoothing = tokenizer, measured, smoothing

    @classmethod
    def from_setting(cls, setting: Setting[CaptionsData], codec: Codec) -> Self:
        measured = check(Measured, dict(codec.numbers), where="numbers.json")
        return cls(codec.texts().target, measured, smoothing=setting.label_smoothing)

    @classmethod
    def read(cls, entry: object, data: CaptionsData, *, key: str) -> Captioned:
        named = check(CaptionsData, {"test": str(entry) if isinstance(entry, Path) else entry}, where=key)
        return read_captions(named.test, data.columns, key=key)

    @classmethod
    def open(cls, setting: Setting[CaptionsData], work: Work | None) -> Splits[Captioned]:
        return open_splits(setting.data, seed=setting.seed)

    @classmethod
    def lines(cls, examples: Captioned) -> Iterator[str]:
        return iter(examples.lines)

    @classmethod
    def learn(cls, setting: Setting[CaptionsData], train: Captioned, body: Codec | None) -> Codec:
        """The vocabulary of the captions, the size of the pictures, and the mean and deviation of each channel."""
        data = setting.data
        frame = frame_for(looks_of(train.lines), size=data.size, channels=data.channels, fit=data.fit)
        measured = Measured.of(train.pixels(frame), frame)
        texts = (caption for captions in train.captions for caption in captions)
        tokenizer = Tokenizer.learn(texts, setting.tokenizer)
        return Codec(Tokenizers(tokenizer), numbers=measured.model_dump(mode="json"))

    def module(self, model: ModelConfig) -> nn.Module:
        frame = self.measured.frame
        return models.from_config(
            model, vocabulary=self.tokenizer.size, channels=frame.channels, rows=frame.rows, columns=frame.columns
        )

    def batches(self, examples: Captioned, setting: Setting[CaptionsData], work: Work, *, name: str) -> CaptionStream:
        owners = [number for number, captions in enumerate(examples.captions) for _ in captions]
        ids = self.tokenizer.encode([caption for captions in examples.captions for caption in captions])
        longest = setting.data.max_length
        kept = [number for number, row in enumerate(ids) if 0 < len(row) <= longest]
        if not kept:
            raise RegardError(f"no caption of data.{name} has 1 to {longest} tokens; raise data.max_length")
        if left := len(ids) - len(kept):
            work.tell(f"{left:,} captions of data.{name} do not have 1 to {longest} tokens: left out", milestone=True)
        return CaptionStream(
            examples.pixels(self.measured.frame, work.folder),
            [ids[number] for number in kept],
            [owners[number] for number in kept],
            batch_size=setting.batch_size,
            seed=setting.seed,
            special=self.tokenizer.special,
            share=work.share,
        )

    def loss(self, model: nn.Module, batch: CaptionBatch, *, plain: bool = False) -> Tensor:
        assert isinstance(model, Describes)
        pictures, pad = self.measured.prepared(batch.pictures), self.tokenizer.special.pad or 0
        return target_loss(model, pictures, None, batch.target, pad=pad, smoothing=0.0 if plain else self.smoothing)

    def quoted(self, batch: Batch) -> list[dict[str, str]]:
        assert isinstance(batch, CaptionBatch)
        return [{"text": text} for text in self.tokenizer.decode(batch.target.tolist())]

    def objective(self, splits: Splits[Captioned]) -> Objective:
        return Objective("bleu", higher=True)

    def quick_exam(self, valid: Captioned, batches: Stream[CaptionBatch]) -> Exam:
        """Greedy captions of some pictures."""
        some = valid if len(valid) <= QUICK else valid.take(sorted(Random(0).sample(range(len(valid)), QUICK)))
        longest = max(batch.target.shape[1] for batch in batches.in_order())
        whole = self.exam(some, RunOptions(DecodingConfig(beam=1, max_length=longest + longest // 2)))

        def scores(model: nn.Module) -> dict[str, Score]:
            return {name: score for name, score in whole.scores(model).items() if name in RANKING}

        return Exam(whole.about, scores)

    def exam(self, examples: Captioned, options: RunOptions, *, tokenize: str = "13a") -> Exam:
        things, shown = examples.things(), examples.pixels(self.measured.frame)

        def scores(model: nn.Module) -> dict[str, Score]:
            best = together(shown, lambda some: self._best(model, some, options.decoding))
            found = text_scores([text for text, _ in best], examples.captions, tokenize=tokenize)
            if not things:
                return found
            assert isinstance(model, Describes)
            captions = self._words(model, shown, [tokens for _, tokens in best])
            return {**found, "pointing": pointing(captions, things, model.grids()["source"], self.measured.frame[:2])}

        return Exam(f"{len(examples):,} pictures", scores)

    def _best(self, model: nn.Module, pictures: Pixels, decoding: DecodingConfig) -> list[tuple[str, list[int]]]:
        """The best caption of each picture, and its tokens."""
        return [(best.text, list(best.tokens)) for best, *_ in self.describe(model, pictures, decoding)]

    def _words(
        self, model: Describes, pictures: Pixels, said: Sequence[Sequence[int]]
    ) -> Iterator[list[tuple[str, Tensor]]]:
        """The words of each caption, with how much each looked at each place of the picture (S,)."""
        assert isinstance(model, nn.Module)
        waiting = iter(said)
        for batch in self._batches(model, pictures):
            tokens = [next(waiting) for _ in batch]
            weights = align(model, batch, tokens, _places(model, batch))  # (T, S) each
            yield from (words_of(*each, self.tokenizer) for each in zip(tokens, weights, strict=True))

    def answer(self, model: nn.Module, asked: Sequence[Asked], options: RunOptions) -> list[list[Answer]]:
        if not asked:
            return []
        found = self.describe(model, self._pixels(asked), options.decoding, prefix=options.prefix)
        if not options.tokens:
            return found
        pieces = self.tokenizer.pieces
        return [[replace(each, pieces=tuple(pieces(list(each.tokens)))) for each in answers] for answers in found]

    def _pixels(self, asked: Sequence[Asked]) -> Pixels:
        """The pictures that are asked about: (N, H, W, C)"""
        if all(each.is_file for each in asked):
            return pixels([each.name for each in asked], self.measured.frame)
        return numpy.stack([each.pixels(self.measured.frame) for each in asked])

    def describe(
        self, model: nn.Module, pictures: Pixels, decoding: DecodingConfig, *, prefix: str | None = None
    ) -> list[list[Answer]]:
        """The `n_best` captions of each picture (N, H, W, C), best first."""
        assert isinstance(model, Describes)
        start = self.tokenizer.encode([prefix])[0] if prefix else []
        more = counter(len(pictures))

        def work(batch: Tensor) -> list[list[Hypothesis]]:
            found = search(model, batch, _places(model, batch), config=decoding, prefix=[start] * len(batch))
            more(len(batch))
            return found

        batches = self._batches(model, pictures)
        found = map(work, batches) if decoding.coverage_penalty else side_by_side(model, work, batches)
        return [answers_of(each, self.tokenizer) for batch in found for each in batch]

    def _batches(self, model: Describes, pictures: Pixels) -> Iterator[Tensor]:
        """Pictures as the model reads them, some at a time: (B, C, H, W)"""
        device = next(model.parameters()).device
        for begin in range(0, len(pictures), TOGETHER):
            yield self.measured.prepared(tensor_of(pictures[begin : begin + TOGETHER]).to(device))

    def sight(self, model: nn.Module, asked: Asked, look: Looking) -> Sight:
        """The caption is found without recording, and is then read once more with recording."""
        assert isinstance(model, Describes)
        picture = self._pixels([asked])
        (source,) = self._batches(model, picture)
        tree: Tree | None = None
        if look.reference is not None:
            said: Sequence[int] = self.tokenizer.encode([look.reference])[0]
        else:
            decoding = look.decoding.model_copy(update={"beam": 1, "n_best": 1}) if look.fast else look.decoding
            tree = None if look.fast else Tree()
            said = search(model, source, _places(model, source), config=decoding, tree=tree)[0][0].tokens
        return sight_of(
            model,
            source,
            said,
            title=asked.name,
            side=side_of(model.grids()["source"], shown_as(picture[0]), asked.name),
            tokenizer=self.tokenizer,
            embedding=model.encoder,
            tree=tree,
        )


def _places(model: Describes, pictures: Tensor) -> Tensor:
    """How many places each picture has (B,); all have the same number."""
    grid = model.grids()["source"]
    return torch.full((len(pictures),), grid.rows * grid.columns, device=pictures.device)
