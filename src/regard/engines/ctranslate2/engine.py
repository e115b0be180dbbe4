"""Texts in, answers out, in order, by CTranslate2.

Lines are taken in chunks, the next while one is being answered. CTranslate2 sorts a chunk by length, cuts it into
batches by tokens and shares these among its workers.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from regard.data.tokenizers import Tokenizers
from regard.decoding.config import shortened
from regard.directory import ModelDirectory
from regard.engines.ctranslate2.cache import Converted, converted
from regard.engines.ctranslate2.offers import reason_for_torch
from regard.engines.ctranslate2.plans import Plan, outgrown, plan
from regard.engines.ctranslate2.precision import EXACT, Form
from regard.engines.light import LightEngine
from regard.errors import RegardError
from regard.interchange.expressible import reach
from regard.special import BOS, EOS, NAMES, PAD, UNK
from regard.tasks.base import TOGETHER, RunOptions
from regard.tasks.surfaces import NOTHING, Answer
from regard.tasks.translate.words import fill_in, source_words, word_alignment, worth_asking

BLOCK = 1024  # tables of positions reach a multiple of this
AHEAD = 1  # chunks given to the workers before the answers of one are waited for
BATCH = 512  # source tokens at a time, at most: more are slower, and leave cores idle at the end
BULK = 512  # with fewer source tokens together, a measured shortlist allows too few tokens
SAMPLE = 32  # texts by which plans are measured
NO_PENALTY = 1e-30  # with 0 itself CTranslate2 would stop at the first answer and not at `beam` of them


def _settings(options: RunOptions, *, shortlist: bool) -> dict[str, Any]:
    """The arguments for CTranslate2; the length of an answer counts EOS, and <pad> and <s> are never generated."""
    decoding = options.decoding
    return {
        "beam_size": decoding.beam,
        "num_hypotheses": decoding.n_best,
        "length_penalty": decoding.length_penalty or NO_PENALTY,
        "coverage_penalty": decoding.coverage_penalty,
        "min_decoding_length": decoding.min_length,
        "max_decoding_length": decoding.max_length,
        "no_repeat_ngram_size": decoding.no_repeat_ngram,
        "suppress_sequences": [[NAMES[PAD]], [NAMES[BOS]]],
        "return_end_token": True,
        "return_scores": options.scores or decoding.beam > 1,
        "return_attention": options.alignment or decoding.replace_unknown,
        "max_input_length": 0,
        "use_vmap": shortlist,
    }


def _alone(options: RunOptions) -> bool:
    """Whether each text is a batch of its own.

    In a beam CTranslate2 takes the weights of the first step from a neighbour in the batch (4.8.4).
    """
    decoding = options.decoding
    watched = options.alignment or decoding.replace_unknown or decoding.coverage_penalty
    return decoding.beam > 1 and bool(watched)


@dataclass(frozen=True)
class Said:
    """One answer as CTranslate2 gives it: the names of its tokens, with EOS if it was reached."""

    names: list[str]
    score: float  # 0 where no scores are asked for
    looked: list[list[float]]  # a row for each name, a column for each token of the source; empty unless asked for
    logprobs: tuple[float, ...] = ()  # of each name; empty unless scores are asked for

    @property
    def ended(self) -> bool:
        return self.names[-1:] == [NAMES[EOS]]

    @property
    def words(self) -> list[str]:
        return self.names[:-1] if self.ended else self.names


@dataclass(frozen=True)
class Pending:
    """A chunk that the workers translate: its texts, which of them are not empty, their tokens, and the future
    results."""

    texts: list[str]
    asked: list[int]
    sources: list[list[str]]
    results: list[Any]
    engine: Any


class CTranslate2Engine(LightEngine[str, list[Answer]]):
    """A model that translates, answered by CTranslate2."""

    name = "ctranslate2"

    def __init__(
        self,
        directory: ModelDirectory,
        model: Mapping[str, Any],
        tokenizers: Tokenizers,
        *,
        form: Form = EXACT,
        why: str = "it was asked for",
        plan: Plan | None = None,
    ) -> None:
        self.directory, self.tokenizers, self.form, self.why = directory.path, tokenizers, form, why
        self.model = model
        self.learned = reach(model)
        self._source, self._target = _names(tokenizers.source.vocabulary), _names(tokenizers.target.vocabulary)
        self._numbers = tokenizers.target.vocabulary
        self._engine: Any = None
        self._given, self._plan = plan, plan
        self._planned = 0  # for how many lines the plan was chosen
        self._positions = 0

    def reason(self, options: RunOptions) -> str | None:
        target = self.tokenizers.target
        prefix = target.encode([options.prefix])[0] if options.prefix else []
        return reason_for_torch(self.model, options.decoding, vocabulary=target.size, prefix=prefix)

    def open(self, options: RunOptions) -> None:
        quick = replace(options, decoding=shortened(options.decoding, 1))
        list(self.answer_all(["."], quick, together=1))

    def answer_all(
        self, asked: Iterable[str], options: RunOptions, *, together: int = TOGETHER
    ) -> Iterator[list[Answer]]:
        """The answers in order, so many texts `together`; nothing is read ahead when that is one."""
        remaining, waiting = iter(asked), deque[Pending]()
        while chunk := list(islice(remaining, together)):
            waiting.append(self._submit(chunk, options))
            if together == 1 or len(waiting) > AHEAD:
                yield from self._collect(waiting.popleft(), options)
        for pending in waiting:
            yield from self._collect(pending, options)

    def _submit(self, texts: list[str], options: RunOptions) -> Pending:
        ids = self.tokenizers.source.encode(texts)
        asked = worth_asking(texts, ids)
        if not asked:
            return Pending(texts, [], [], [], None)
        sources = [[self._source[number] for number in ids[row]] for row in asked]
        engine = self._ready(sources, options)
        share = -(-sum(len(source) + 1 for source in sources) // engine.num_translators)
        results = self._translate(engine, sources, options, at_most=share)
        return Pending(texts, asked, sources, results, engine)

    def _translate(self, engine: Any, sources: list[list[str]], options: RunOptions, *, at_most: int) -> list[Any]:
        """Future results; no batch has more tokens than `at_most`, or than the budget."""
        prefix = self.tokenizers.target.encode([options.prefix])[0] if options.prefix else []
        start = [self._target[number] for number in prefix]
        asked_for = options.decoding.shortlist
        shortlist = self.form.shortlist and at_most >= BULK if asked_for == "measured" else asked_for
        return engine.translate_batch(
            sources,
            target_prefix=[start] * len(sources) if start else None,
            max_batch_size=1 if _alone(options) else min(options.decoding.batch_tokens, BATCH, at_most),
            batch_type="examples" if _alone(options) else "tokens",
            asynchronous=True,
            **_settings(options, shortlist=shortlist),
        )

    def _ready(self, sources: list[list[str]], options: RunOptions) -> Any:
        """CTranslate2 with tables that are long enough, opened by the plan that suits the first chunk."""
        longest = max(map(len, sources)) + 1
        if self.learned is not None and longest > self.learned:
            raise RegardError(
                f"a text has {longest} tokens with its end, and the model {self.learned} learned positions; "
                f"shorten the text, or train with model.maximum={longest} or more"
            )
        reached = max(longest, options.decoding.max_length, self._positions)
        too_small = self._plan is None or (self._given is None and outgrown(self._plan, self._planned, by=len(sources)))
        if reached > self._positions or too_small:
            self._engine = None  # its memory is free before another is opened
            positions = -(-reached // BLOCK) * BLOCK
            model = converted(self.directory, positions=positions)
            if self._plan is None or too_small:
                self._plan, self._planned = self._best_plan(model, sources, options), len(sources)
            self._engine, self._positions = self._open(model, self._plan), positions
        return self._engine

    def _open(self, model: Converted, plan: Plan) -> Any:
        return model.open("Translator", plan, self.apart)

    def _best_plan(self, model: Converted, sources: list[list[str]], options: RunOptions) -> Plan:
        sample = sources[:: max(1, len(sources) // SAMPLE)]

        def seconds(candidate: Plan) -> float:
            """The seconds for the sample, if every worker translates all of it."""
            engine = self._open(model, candidate)
            start = time.perf_counter()
            for each in [self._translate(engine, sample, options, at_most=BATCH) for _ in range(candidate.workers)]:
                [result.result() for result in each]
            return (time.perf_counter() - start) / candidate.workers

        beam = options.decoding.beam
        return plan(len(sources), compute_type=self.form.compute_type, beam=beam, kept_in=model.path, seconds=seconds)

    def _collect(self, pending: Pending, options: RunOptions) -> Iterator[list[Answer]]:
        """The answers to a chunk, once they are there."""
        said = [_said(result.result()) for result in pending.results]
        if pending.asked and options.scores and not options.decoding.coverage_penalty:
            said = _scored(pending, said, options.decoding.length_penalty)
        numbers = [[self._numbers[name] for name in each.words] for several in said for each in several]
        decoded = iter(zip(numbers, self.tokenizers.target.decode(numbers), strict=True))
        found = dict(zip(pending.asked, said, strict=True))
        nothing = replace(NOTHING, alignment=() if options.alignment else None, pieces=() if options.tokens else None)
        for row, text in enumerate(pending.texts):
            if row in found:
                yield [self._answer(text, each, *next(decoded), options) for each in found[row]]
            else:
                yield [nothing]

    def _answer(self, source: str, said: Said, numbers: list[int], text: str, options: RunOptions) -> Answer:
        tokens = tuple(numbers)
        looked = said.looked[: len(tokens)]
        if options.decoding.replace_unknown:
            unknown = (row.index(max(row)) for row, token in zip(looked, tokens, strict=True) if token == UNK)
            text = fill_in(text, source_words(source, unknown, tokenizer=self.tokenizers.source))
        pairs = word_alignment(looked, source, tokens, tokenizers=self.tokenizers) if options.alignment else None
        pieces = tuple(self.tokenizers.target.pieces(list(tokens))) if options.tokens else None
        aligned = None if pairs is None else tuple(pairs)
        return Answer(text, said.score, tokens, said.logprobs, aligned, pieces, truncated=not said.ended)


def _said(result: Any) -> list[Said]:
    looked = result.attention or [[] for _ in result.hypotheses]
    scores = result.scores or [0.0] * len(result.hypotheses)
    return [Said(*each) for each in zip(result.hypotheses, scores, looked, strict=True)]


def _scored(pending: Pending, said: list[list[Said]], length_penalty: float) -> list[list[Said]]:
    """The same with scores of the whole vocabulary, best first.

    Those of the search leave out what may not be said, and so are larger by −log(1 − p(<pad>) − p(<s>)) at each token.
    """
    pairs = [(source, each) for source, several in zip(pending.sources, said, strict=True) for each in several]
    sources, targets = [source for source, _ in pairs], [each.words for _, each in pairs]
    scored = iter(
        pending.engine.score_batch(sources, targets, max_input_length=0, max_batch_size=BLOCK, batch_type="tokens")
    )

    def again_of(each: Said) -> Said:
        logprobs = next(scored).log_probs[: len(each.names)]
        return replace(each, score=sum(logprobs) / len(logprobs) ** length_penalty, logprobs=tuple(logprobs))

    again = [[again_of(each) for each in several] for several in said]
    return [sorted(several, key=lambda each: -each.score) for several in again]


def _names(vocabulary: Mapping[str, int]) -> list[str]:
    """The name of each token, by number."""
    return sorted(vocabulary, key=vocabulary.__getitem__)
