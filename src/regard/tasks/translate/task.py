"""The input is a text, the output is a text: translation, and every task of that form, such as spelling to sound.

batch  → loss       Σ over target tokens of −log P(y_t | y_<t, x), smoothed
texts  → answers    by greedy search, beam search or sampling
answers → scores    BLEU, chrF, TER and exact match; for lexicons word and symbol error
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import ClassVar, Self

import torch
from torch import Tensor, nn

from regard import models
from regard.checking import check
from regard.data.bpe_dropout import PairDropout
from regard.data.pairs import shortlist
from regard.data.pairs.batches import PairBatch, PairStream, SourceBatch, source_batches
from regard.data.pairs.corpus import prepare
from regard.data.pairs.examples import Examples, PairsData, open_examples, open_splits, references
from regard.data.splits import Splits
from regard.data.streams import Batch, Stream
from regard.data.tokenizers import Tokenizers
from regard.decoding import DecodingConfig, Hypothesis, align, search, side_by_side, unknown_sources
from regard.decoding.tree import Tree
from regard.errors import RegardError
from regard.models.facts import ModelConfig
from regard.tasks.base import (
    TEXTS,
    Codec,
    Exam,
    Judgement,
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
from regard.tasks.modules import AnswersSources
from regard.tasks.saying import answers_of, sight_of, target_loss
from regard.tasks.scores import References, bleu, lexicon_scores, text_scores
from regard.tasks.significance import judgement
from regard.tasks.surfaces import NOTHING, Answer, TextToTexts
from regard.tasks.together import together
from regard.tasks.translate.teacher import distil
from regard.tasks.translate.words import fill_in, source_words, word_alignment, worth_asking

QUICK = 1000  # sources that validation answers: enough to rank checkpoints by


class Translate(Task[PairsData, Examples, str, list[Answer], PairBatch]):
    """The task, with the tokenizers of both sides."""

    forms = ("pairs",)
    honours = TEXTS | {
        "tokenizer.dropout",
        "tokenizer.shared",
        "training.label_smoothing",
        "training.r_drop",
        "decoding",
    }
    defaults: ClassVar = {"training.label_smoothing": 0.1}
    searched = True
    data = PairsData
    surface = TextToTexts()
    best: ClassVar[Objective] = Objective("bleu", higher=True)

    def __init__(self, tokenizers: Tokenizers, *, smoothing: float = 0.0, r_drop: float = 0.0) -> None:
        self.tokenizers, self.smoothing, self.r_drop = tokenizers, smoothing, r_drop

    @classmethod
    def from_setting(cls, setting: Setting[PairsData], codec: Codec) -> Self:
        return cls(codec.texts(), smoothing=setting.label_smoothing, r_drop=setting.r_drop)

    @classmethod
    def read(cls, entry: object, data: PairsData, *, key: str) -> Examples:
        named = check(PairsData, {"test": str(entry) if isinstance(entry, Path) else entry}, where=key)
        return open_examples(named.test, key=key, columns=data.columns)

    @classmethod
    def open(cls, setting: Setting[PairsData], work: Work | None) -> Splits[Examples]:
        """All that [data] names. With a teacher, the model learns the teacher's answers instead of the targets."""
        splits = open_splits(setting.data, seed=setting.seed, folder=work.folder / "corpus" if work else None)
        if work is None or not setting.data.teacher:
            return splits
        taught = distil(
            splits.train, teacher=Path(setting.data.teacher), folder=work.folder / "teacher", tell=work.tell
        )
        return replace(splits, train=taught)

    @classmethod
    def lines(cls, examples: Examples) -> Iterator[str]:
        return (pair.source for pair in examples)

    @classmethod
    def learn(cls, setting: Setting[PairsData], train: Examples, body: Codec | None) -> Codec:
        return Codec(Tokenizers.train(train, setting.tokenizer))

    def module(self, model: ModelConfig) -> nn.Module:
        target = None if self.tokenizers.shared else self.tokenizers.target.size
        return models.from_config(model, vocabulary=self.tokenizers.source.size, target_vocabulary=target)

    def batches(self, examples: Examples, setting: Setting[PairsData], work: Work, *, name: str) -> PairStream:
        data, rate = setting.data, setting.tokenizer.dropout if name == "train" else 0.0
        corpus = prepare(
            examples,
            self.tokenizers,
            folder=work.folder / "corpus",
            name=name,
            filters=data.filters,
            processes=work.processes,
            progress=lambda pairs, share: work.advance(f"the {name} pairs", pairs, "pairs", share),
        )
        dropout = PairDropout(self.tokenizers, rate=rate, seed=setting.seed, longest=data.max_length) if rate else None
        return PairStream(
            corpus,
            batch_tokens=setting.batch_tokens,
            seed=setting.seed,
            share=work.share,
            dropout=dropout,
            mixing=data.mixing if name == "train" else None,
        )

    def loss(self, model: nn.Module, batch: PairBatch, *, plain: bool = False) -> Tensor:
        assert isinstance(model, AnswersSources)
        return target_loss(
            model,
            batch.source,
            batch.source_lengths,
            batch.target,
            pad=self.tokenizers.special.pad or 0,
            smoothing=0.0 if plain else self.smoothing,
            divergence=0.0 if plain else self.r_drop,
        )

    def quoted(self, batch: Batch) -> list[dict[str, str]]:
        assert isinstance(batch, PairBatch)
        sources = self.tokenizers.source.decode(batch.source.tolist())
        targets = self.tokenizers.target.decode(batch.target.tolist())
        return [{"source": source, "target": target} for source, target in zip(sources, targets, strict=True)]

    def objective(self, splits: Splits[Examples]) -> Objective:
        return self.best

    def quick_exam(self, valid: Examples, batches: Stream[PairBatch]) -> Exam:
        """Greedy answers to the first sources, scored by the one number that ranks checkpoints."""
        some = dict(islice(wanted(valid).items(), QUICK))
        longest = max(int(batch.target_lengths.max()) for batch in batches.in_order())
        decoding = DecodingConfig(beam=1, max_length=longest + longest // 2)

        def scores(model: nn.Module) -> dict[str, Score]:
            return self.validation_score(self._best(model, list(some), decoding), list(some.values()))

        return Exam(f"{len(some):,} texts", scores, work=len(some))

    def exam(self, examples: Examples, options: RunOptions, *, tokenize: str = "13a") -> Exam:
        every = wanted(examples)

        def scores(model: nn.Module) -> dict[str, Score]:
            return self.scores(
                self._best(model, list(every), options.decoding), list(every.values()), tokenize=tokenize
            )

        return Exam(f"{len(every):,} texts", scores, work=len(every) * options.decoding.beam)

    def _best(self, model: nn.Module, texts: list[str], decoding: DecodingConfig) -> list[str]:
        return together(
            texts, lambda some: [answers[0].text for answers in self.translate(model, some, decoding=decoding)]
        )

    def answer(self, model: nn.Module, asked: Sequence[str], options: RunOptions) -> list[list[Answer]]:
        prefix = None if options.prefix is None else [options.prefix] * len(asked)
        found = self.translate(model, asked, decoding=options.decoding, prefix=prefix)
        return [
            [self._detailed(model, text, answer, options) for answer in answers]
            for text, answers in zip(asked, found, strict=True)
        ]

    def _detailed(self, model: nn.Module, text: str, answer: Answer, options: RunOptions) -> Answer:
        if options.tokens:
            answer = replace(answer, pieces=tuple(self.tokenizers.target.pieces(list(answer.tokens))))
        if options.alignment:
            answer = replace(answer, alignment=tuple(self.align_words(model, text, [answer]) if answer.tokens else ()))
        return answer

    def translate(
        self, model: nn.Module, texts: Sequence[str], *, decoding: DecodingConfig, prefix: Sequence[str] | None = None
    ) -> list[list[Answer]]:
        """The `n_best` answers to each text, best first, in the order of the texts. Empty texts have empty answers."""
        assert isinstance(model, AnswersSources)
        sources = self.tokenizers.source.encode(list(texts))
        asked = worth_asking(texts, sources)
        starts = self.tokenizers.target.encode(list(prefix)) if prefix is not None else [[] for _ in texts]
        device = next(model.parameters()).device
        more = counter(len(asked))

        def work(batch: SourceBatch) -> list[list[Answer]]:
            rows = [asked[place] for place in batch.rows]
            source, lengths = batch.source.to(device), batch.source_lengths.to(device)
            found = search(model, source, lengths, config=decoding, prefix=[starts[row] for row in rows])
            more(len(rows))
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
        answers, unknown = answers_of(hypotheses, self.tokenizers.target), self.tokenizers.target.unknown
        if words is None:
            return answers
        return [
            replace(answer, text=fill_in(answer.text, known, unknown=unknown))
            for answer, known in zip(answers, words, strict=True)
        ]

    def _replacements(
        self,
        model: nn.Module,
        texts: Sequence[str],
        source: Tensor,
        lengths: Tensor,
        found: list[list[Hypothesis]],
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

    def alignment(self, model: nn.Module, source: str, answer: Sequence[int]) -> Tensor:
        """How much each token of an answer looked at each token of the source and at its end: (T, S + 1)."""
        assert isinstance(model, AnswersSources)
        device = next(model.parameters()).device
        (batch,) = self._batches(self.tokenizers.source.encode([source]), 1)
        return align(model, batch.source.to(device), [list(answer)], batch.source_lengths.to(device))[0]

    def alignment_of(self, model: nn.Module, asked: str, answer: list[Answer]) -> tuple[list[str], list[str], Tensor]:
        """Pieces of the source and its end, pieces of the best answer, and how much these looked at those."""
        tokens, source = answer[0].tokens, self.tokenizers.source
        names = [*source.tokens(asked), *source.pieces([self.tokenizers.special.eos])]
        return names, self.tokenizers.target.pieces(list(tokens)), self.alignment(model, asked, tokens)

    def align_words(self, model: nn.Module, asked: str, answer: list[Answer]) -> list[tuple[int, int]]:
        """For each word of the best answer, the source word it looked at most: (source, target) by number, from 0."""
        tokens = answer[0].tokens
        weights = self.alignment(model, asked, tokens)[:, :-1]  # EOS is no word
        return word_alignment(weights.tolist(), asked, tokens, tokenizers=self.tokenizers)

    def forced(self, answer: str) -> list[Answer]:
        """A given text as the answer."""
        return [Answer(answer, 0.0, tuple(self.tokenizers.target.encode([answer])[0]), ())]

    def sight(self, model: nn.Module, asked: str, look: Looking) -> Sight:
        """The answer is found without recording, and is then read once more with recording."""
        assert isinstance(model, AnswersSources)
        if look.reference is not None:
            return self._sight_of(model, asked, self.tokenizers.target.encode([look.reference])[0], None)
        if look.fast:
            return self.sights(model, [asked], look)[0]
        tree = Tree()
        (batch,) = self._batches(self.tokenizers.source.encode([asked]), 1)
        source = batch.source.to(next(model.parameters()).device)
        found = search(model, source, config=look.decoding, tree=tree)[0][0]
        return self._sight_of(model, asked, found.tokens, tree)

    def sights(self, model: nn.Module, asked: Sequence[str], look: Looking) -> list[Sight]:
        """The sight of each greedy answer; the answers are found in batches."""
        assert isinstance(model, AnswersSources)
        device = next(model.parameters()).device
        decoding = look.decoding.model_copy(update={"beam": 1, "n_best": 1})

        def work(batch: SourceBatch) -> list[list[Hypothesis]]:
            return search(model, batch.source.to(device), batch.source_lengths.to(device), config=decoding)

        batches = list(self._batches(self.tokenizers.source.encode(list(asked)), decoding.batch_tokens))
        said: list[Sequence[int]] = [()] * len(asked)
        for batch, found in zip(batches, side_by_side(model, work, batches), strict=True):
            for place, hypotheses in zip(batch.rows, found, strict=True):
                said[place] = hypotheses[0].tokens
        return [self._sight_of(model, text, tokens, None) for text, tokens in zip(asked, said, strict=True)]

    def _sight_of(self, model: AnswersSources, asked: str, said: Sequence[int], tree: Tree | None) -> Sight:
        """What the model looks at when it gives the answer `said` (T,), which the search of `tree` has found."""
        names, target = self.tokenizers.source, self.tokenizers.target
        (batch,) = self._batches(names.encode([asked]), 1)
        return sight_of(
            model,
            batch.source.to(next(model.parameters()).device),
            said,
            title=asked,
            side=Side((*names.tokens(asked), *target.pieces([self.tokenizers.special.eos])), text=asked),
            tokenizer=target,
            embedding=model.source,
            tree=tree,
        )

    def files(self, batches: Stream[Batch], decoding: DecodingConfig) -> dict[str, bytes]:
        """The shortlist, unless [decoding] does without, or hardly any token would be left out."""
        source, target = self.tokenizers.source.size, self.tokenizers.target.size
        useless = decoding.shortlist == "measured" and target < 2 * shortlist.COMMON
        if not decoding.shortlist or useless:
            return {}
        assert isinstance(batches, PairStream)
        return {shortlist.NAME: shortlist.learn(batches.corpus, source_size=source, target_size=target).to_bytes()}

    def references(self, examples: object) -> Mapping[str, list[str]]:
        assert isinstance(examples, Examples)
        return wanted(examples)

    def inputs(self, examples: object) -> list[str]:
        return list(self.references(examples))

    def judged(self, examples: object, first: Sequence[list[Answer]], second: Sequence[list[Answer]]) -> Judgement:
        right = list(self.references(examples).values())
        scores = (self.scores([answer[0].text for answer in side], right)[self.best.name] for side in (first, second))
        return judgement(self.best, *scores)

    def scores(self, answers: Sequence[str], references: References, *, tokenize: str = "13a") -> dict[str, Score]:
        """What the task is judged by."""
        return text_scores(answers, references, tokenize=tokenize)

    def validation_score(self, answers: Sequence[str], references: References) -> dict[str, Score]:
        """The one number by which checkpoints are ranked."""
        return {"bleu": Score(bleu(answers, references))}


class Transcribe(Translate):
    """Spelling to sound: what counts is whether a whole word is right, and how many of its symbols are."""

    best = Objective("word_error")

    def scores(self, answers: Sequence[str], references: References, *, tokenize: str = "13a") -> dict[str, Score]:
        return lexicon_scores(answers, references)

    def validation_score(self, answers: Sequence[str], references: References) -> dict[str, Score]:
        return {"word_error": lexicon_scores(answers, references)["word_error"]}


def wanted(examples: Examples) -> Mapping[str, list[str]]:
    """Each source once, with every target that counts as right; blank lines are skipped."""
    found = references(pair for pair in examples if pair.source.strip() or pair.target.strip())
    if not found:
        raise RegardError(
            f"{', '.join(map(str, examples.entries))} has no pairs to score a model on; name another file"
        )
    return found
