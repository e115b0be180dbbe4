"""Prompts in, continuations out, in order, by CTranslate2.

A text that exceeds what the model can look back on is continued in rounds: each reads the last tokens anew, as torch
does in `decoding/continuing.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from regard.directory import ModelDirectory
from regard.engines.ctranslate2.cache import converted
from regard.engines.ctranslate2.offers import reason_for_torch_to_write
from regard.engines.ctranslate2.plans import ComputeType, Plan, cores
from regard.engines.light import LightEngine
from regard.interchange.expressible import reach
from regard.special import Special
from regard.tasks.base import RunOptions
from regard.tasks.surfaces import Answer
from regard.tasks.write.growing import Growing
from regard.tasks.write.prompts import Prompts

BLOCK = 1024  # tables of positions reach a multiple of this
NO_PENALTY = 1e-30  # with 0 itself CTranslate2 would stop at the first answer and not at `beam` of them


@dataclass
class _Text:
    """A continuation on its way: what is read, what was said, and what each round read and said."""

    context: list[int]
    said: list[int] = field(default_factory=list)
    rounds: list[tuple[list[int], list[int]]] = field(default_factory=list)

    def go_on(self, tokens: list[int]) -> None:
        self.rounds.append((self.context, tokens))
        self.context, self.said = self.context + tokens, self.said + tokens


class GeneratorEngine(LightEngine[str, list[Answer]]):
    """A causal language model, answered by CTranslate2."""

    name = "ctranslate2"

    def __init__(
        self,
        directory: ModelDirectory,
        model: Mapping[str, Any],
        prompts: Prompts,
        *,
        compute_type: ComputeType = "float32",
        why: str = "it was asked for",
        plan: Plan | None = None,
    ) -> None:
        self.directory, self.prompts, self.tokenizer, self.why = directory.path, prompts, prompts.tokenizer, why
        self.learned = reach(model)
        self.special: Special = self.tokenizer.special
        self.vocabulary: int = model.get("vocabulary") or self.tokenizer.size
        precision = "float32" if compute_type == "auto" else compute_type
        self._plan = plan or Plan(precision, workers=cores(), threads=1)
        names = sorted(self.tokenizer.vocabulary, key=self.tokenizer.vocabulary.__getitem__)
        self._names = names + [f"\0{number}" for number in range(len(names), self.vocabulary)]
        self._generator: Any = None
        self._positions = 0

    def reason(self, options: RunOptions) -> str | None:
        return reason_for_torch_to_write(options.decoding, vocabulary=self.vocabulary)

    def open(self, options: RunOptions) -> None:  # noqa: ARG002
        self._ready(self.prompts.reach or BLOCK)

    def answer_all(self, asked: Iterable[str], options: RunOptions, *, together: int) -> Iterator[list[Answer]]:
        remaining = iter(asked)
        while chunk := list(islice(remaining, together)):
            prompts = self.prompts.read(chunk)
            if options.decoding.beam > 1:
                yield from (self._by_beam(prompt, options) for prompt in prompts)
            elif options.stop:
                yield from ([self._until_stopped(prompt, options)] for prompt in prompts)
            else:
                texts = self._continued(prompts, options)
                every = zip(prompts, texts, self._scores(texts, options), strict=True)
                yield from ([self._answer(prompt, text, scored, options)] for prompt, text, scored in every)

    def pieces(self, asked: str, options: RunOptions) -> Iterator[str]:
        """One continuation in pieces, as they come: together they are the first text of `answer_all`."""
        if options.decoding.beam > 1:
            yield next(self.answer_all([asked], options, together=1))[0].text  # a beam is known only at its end
            return
        (prompt,) = self.prompts.read([asked])
        growing, shown = Growing(self.tokenizer, prompt, stop=options.stop), 0
        for _ in self._told(prompt, growing, options):
            if growing.sure > shown:
                yield growing.text[shown : growing.sure]
                shown = growing.sure
        if growing.sure > shown:
            yield growing.text[shown : growing.sure]

    def _told(self, prompt: list[int], growing: Growing, options: RunOptions) -> Iterator[_Text]:
        """A text after each of its tokens, until it ends or stops."""
        text = _Text(prompt or [self.special.bos])
        stopped = False
        while not stopped and (room := self._room(text, options)):
            before, said = text.context, list[int]()
            steps = self._ready(len(before) + room).generate_tokens(
                self._tokens(before), max_length=room, suppress_sequences=self._silent(), end_token=self._end()
            )
            for step in steps:
                if step.token_id != self.special.eos:
                    growing.add(step.token_id)
                said.append(step.token_id)
                stopped = growing.stopped
                yield text
                if stopped:
                    break
            text.go_on(said)
        growing.finish()
        yield text

    def _until_stopped(self, prompt: list[int], options: RunOptions) -> Answer:
        growing = Growing(self.tokenizer, prompt, stop=options.stop)
        *_, text = self._told(prompt, growing, options)
        ((score, logprobs),) = self._scores([text], options)
        return self._made(growing, text.said, score, logprobs, options)

    def _continued(self, prompts: Sequence[list[int]], options: RunOptions) -> list[_Text]:
        """The most probable continuation of each prompt, token by token."""
        texts = [_Text(prompt or [self.special.bos]) for prompt in prompts]
        while alive := [(text, room) for text in texts if (room := self._room(text, options))]:
            for group in _of_equal_length(alive):
                room = min(room for _, room in group)
                results = self._generate([text.context for text, _ in group], options, most=room, beam=1)
                for (text, _), result in zip(group, results, strict=True):
                    text.go_on(result.sequences_ids[0])
        return texts

    def _room(self, text: _Text, options: RunOptions) -> int:
        """How many tokens may follow before the text ends or must be read anew; what it reads is cut if it must."""
        left = options.decoding.max_length - len(text.said)
        if not left or text.said[-1:] == [self.special.eos]:
            return 0
        reach = self.prompts.reach
        if reach is None:
            return left
        if len(text.context) > reach:
            text.context = self.prompts.later(text.context)
        return min(left, reach - len(text.context) + 1)

    def _by_beam(self, prompt: list[int], options: RunOptions) -> list[Answer]:
        decoding = options.decoding
        self.prompts.require_room(prompt, decoding)
        context = prompt or [self.special.bos]
        (result,) = self._generate([context], options, most=decoding.max_length, beam=decoding.beam)
        texts = [_Text(context) for _ in result.sequences_ids]
        for text, tokens in zip(texts, result.sequences_ids, strict=True):
            text.go_on(tokens)
        scores = self._scores(texts, replace(options, scores=True))
        every = zip(texts, scores, strict=True)
        found = [self._answer(prompt, text, scored, options) for text, scored in every]
        return sorted(found, key=lambda answer: -answer.score)

    def _generate(self, contexts: list[list[int]], options: RunOptions, *, most: int, beam: int) -> list[Any]:
        decoding, longest = options.decoding, max(map(len, contexts))
        share = -(-len(contexts) // self._plan.workers)
        results: list[Any] = self._ready(longest + most).generate_batch(
            [self._tokens(context) for context in contexts],
            max_batch_size=1 if beam > 1 else max(min(decoding.batch_tokens // longest, share), 1),
            beam_size=beam,
            num_hypotheses=decoding.n_best,
            length_penalty=decoding.length_penalty or NO_PENALTY,
            suppress_sequences=self._silent(),
            end_token=self._end(),
            return_end_token=True,
            max_length=most,
            include_prompt_in_result=False,
        )
        return results

    def _scores(self, texts: Sequence[_Text], options: RunOptions) -> list[tuple[float, tuple[float, ...]]]:
        """The score of each text and log p of its tokens, over the whole vocabulary; they cost another pass."""
        if not options.scores:
            return [(0.0, ()) for _ in texts]
        rounds = [each for text in texts for each in text.rounds]
        longest = max((len(read) + len(said) for read, said in rounds), default=1)
        scored = iter(
            self._ready(longest).score_batch(
                [self._tokens(read + said) for read, said in rounds],
                max_batch_size=max(options.decoding.batch_tokens // longest, 1),
                max_input_length=0,
            )
        )
        found = []
        for text in texts:
            logprobs = [each for _, said in text.rounds for each in next(scored).log_probs[-len(said) :]]
            found.append((sum(logprobs) / len(logprobs) ** options.decoding.length_penalty, tuple(logprobs)))
        return found

    def _answer(
        self, prompt: list[int], text: _Text, scored: tuple[float, tuple[float, ...]], options: RunOptions
    ) -> Answer:
        spoken = [token for token in text.said if token != self.special.eos]
        return self._made(Growing.of(self.tokenizer, prompt, spoken, options.stop), text.said, *scored, options)

    def _made(
        self, text: Growing, said: list[int], score: float, logprobs: tuple[float, ...], options: RunOptions
    ) -> Answer:
        ended = said[-1:] == [self.special.eos]
        spoken = said[:-1] if ended else said
        pieces = tuple(self.tokenizer.pieces(spoken)) if options.tokens else None
        truncated = not (ended or text.stopped)
        return Answer(text.text, score, tuple(spoken), logprobs, pieces=pieces, truncated=truncated)

    def _ready(self, length: int) -> Any:
        """CTranslate2 with tables that reach texts of this length."""
        if length > self._positions:
            positions = -(-length // BLOCK) * BLOCK
            model = converted(self.directory, positions=positions)
            self._generator = model.open("Generator", self._plan, self.apart)
            self._positions = positions
        return self._generator

    def _tokens(self, numbers: Sequence[int]) -> list[str]:
        return [self._names[number] for number in numbers]

    def _silent(self) -> list[list[str]]:
        """The tokens that are never said: <pad> and <s>, unless they are also the end."""
        numbers = sorted(self.special.silent - {self.special.eos})
        return [[self._names[number]] for number in numbers if number < self.vocabulary]

    def _end(self) -> str:
        return self._names[self.special.eos]


def _of_equal_length(texts: Sequence[tuple[_Text, int]]) -> list[list[tuple[_Text, int]]]:
    """Texts with their rooms, in groups whose contexts are equally long: of others CTranslate2 returns a part of the
    prompt as well."""
    groups: dict[int, list[tuple[_Text, int]]] = {}
    for text, room in texts:
        groups.setdefault(len(text.context), []).append((text, room))
    return list(groups.values())
