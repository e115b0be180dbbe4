"""What a causal language model is for: to say what comes next, and so to write.

    loss = −Σ_t log P(u_t | u_<t)    perplexity = exp(loss / tokens)    bits per character = loss / (ln 2 · characters)

B blocks  T tokens of a block  M width
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy
import torch
from torch import Tensor

from regard.data.blocks import BlockBatch, Blocks, read_at
from regard.data.corpus import Ids
from regard.data.tokenizers import Tokenizer
from regard.data.tokens import Tokens
from regard.decoding.config import DecodingConfig
from regard.decoding.searches import search
from regard.decoding.tree import Tree
from regard.errors import RegardError
from regard.tasks.answers import Answer
from regard.tasks.scores import Score
from regard.tasks.vocabulary_loss import vocabulary_loss
from regard.tasks.writing import Writing

TOGETHER = 4096  # tokens judged together
LANES = 32  # parts of a text that a recurrent model is judged on side by side
LEAD = 256  # tokens it reads before each part


class Write:
    """The task. `block` is how many tokens are learned in one piece, `reach` how many a model can look back on."""

    def __init__(self, tokenizer: Tokenizer, *, block: int, reach: int | None, smoothing: float = 0.0) -> None:
        self.tokenizer, self.block, self.reach, self.smoothing = tokenizer, block, reach, smoothing

    def loss(self, model: Any, batch: BlockBatch) -> Tensor:
        """The smoothed negative log-likelihood of what counts in the blocks, summed."""
        hidden, wanted = self._hidden(model, batch).flatten(0, 1), batch.wanted.flatten()
        if batch.targets < len(wanted):
            counted = batch.counted.flatten()
            hidden, wanted = hidden[counted], wanted[counted]
        return vocabulary_loss(hidden, model.output, wanted, smoothing=self.smoothing)[0]

    def _hidden(self, model: Any, batch: BlockBatch) -> Tensor:
        """(B, T, M). What is carried into a block is the state that its forerunners leave, without their gradients."""
        if not batch.carried.shape[1]:
            return model(batch.tokens)
        with torch.no_grad():
            _, state = model.read(batch.carried, None)
        return model.read(batch.tokens, state.detach())[0]

    def losses(self, model: Any, ids: Ids) -> Tensor:
        """−log P of each token of a text, in order. (n,)

        Attention looks through windows of `block` tokens, half a window apart: each token is predicted after at least
        half a window. A recurrent model reads on from beginning to end, in parts side by side that each begin `LEAD`
        tokens early.
        """
        with torch.no_grad():
            found = self._by_lanes(model, ids) if hasattr(model, "read") else self._by_windows(model, ids)
            losses = torch.empty(len(ids))
            for places, hidden in found:
                wanted = torch.from_numpy(ids[places.numpy()].astype(numpy.int64)).to(hidden.device)
                losses[places] = vocabulary_loss(hidden, model.output, wanted)[1].float().cpu()
        return losses

    def _by_windows(self, model: Any, ids: Ids) -> Iterator[tuple[Tensor, Tensor]]:
        """Places (N,) and what the model makes of all before them (N, M)."""
        window = min(self.block, len(ids))
        blocks = Blocks(ids, block=window, rows=max(TOGETHER // window, 1), seed=0, special=self.tokenizer.special)
        at = 0
        for batch in blocks.sliding():
            places = torch.arange(at, at + batch.targets)
            at += batch.targets
            hidden = model(batch.tokens.to(_device(model)))
            yield places, hidden[batch.counted.to(hidden.device)]

    def _by_lanes(self, model: Any, ids: Ids) -> Iterator[tuple[Tensor, Tensor]]:
        """The same for a recurrent model, all lanes a little further each time."""
        lanes = max(min(LANES, len(ids) // LEAD), 1)
        length = -(-len(ids) // lanes)
        begin = torch.arange(lanes).unsqueeze(1) * length

        def read(places: Tensor, state: Any) -> Any:
            inside = places.clamp(0, len(ids) - 1).numpy()
            found = read_at(ids, inside, special=self.tokenizer.special)
            return model.read(torch.from_numpy(found).to(_device(model)), state)

        _, state = read(begin + torch.arange(-LEAD, 0), None)
        state = state.where((begin > 0).to(_device(model)))
        step = max(TOGETHER // lanes, 1)
        for start in range(0, length, step):
            places = begin + torch.arange(start, min(start + step, length))
            hidden, state = read(places, state)
            inside = places < len(ids)
            yield places[inside], hidden[inside.to(hidden.device)]

    def scores(self, model: Any, tokens: Tokens) -> dict[str, Score]:
        """Perplexity by token, and bits per character of the text."""
        total = float(self.losses(model, tokens.ids).double().sum())
        context = "state carried" if hasattr(model, "read") else f"sliding window of {self.block}"
        unknown = f", {tokens.unknown:,} unknown" if tokens.unknown else ""
        return {
            "perplexity": Score(math.exp(min(total / len(tokens), 700)), f"{len(tokens):,} tokens{unknown}, {context}"),
            "bits_per_character": Score(total / math.log(2) / tokens.characters, f"{tokens.characters:,} characters"),
        }

    def answer(
        self,
        model: Any,
        prompts: Sequence[str],
        *,
        decoding: DecodingConfig,
        stop: Sequence[str] = (),
        tree: Tree | None = None,
    ) -> list[list[Answer]]:
        """`n_best` continuations of each prompt, best first; each ends before the first of the strings in `stop`.

        `tree` keeps what a beam search for a single prompt considered.
        """
        every = self.tokenizer.encode(list(prompts))
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
        self, model: Any, prompts: Sequence[Sequence[int]], *, decoding: DecodingConfig, stop: Sequence[str] = ()
    ) -> Writing:
        """Continuations on their way, a token at a time."""
        return Writing(model, self.tokenizer, prompts, decoding=decoding, reach=self.reach, stop=stop)

    def _by_beam(
        self, model: Any, prompt: list[int], decoding: DecodingConfig, stop: Sequence[str], tree: Tree | None
    ) -> list[Answer]:
        if self.reach is not None and len(prompt) + decoding.max_length > self.reach:
            raise RegardError(
                f"a beam of {decoding.beam} looks back on all it said, and {len(prompt)} tokens of the prompt with "
                f"max_length={decoding.max_length} are more than the {self.reach} the model can look back on; "
                "set decoding.sample=true, beam=1, or a lower max_length"
            )
        source = torch.tensor([prompt], dtype=torch.int64, device=_device(model))
        lengths = torch.tensor([len(prompt)], device=source.device)
        (found,) = search(model, source, lengths, config=decoding, tree=tree)
        return [
            Answer(Writing.text(self.tokenizer, prompt, each.tokens, stop), each.score, each.tokens, each.logprobs)
            for each in found
        ]


def _device(model: Any) -> torch.device:
    return next(model.parameters()).device
