"""The input is the beginning of a text, the output is its continuation by a causal language model.

    loss = −Σ_t log P(u_t | u_<t)    perplexity = exp(loss / tokens)    bits per character = loss / (ln 2 · characters)

B blocks  T tokens of a block  M width
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Self

import numpy
import torch
from torch import Tensor, nn

from regard import models
from regard.data.pairs.corpus import Ids
from regard.data.splits import Splits
from regard.data.streams import WHOLE, Batch, Share, Stream
from regard.data.text.blocks import BlockBatch, BlockStream
from regard.data.text.lanes import LaneStream
from regard.data.text.text import Text, hold_out_the_end, open_mixture, open_text
from regard.data.text.tokens import Tokens, tokenise
from regard.data.tokenizers import Tokenizer, Tokenizers
from regard.data.vocabularies import evenly
from regard.decoding.config import DecodingConfig, shortened
from regard.decoding.searches import search
from regard.decoding.tree import Tree
from regard.errors import RegardError
from regard.kernels.vocabulary_loss import vocabulary_loss
from regard.models.facts import ModelConfig
from regard.tasks.base import (
    TEXTS,
    Codec,
    Exam,
    Looking,
    Objective,
    RunOptions,
    Score,
    Setting,
    Side,
    Sight,
    Task,
    Work,
)
from regard.tasks.modules import Carries, Continues, SaysNext
from regard.tasks.parts import TOGETHER, counted
from regard.tasks.surfaces import Answer, Prompt
from regard.tasks.together import of_each
from regard.tasks.write import judging
from regard.tasks.write.data import WriteData, check
from regard.tasks.write.growing import Growing
from regard.tasks.write.judging import device_of
from regard.tasks.write.memory import last_block
from regard.tasks.write.prompts import Prompts, told_of_cut
from regard.tasks.write.writing import Writing

LEARNED = 8000  # characters of a text that a vocabulary learns from at a time
SALIENT = 128  # the longest text for which saliency is computed, in tokens


class Write(Task[WriteData, Text, str, list[Answer], BlockBatch]):
    """The task. `block` is how many tokens are learned in one piece, `reach` how many a model can look back on."""

    forms = ("causal",)
    honours = TEXTS | {"training.label_smoothing", "decoding"}
    data = WriteData
    surface = Prompt()
    looked_at = 40

    def __init__(self, tokenizer: Tokenizer, *, block: int, reach: int | None, smoothing: float = 0.0) -> None:
        self.tokenizer, self.block, self.reach, self.smoothing = tokenizer, block, reach, smoothing
        self.prompts = Prompts(tokenizer, reach)
        self._memories: dict[bool, Mapping[str, Tensor]] = {}  # of the batch before: while learning, and in validation

    @classmethod
    def from_setting(cls, setting: Setting[WriteData], codec: Codec) -> Self:
        """A model that carries its state can look back on everything, another one on `block` tokens."""
        block = setting.data.block or setting.model.block()
        reach = None if setting.model.carries else block
        return cls(codec.texts().source, block=block, reach=reach, smoothing=setting.label_smoothing)

    @classmethod
    def read(cls, entry: object, data: WriteData, *, key: str) -> Text:
        named = list(map(str, entry)) if isinstance(entry, list | tuple) else [str(entry)] if entry else None
        return open_text(named, key=key)

    @classmethod
    def open(cls, setting: Setting[WriteData], work: Work | None) -> Splits[Text]:
        data = setting.data
        check(setting)
        if data.mix:
            train = open_mixture([corpus.path for corpus in data.mix])
        else:
            train = cls.read(data.train, data, key="data.train")
        test = cls.read(data.test, data, key="data.test") if data.test else None
        if data.valid:
            return Splits(train, cls.read(data.valid, data, key="data.valid"), test)
        return Splits(*hold_out_the_end(train, share=data.hold_out), test)

    @classmethod
    def lines(cls, examples: Text) -> Iterator[str]:
        return (line for piece in examples for line in piece.splitlines())

    @classmethod
    def learn(cls, setting: Setting[WriteData], train: Text, body: Codec | None) -> Codec:
        return Codec(Tokenizers(Tokenizer.learn(evenly(train.cuts(LEARNED), size=len), setting.tokenizer)))

    def module(self, model: ModelConfig) -> nn.Module:
        return models.from_config(model, vocabulary=self.tokenizer.size)

    def batches(self, examples: Text, setting: Setting[WriteData], work: Work, *, name: str) -> Stream[BlockBatch]:
        tokens = tokenise(
            examples,
            self.tokenizer,
            folder=work.folder / "text",
            name=name,
            processes=work.processes,
            progress=lambda characters, share: work.advance(f"the {name} text", characters, "characters", share),
        )
        if not len(tokens):
            raise RegardError(f"{examples} has no token; give more text as data.{name}")
        block = self.block if name == "train" else min(self.block, len(tokens))
        rows, carry = max(setting.batch_tokens // block, 1), setting.data.carry
        mixing = setting.data.mixing if name == "train" else None
        if setting.model.continues and mixing is not None:
            raise RegardError(f'data.mix has no effect for kind = "{setting.model.kind}", which reads text in order')
        if setting.model.continues:
            share = work.share if name == "train" else WHOLE
            return LaneStream(tokens, block=block, rows=rows, seed=setting.seed, name=name, share=share)
        return BlockStream(
            tokens,
            block=block,
            rows=rows,
            seed=setting.seed,
            carry=carry,
            name=name,
            share=work.share,
            mixing=mixing,
        )

    def loss(self, model: nn.Module, batch: BlockBatch, *, plain: bool = False) -> Tensor:
        """The smoothed negative log-likelihood, summed over the tokens that count."""
        assert isinstance(model, SaysNext)
        hidden, wanted = self._hidden(model, batch).flatten(0, 1), batch.wanted.flatten()
        if batch.targets < len(wanted):
            counted = batch.counted.flatten()
            hidden, wanted = hidden[counted], wanted[counted]
        return vocabulary_loss(hidden, model.output, wanted, smoothing=0.0 if plain else self.smoothing)[0]

    def _hidden(self, model: nn.Module, batch: BlockBatch) -> Tensor:
        """(B, T, M). A block starts from the state that the tokens before it leave, without their gradients."""
        if batch.fresh is not None:
            return self._continued(model, batch.tokens, batch.fresh)
        if not batch.carried.shape[1]:
            return model(batch.tokens)
        assert isinstance(model, Carries)
        with torch.no_grad():
            _, state = model.read(batch.carried, None)
        return model.read(batch.tokens, state.detach())[0]

    def _continued(self, model: nn.Module, tokens: Tensor, fresh: Tensor) -> Tensor:
        """(B, T, M) after the memory of the batch before, except in rows that are `fresh` (B,)."""
        assert isinstance(model, Continues)
        before, state = self._memories.get(model.training), None
        if before and not fresh.all():
            state = model.recall({name: tensor.to(tokens.device) for name, tensor in before.items()})
            state = state.where(~fresh.unsqueeze(1)) if fresh.any() else state
        hidden, state = model.read(tokens, state)
        self._memories[model.training] = state.tensors()
        return hidden

    def remembered(self) -> Mapping[str, Tensor]:
        return self._memories.get(True, {})

    def remind(self, tensors: Mapping[str, Tensor]) -> None:
        self._memories[True] = tensors

    def quoted(self, batch: Batch) -> list[dict[str, str]]:
        assert isinstance(batch, BlockBatch)
        return [{"text": text} for text in self.tokenizer.decode(batch.wanted.tolist())]

    def objective(self, splits: Splits[Text]) -> Objective:
        return Objective("loss")

    def quick_exam(self, valid: Text, batches: Stream[BlockBatch]) -> Exam:
        tokens = sum(batch.targets for batch in batches.in_order())
        return Exam("nothing beside the loss", lambda _model: {}, work=tokens)

    def exam(self, examples: Text, options: RunOptions, *, tokenize: str = "13a") -> Exam:
        with tempfile.TemporaryDirectory() as folder:
            tokens = tokenise(examples, self.tokenizer, folder=Path(folder), name="judged")
            if not len(tokens):
                raise RegardError(f"{examples} has no token to evaluate on; name another file")
            tokens = replace(tokens, ids=numpy.array(tokens.ids))
        read = 2 * len(tokens)  # windows overlap by half
        return Exam(f"{len(tokens):,} tokens", lambda model: self.scores(model, tokens), work=read)

    def losses(self, model: nn.Module, ids: Ids) -> Tensor:
        """−log P of each token of a text, in order. (n,)"""
        losses = torch.empty(len(ids))
        for places, some in self._judged(model, ids, WHOLE):
            losses[places] = some
        return losses

    def _judged(self, model: nn.Module, ids: Ids, share: Share) -> Iterator[tuple[Tensor, Tensor]]:
        return judging.losses(model, ids, share, block=self.block, special=self.tokenizer.special)

    def scores(self, model: nn.Module, tokens: Tokens) -> dict[str, Score]:
        """Perplexity by token, and bits per character of the text."""

        def judged(share: Share) -> tuple[float, list[float]]:
            """The sum of −log P, and that of every `TOGETHER` tokens."""
            total, near = 0.0, torch.zeros(-(-len(tokens) // TOGETHER), dtype=torch.float64)
            for places, some in self._judged(model, tokens.ids, share):
                total += float(some.double().sum())
                near.index_add_(0, places.flatten() // TOGETHER, some.double().flatten())
            return total, near.tolist()

        found = of_each(judged)
        total, near = math.fsum(each for each, _ in found), torch.tensor([each for _, each in found]).sum(0).tolist()
        sizes = [min(TOGETHER, len(tokens) - at) for at in range(0, len(tokens), TOGETHER)]
        parts = counted(list(zip(near, sizes, strict=True)), form="exp", factor=1.0)
        context = "state carried" if isinstance(model, Carries) else f"sliding window of {self.block}"
        if isinstance(model, Continues):
            context = f"blocks of {self.block}, memory of {model.remembers}"
        unknown = f", {tokens.unknown:,} unknown" if tokens.unknown else ""
        return {
            "perplexity": Score(
                math.exp(min(total / len(tokens), 700)), f"{len(tokens):,} tokens{unknown}, {context}", parts
            ),
            "bits_per_character": Score(total / math.log(2) / tokens.characters, f"{tokens.characters:,} characters"),
        }

    def answer(self, model: nn.Module, asked: Sequence[str], options: RunOptions) -> list[list[Answer]]:
        found = self.continued(model, asked, decoding=options.decoding, stop=options.stop)
        if not options.tokens:
            return found
        return [[replace(a, pieces=tuple(self.tokenizer.pieces(list(a.tokens)))) for a in answers] for answers in found]

    def pieces(self, model: nn.Module, asked: str, options: RunOptions) -> Iterator[str]:
        """One continuation in pieces, as they come: together they are the first text of `answer`."""
        decoding = options.decoding
        if decoding.n_best > 1 or (decoding.beam > 1 and not decoding.sample):
            yield self.answer(model, [asked], options)[0][0].text  # a beam is known only at its end
            return
        shown = 0
        for (text,) in self.writing(model, self.prompts.read([asked]), decoding=decoding, stop=options.stop):
            if text.sure > shown:
                yield text.text[shown : text.sure]
                shown = text.sure

    def continued(
        self,
        model: nn.Module,
        prompts: Sequence[str],
        *,
        decoding: DecodingConfig,
        stop: Sequence[str] = (),
        tree: Tree | None = None,
    ) -> list[list[Answer]]:
        """`n_best` continuations of each prompt, best first; each ends before the first of the strings in `stop`.

        `tree` keeps what a beam search for a single prompt considered.
        """
        every = self.prompts.read(prompts)
        found: list[list[Answer]] = []
        together = max(decoding.batch_tokens // max(max(map(len, every), default=1), 1), 1)
        for start in range(0, len(every), together):
            some = every[start : start + together]
            if decoding.beam > 1 and not decoding.sample:
                found += [self._by_beam(model, prompt, decoding, stop, tree) for prompt in some]
                continue
            writing = self.writing(model, some, decoding=decoding, stop=stop)
            for _ in writing:
                pass
            found += writing.answers()
        return found

    def writing(
        self, model: nn.Module, prompts: Sequence[Sequence[int]], *, decoding: DecodingConfig, stop: Sequence[str] = ()
    ) -> Writing:
        """Continuations on their way, a token at a time."""
        assert isinstance(model, SaysNext)
        return Writing(model, self.tokenizer, prompts, decoding=decoding, reach=self.reach, stop=stop)

    def _by_beam(
        self, model: nn.Module, prompt: list[int], decoding: DecodingConfig, stop: Sequence[str], tree: Tree | None
    ) -> list[Answer]:
        self.prompts.require_room(prompt, decoding)
        assert isinstance(model, SaysNext)
        source = torch.tensor([prompt], dtype=torch.int64, device=device_of(model))
        lengths = torch.tensor([len(prompt)], device=source.device)
        (found,) = search(model, source, lengths, config=decoding, tree=tree)
        texts = [Growing.of(self.tokenizer, prompt, each.tokens, stop) for each in found]
        return [
            Answer(text.text, each.score, each.tokens, each.logprobs, truncated=not (each.ended or text.stopped))
            for text, each in zip(texts, found, strict=True)
        ]

    def sight(self, model: nn.Module, asked: str, look: Looking) -> Sight:
        """The prompt and what follows are read once more, all together: row i of a map is what was looked at when item
        i was said, from the token before it. A `fast` sight is of the text alone."""
        assert isinstance(model, SaysNext)
        tokenizer, tree = self.tokenizer, Tree()
        reference = "" if look.fast and look.reference is None else look.reference
        if reference is None:
            whole, said = self._written(model, asked, look.decoding, tree)
        else:
            whole, said = self._forced(asked, reference), reference
        if isinstance(model, Continues) and model.remembers and len(whole) - 1 > self.block:
            return last_block(model, tokenizer, self.block, asked=asked, whole=whole, said=said)
        device = device_of(model)
        given = torch.tensor([whole[:-1]], device=device)
        target = Side(tuple(tokenizer.pieces(whole[1:])), text=asked + said)

        def logits(places: Tensor | None) -> Tensor:
            if places is None:
                return model.output(model(given))[0]
            rows = torch.arange(len(places), device=device)
            return model.output(model(given.expand(len(places), -1))[rows, places])

        return Sight(
            title=asked,
            source=Side(tuple(tokenizer.tokens(asked)), text=asked),
            logits=logits,
            given=(given,),
            read=model,
            sides=model.looks,
            embedding=model.embedding if len(whole) <= SALIENT + 1 else None,
            salient="target",
            outcome=lambda _chosen: (target, said),
            names=lambda _, numbers: tokenizer.pieces(numbers),
            chosen=whole[1:],
            inputs=tuple(tokenizer.pieces(whole[:-1])),
            beam=tree.to_json(tokenizer.pieces),
            notes=self._notes(asked + (reference or ""), forced=reference is not None),
        )

    def _notes(self, text: str, *, forced: bool) -> tuple[str, ...]:
        """What the viewer must know of a text that is too long to be looked at whole."""
        whole = self.tokenizer.encode([text])[0]
        read = self.prompts.whole(whole) if forced else self.prompts.end(whole)
        return (told_of_cut(whole, read),) if len(read) < len(whole) else ()

    def _written(self, model: nn.Module, text: str, decoding: DecodingConfig, tree: Tree) -> tuple[list[int], str]:
        """The prompt, as far as the model looks back on it, and its continuation: as tokens, and the latter as text."""
        special = self.tokenizer.special
        prompt = self.prompts.end(self.tokenizer.encode([text])[0]) or [special.bos]
        if self.reach is not None:
            decoding = shortened(decoding, max(self.reach - len(prompt), 1))
        answer = self.continued(model, [text], decoding=decoding, tree=tree)[0][0]
        ended = len(answer.logprobs) > len(answer.tokens)
        return [*prompt, *answer.tokens, *([special.eos] if ended else [])], answer.text

    def _forced(self, text: str, reference: str) -> list[int]:
        """Text and reference as one, the last tokens that a model can look back on."""
        whole = self.tokenizer.encode([text + reference])[0]
        if not whole:
            raise RegardError("there is no text to look at; give some")
        whole = whole if len(whole) > 1 else [self.tokenizer.special.bos, *whole]
        return self.prompts.whole(whole)
