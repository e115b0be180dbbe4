"""Texts while they are written: tokens are decoded as they come, and a text ends where a stop string begins."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from regard.data.tokenizers import Tokenizer
from regard.decoding.config import DecodingConfig
from regard.decoding.continuing import Continuation
from regard.tasks.modules import SaysNext
from regard.tasks.surfaces import Answer

BEFORE = 8  # tokens of a prompt that decide how its continuation is joined to it
BROKEN = "\ufffd"  # what bytes that are not yet a character are decoded to


class Growing:
    """One text that grows token by token.

    `text` is what was written after the prompt. New text is the difference between two decodings, without and with the
    new tokens, because the text of a token depends on the token before it.
    """

    def __init__(self, tokenizer: Tokenizer, prompt: Sequence[int], *, stop: Sequence[str] = ()) -> None:
        self.tokenizer, self.stop = tokenizer, [each for each in stop if each]
        self.text = ""
        self.stopped = self.finished = False
        self._tokens = list(prompt[-BEFORE:])
        self._begin, self._read = 0, len(self._tokens)

    def add(self, token: int) -> None:
        """Add one token. Bytes that are not yet a character wait for the next token."""
        self._tokens.append(token)
        self._take(BROKEN)

    def finish(self) -> None:
        """Add the bytes that are still waiting."""
        self._take(None)
        self.finished = True

    @property
    def sure(self) -> int:
        """How many characters of the text are certain to stay: those that cannot be the beginning of a stop string."""
        if self.stopped or self.finished:
            return len(self.text)
        begun = (length for stop in self.stop for length in range(1, len(stop)) if self.text.endswith(stop[:length]))
        return len(self.text) - max(begun, default=0)

    def _take(self, unfinished: str | None) -> None:
        if self.stopped:
            return
        before, now = self.tokenizer.decode([self._tokens[self._begin : self._read], self._tokens[self._begin :]])
        new = now[len(before) :]
        if not new or (unfinished and new.endswith(unfinished)):
            return
        self._begin, self._read = self._read, len(self._tokens)
        longest = max(map(len, self.stop), default=0)
        begin = max(len(self.text) - longest, 0)
        self.text += new
        ends = [at for stop in self.stop if (at := self.text.find(stop, begin)) >= 0]
        if ends:
            self.text, self.stopped = self.text[: min(ends)], True


class Writing:
    """Continuations of several prompts. Each iteration adds one token to every text, until all are complete."""

    def __init__(
        self,
        model: SaysNext,
        tokenizer: Tokenizer,
        prompts: Sequence[Sequence[int]],
        *,
        decoding: DecodingConfig,
        reach: int | None,
        stop: Sequence[str] = (),
    ) -> None:
        self.decoding, self.special = decoding, tokenizer.special
        self.continuation = Continuation(model, prompts, config=decoding, reach=reach)
        self.texts = [Growing(tokenizer, prompt, stop=stop) for prompt in prompts for _ in range(decoding.n_best)]
        self.logprobs: list[list[float]] = [[] for _ in self.texts]

    def __iter__(self) -> Iterator[list[Growing]]:
        while not self.continuation.over:
            for said in self.continuation.advance():
                self.texts[said.row].add(said.token)
                self.logprobs[said.row].append(said.logprob)
            self.continuation.drop({row for row, text in enumerate(self.texts) if text.stopped})
            yield self.texts
        for text in self.texts:
            text.finish()
        yield self.texts

    def answers(self) -> list[list[Answer]]:
        """The continuations of each prompt, best first."""
        every = [self._answer(row) for row in range(len(self.texts))]
        size = self.decoding.n_best
        groups = (every[start : start + size] for start in range(0, len(every), size))
        return [sorted(group, key=lambda answer: -answer.score) for group in groups]

    def _answer(self, row: int) -> Answer:
        logprobs, tokens = self.logprobs[row], self.continuation.said[row]
        score = sum(logprobs) / len(logprobs) ** self.decoding.length_penalty
        spoken = tokens[:-1] if tokens[-1] == self.special.eos else tokens
        return Answer(self.texts[row].text, score, tuple(spoken), tuple(logprobs))

    @staticmethod
    def text(tokenizer: Tokenizer, prompt: Sequence[int], tokens: Sequence[int], stop: Sequence[str]) -> str:
        """The text of a continuation, given its tokens and its prompt."""
        growing = Growing(tokenizer, prompt, stop=stop)
        for token in tokens:
            growing.add(token)
        growing.finish()
        return growing.text
