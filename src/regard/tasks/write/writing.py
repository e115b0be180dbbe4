"""Continuations of several prompts by a module of torch, a token at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from regard.data.tokenizers import Tokenizer
from regard.decoding.config import DecodingConfig
from regard.decoding.continuing import Continuation
from regard.tasks.modules import SaysNext
from regard.tasks.surfaces import Answer
from regard.tasks.write.growing import Growing


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
        truncated = len(spoken) == len(tokens) and not self.texts[row].stopped
        return Answer(self.texts[row].text, score, tuple(spoken), tuple(logprobs), truncated=truncated)
