"""The input is the beginning of a text, the output is its continuation by a causal language model.

    loss = −Σ_t log P(u_t | u_<t)    perplexity = exp(loss / tokens)    bits per character = loss / (ln 2 · characters)

B blocks  T tokens of a block  M width
"""

from __future__ import annotations

import math
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy
import torch
from pydantic import Field, NonNegativeInt, PositiveInt, model_validator
from torch import Tensor, nn

from regard import models
from regard.data.mixing import MixedTable, WeightedFiles
from regard.data.pairs.corpus import Ids
from regard.data.splits import Splits
from regard.data.streams import WHOLE, Batch, Share, Stream
from regard.data.text.blocks import BlockBatch, BlockStream, read_at, sliding
from regard.data.text.lanes import LaneStream
from regard.data.text.text import Text, hold_out_the_end, open_mixture, open_text
from regard.data.text.tokens import Tokens, tokenise
from regard.data.tokenizers import Tokenizer, Tokenizers
from regard.data.vocabularies import evenly
from regard.decoding.config import DecodingConfig, shortened
from regard.decoding.protocol import evaluation
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
from regard.tasks.counting import counter
from regard.tasks.modules import Carries, Continues, SaysNext
from regard.tasks.surfaces import Answer, Prompt
from regard.tasks.together import of_each
from regard.tasks.write.growing import Writing

TOGETHER = 4096  # tokens judged together
LANES = 32  # parts of a text that a recurrent model is judged on side by side
LEAD = 256  # tokens that it reads before each part, so that its state is that of the text
LEARNED = 8000  # characters of a text that a vocabulary learns from at a time
PROMPT = 1 << 16  # tokens of a prompt that are read at most
MEMORY = "↺"  # before an item that is looked at in memory
WORTHWHILE = 4  # tokens of a part for each that is read before it, at least
SALIENT = 128  # the longest text for which saliency is computed, in tokens


class Lanes(NamedTuple):
    """Parts of a text that are read side by side: how many, how long, how many tokens early they begin, and how many
    tokens of each are read at a time."""

    number: int
    length: int
    lead: int
    step: int


class WriteData(MixedTable):
    """[data] of write."""

    train: str | list[str] | None = Field(
        None, description='a file or URL of plain text, "parts/*.txt.zst" for several, or a list of such'
    )
    mix: list[WeightedFiles] | None = Field(
        None, min_length=1, description="instead of train: corpora, each with a path as train and a weight"
    )
    valid: str | list[str] | None = Field(None, description="as train; without it, the end of train is held out")
    test: str | list[str] | None = Field(None, description="as train")
    hold_out: float = Field(0.1, gt=0, lt=1, description="share of the text held out at its end if valid is missing")
    block: PositiveInt | None = Field(
        None, description="tokens learned in one piece; as many as the model can look back on unless given"
    )
    carry: NonNegativeInt = Field(
        0, description="tokens before each block that are only read, for a kind that carries its state on"
    )

    @model_validator(mode="after")
    def _validates_on_its_own(self) -> Self:
        if self.mix and not self.valid:
            raise ValueError("mix needs valid: the end of a mixture would be the end of its last corpus alone")
        return self


class Write(Task[WriteData, Text, str, list[Answer], BlockBatch]):
    """The task. `block` is how many tokens are learned in one piece, `reach` how many a model can look back on."""

    forms = ("causal",)
    honours = TEXTS | {"training.label_smoothing", "decoding"}
    data = WriteData
    surface = Prompt()
    looked_at = 40

    def __init__(self, tokenizer: Tokenizer, *, block: int, reach: int | None, smoothing: float = 0.0) -> None:
        self.tokenizer, self.block, self.reach, self.smoothing = tokenizer, block, reach, smoothing
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
        _check(setting)
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
            raise RegardError(f"{examples} has not one token; give more text as data.{name}")
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
        return Exam("nothing beside the loss", lambda _model: {})

    def exam(self, examples: Text, options: RunOptions, *, tokenize: str = "13a") -> Exam:
        with tempfile.TemporaryDirectory() as folder:
            tokens = tokenise(examples, self.tokenizer, folder=Path(folder), name="judged")
            if not len(tokens):
                raise RegardError(f"{examples} has not one token to be judged by; name another file")
            tokens = replace(tokens, ids=numpy.array(tokens.ids))
        return Exam(f"{len(tokens):,} tokens", lambda model: self.scores(model, tokens))

    def losses(self, model: nn.Module, ids: Ids) -> Tensor:
        """−log P of each token of a text, in order. (n,)

        Attention looks through windows of `block` tokens, half a window apart: each token is predicted after at least
        half a window. A model that carries its state reads on from beginning to end, in parts side by side that each
        begin some tokens early: `LEAD`, or as many as a memory of limited length depends on.
        """
        losses = torch.empty(len(ids))
        for places, some in self._losses(model, ids, WHOLE):
            losses[places] = some
        return losses

    def _losses(self, model: nn.Module, ids: Ids, share: Share) -> Iterator[tuple[Tensor, Tensor]]:
        """Places (N,) and −log P of the tokens there (N,), for the share of this process."""
        assert isinstance(model, SaysNext)
        more = counter(len(ids))
        with torch.no_grad():
            reading = self._by_lanes if isinstance(model, Carries) else self._by_windows
            for places, hidden in reading(model, ids, share):
                wanted = torch.from_numpy(ids[places.numpy()].astype(numpy.int64)).to(hidden.device)
                yield places, vocabulary_loss(hidden, model.output, wanted)[1].float().cpu()
                more(len(places))

    def _by_windows(self, model: SaysNext, ids: Ids, share: Share) -> Iterator[tuple[Tensor, Tensor]]:
        """Places (N,), and the output of the model for all tokens before them (N, M)."""
        window = min(self.block, len(ids))
        rows, special = max(TOGETHER // window, 1), self.tokenizer.special
        at = 0
        for number, batch in enumerate(sliding(ids, block=window, rows=rows, special=special)):
            places = torch.arange(at, at + batch.targets)
            at += batch.targets
            if number % share.world != share.rank:
                continue
            hidden = model(batch.tokens.to(_device(model)))
            yield places, hidden[batch.counted.to(hidden.device)]

    def _by_lanes(self, model: SaysNext, ids: Ids, share: Share) -> Iterator[tuple[Tensor, Tensor]]:
        """The same for a model that carries its state: each step reads a few more tokens of all parts."""
        assert isinstance(model, Carries)
        lanes = self._lanes(model, len(ids))
        begin = torch.arange(lanes.number)[share.rank :: share.world].unsqueeze(1) * lanes.length
        if not len(begin):
            return

        def tokens_at(places: Tensor) -> Tensor:
            inside = places.clamp(0, len(ids) - 1).numpy()
            return torch.from_numpy(read_at(ids, inside, special=self.tokenizer.special)).to(_device(model))

        state = None
        for start in range(-lanes.lead, 0, lanes.step):
            places = begin + torch.arange(start, min(start + lanes.step, 0))
            _, state = model.read(tokens_at(places), state)
        if state is not None:
            state = state.where((begin > 0).to(_device(model)))
        for start in range(0, lanes.length, lanes.step):
            places = begin + torch.arange(start, min(start + lanes.step, lanes.length))
            hidden, state = model.read(tokens_at(places), state)
            inside = places < len(ids)
            yield places[inside], hidden[inside.to(hidden.device)]

    def _lanes(self, model: Carries[Any], tokens: int) -> Lanes:
        """The parts of a text that are read side by side. For a memory of limited length they are such that each token
        is predicted as if the whole text was read from beginning to end, block by block."""
        if not isinstance(model, Continues):
            number = max(min(LANES, tokens // LEAD), 1)
            return Lanes(number, -(-tokens // number), lead=LEAD, step=max(TOGETHER // number, 1))
        block = min(self.block, tokens)
        lead = -(-model.lead(block) // block) * block
        number = max(min(LANES, tokens // (WORTHWHILE * max(lead, block))), 1)
        return Lanes(number, -(-tokens // (number * block)) * block, lead=lead if number > 1 else 0, step=block)

    def scores(self, model: nn.Module, tokens: Tokens) -> dict[str, Score]:
        """Perplexity by token, and bits per character of the text."""
        total = math.fsum(
            of_each(lambda share: sum(float(some.double().sum()) for _, some in self._losses(model, tokens.ids, share)))
        )
        context = "state carried" if isinstance(model, Carries) else f"sliding window of {self.block}"
        if isinstance(model, Continues):
            context = f"blocks of {self.block}, memory of {model.remembers}"
        unknown = f", {tokens.unknown:,} unknown" if tokens.unknown else ""
        return {
            "perplexity": Score(math.exp(min(total / len(tokens), 700)), f"{len(tokens):,} tokens{unknown}, {context}"),
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
        for (text,) in self.writing(model, self._prompts([asked]), decoding=decoding, stop=options.stop):
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
        every = self._prompts(prompts)
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

    def _prompts(self, texts: Sequence[str]) -> list[list[int]]:
        """The tokens of prompts. Prompts that are too long lose their beginning, and a warning says so."""
        every = self.tokenizer.encode(list(texts))
        read = [self._end(prompt) for prompt in every]
        for whole, end in zip(every, read, strict=True):
            if len(end) < len(whole):
                warnings.warn(f"a prompt is too long: {_cut(whole, end)}", stacklevel=2)
        return read

    def _end(self, prompt: list[int]) -> list[int]:
        """What is read of a prompt: as Continuation, half of what the model can look back on if it is longer."""
        if self.reach is None or self.reach > PROMPT:
            return prompt[-PROMPT:]
        return prompt if len(prompt) <= self.reach else prompt[-max(self.reach // 2, 1) :]

    def writing(
        self, model: nn.Module, prompts: Sequence[Sequence[int]], *, decoding: DecodingConfig, stop: Sequence[str] = ()
    ) -> Writing:
        """Continuations on their way, a token at a time."""
        assert isinstance(model, SaysNext)
        return Writing(model, self.tokenizer, prompts, decoding=decoding, reach=self.reach, stop=stop)

    def _by_beam(
        self, model: nn.Module, prompt: list[int], decoding: DecodingConfig, stop: Sequence[str], tree: Tree | None
    ) -> list[Answer]:
        if self.reach is not None and len(prompt) + decoding.max_length > self.reach:
            raise RegardError(
                f"a beam of {decoding.beam} looks back on all it said, and {len(prompt)} tokens of the prompt with "
                f"max_length={decoding.max_length} are more than the {self.reach} the model can look back on; "
                "set decoding.sample=true, beam=1, or a lower max_length"
            )
        assert isinstance(model, SaysNext)
        source = torch.tensor([prompt], dtype=torch.int64, device=_device(model))
        lengths = torch.tensor([len(prompt)], device=source.device)
        (found,) = search(model, source, lengths, config=decoding, tree=tree)
        return [
            Answer(Writing.text(self.tokenizer, prompt, each.tokens, stop), each.score, each.tokens, each.logprobs)
            for each in found
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
            return self._sight_with_memory(model, asked, whole, said)
        device = _device(model)
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
        read = self._last(whole) if forced else self._end(whole)
        return (_cut(whole, read),) if len(read) < len(whole) else ()

    def _sight_with_memory(self, model: SaysNext, asked: str, whole: list[int], said: str) -> Sight:
        """The last block of a longer text: it is seen to look at itself, and at the memory of what was before."""
        assert isinstance(model, Continues)
        tokenizer, block = self.tokenizer, self.block
        given, state = torch.tensor([whole[:-1]], device=_device(model)), None
        with evaluation(model):
            for segment in given[:, :-block].split(block, 1):
                _, state = model.read(segment, state)
        assert state is not None
        held = state.tensors()

        def read(tokens: Tensor, *memory: Tensor) -> Tensor:
            recalled = model.recall(dict(zip(held, memory, strict=True)))
            return model.output(model.read(tokens, recalled)[0])

        shown = (given[:, -block:], *held.values())
        kept = min(model.remembers, given.shape[1] - block)
        memory = tokenizer.pieces(whole[-1 - block - kept : -1 - block])
        items = (*(f"{MEMORY}{item}" for item in memory), *tokenizer.pieces(whole[-1 - block : -1]))
        target = Side(tuple(tokenizer.pieces(whole[-block:])), text=said)
        return Sight(
            title=asked,
            source=Side(items, text=asked),
            logits=lambda _places: read(*shown)[0],
            given=shown,
            read=read,
            sides=lambda _path: ("target", "source"),
            embedding=None,
            outcome=lambda _chosen: (target, said),
            names=lambda _, numbers: tokenizer.pieces(numbers),
            chosen=whole[-block:],
            notes=(
                f"The last {block} tokens are shown, each as it was predicted, from the token before it. Items with "
                f"{MEMORY} are the memory: states of the tokens before, kept from earlier blocks.",
            ),
        )

    def _written(self, model: nn.Module, text: str, decoding: DecodingConfig, tree: Tree) -> tuple[list[int], str]:
        """The prompt, as far as the model looks back on it, and its continuation: as tokens, and the latter as text."""
        special = self.tokenizer.special
        prompt = self._end(self.tokenizer.encode([text])[0]) or [special.bos]
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
        return self._last(whole)

    def _last(self, whole: list[int]) -> list[int]:
        return whole[-min(self.reach or PROMPT, PROMPT) - 1 :]


def _check(setting: Setting[WriteData]) -> None:
    """Refuse settings that cannot be, before anything is read."""
    data, model = setting.data, setting.model
    if data.carry and not model.carries:
        causal = {kind: models.config_class(kind) for kind in models.kinds("causal")}
        able = ", ".join(kind for kind, each in causal.items() if each.carries and not each.continues)
        raise RegardError(
            f'data.carry={data.carry} is for kinds that carry their state ({able}), and not for "{model.kind}"; '
            "set it to 0"
        )
    if data.carry and model.continues:
        raise RegardError(
            f'data.carry={data.carry} is for blocks in any order, and kind = "{model.kind}" reads them one after the '
            "other, with its memory; set data.carry to 0"
        )
    if setting.tokenizer.kind == "wordpiece":
        raise RegardError('tokenizer.kind = "wordpiece" loses line ends and spaces; to write, try "byte_bpe"')
    longest, block = model.reads(), data.block or model.block()
    if longest is not None and block > longest:
        raise RegardError(f"data.block={block} exceeds the {longest} learned positions; set model.maximum={block}")


def _cut(whole: Sequence[int], end: Sequence[int]) -> str:
    return f"only the last {len(end):,} of {len(whole):,} tokens are read"


def _device(model: SaysNext) -> torch.device:
    return next(model.parameters()).device
