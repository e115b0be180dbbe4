"""What tasks ask of a module beyond `forward`. A kind that offers a protocol can do the tasks that ask for it.

AnswersSources   translate: an encoder-decoder on the step protocol
Describes        caption: the same for pictures
SaysNext         write: a causal language model on the step protocol
FillsGaps        fill by masking: an encoder with a head that says words
ReadsBothWays    fill by two language models, one each way
PredictsInOrder  fill by predicting tokens in an order, each from those before it
Carries          write: a causal model whose state goes from block to block
Continues        write: the same for a state that goes from batch to batch while the model learns
Draws            translate: attention that draws at random while it learns
SeesPictures     see: pictures to numbers
EmbedsPatches    see: the same, with a vector for each patch, for saliency
DrawsPlaces      see: the same, drawing at random where to look while it learns
ReadsSets        sets: numbers from the elements of a set, in whatever order
ReadsGraphs      nodes: attention along the edges of a graph
ContinuesSeries  forecast: quantiles of the numbers that follow those of a series

B batch  L length  M width  V vocabulary  C channels  H height in pixels  W width in pixels
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol, TypeVar, runtime_checkable

from torch import Tensor, nn

from regard.decoding.protocol import Model
from regard.kernels.linear import Linear
from regard.kernels.sparse import Cells, Sparse
from regard.layers.embedding import Embedding
from regard.models.choice import Rollout
from regard.models.facts import Grid


class StepModule(Model[Any, Any], Protocol):
    """A module on the step protocol."""

    output: Linear  # hidden states → logits over the vocabulary

    def parameters(self, recurse: bool = True) -> Iterator[nn.Parameter]: ...
    def looks(self, path: str) -> tuple[str, str]:
        """The side that the attention at a path looks from, and the side it looks at."""
        ...


class Says(StepModule, Protocol):
    """A module that says a text about a source: source, lengths (B,), given (B, T) → hidden (B, T, M)"""

    def __call__(self, source: Tensor, lengths: Tensor | None, given: Tensor, /) -> Tensor: ...


@runtime_checkable
class AnswersSources(Says, Protocol):
    """source (B, S), lengths (B,), given (B, T) → hidden (B, T, M)"""

    source: Embedding


@runtime_checkable
class Describes(Says, Protocol):
    """source (B, C, H, W), given (B, T) → hidden (B, T, M)"""

    encoder: nn.Module  # pictures → a vector for each place (B, S, M)

    def grids(self) -> Mapping[str, Grid]:
        """The places of a picture, as side "source"."""
        ...


@runtime_checkable
class SaysNext(StepModule, Protocol):
    """tokens (B, T) → hidden (B, T, M)"""

    embedding: Embedding

    def first(self, memory: Any) -> Tensor:
        """The last token of each prompt, which the first step reads (B,)."""
        ...

    def __call__(self, tokens: Tensor, /) -> Tensor: ...


@runtime_checkable
class FillsGaps(Protocol):
    """tokens (B, L) → hidden (B, L, M), with heads for hidden tokens and for the next sentence."""

    embedding: Embedding

    def states(self, tokens: Tensor, lengths: Tensor, segments: Tensor | None = None) -> Tensor: ...
    def words(self, hidden: Tensor) -> Tensor:
        """(…, M) → logits (…, V)"""
        ...

    def follows(self, hidden: Tensor) -> Tensor:
        """(B, L, M) → logits (B, 2): the second text follows the first, or does not."""
        ...


@runtime_checkable
class ReadsBothWays(Protocol):
    """Two language models, one each way, with one output layer."""

    output: Linear

    def both_ways(self, tokens: Tensor, lengths: Tensor | None = None) -> tuple[Tensor, Tensor]: ...


@runtime_checkable
class PredictsInOrder(Protocol):
    """Tokens (B, L) that have ranks (B, L) → hidden (B, N, M) of N places, each made of the tokens of lower rank."""

    embedding: Embedding

    def predicted(
        self, tokens: Tensor, lengths: Tensor, segments: Tensor | None, *, order: Tensor, places: Tensor
    ) -> Tensor: ...
    def words(self, hidden: Tensor) -> Tensor:
        """(…, M) → logits (…, V)"""
        ...

    def looks(self, path: str) -> tuple[str, str]:
        """The side that the attention at a path looks from, and the side it looks at."""
        ...


StateT = TypeVar("StateT")


@runtime_checkable
class Carries(Protocol[StateT]):
    """A causal model that carries state from one block of a text to the next: the module of a config with `carries`."""

    def read(self, tokens: Tensor, state: StateT | None) -> tuple[Tensor, StateT]:
        """tokens (B, T), after the state that the tokens before them left → h (B, T, M), and the state after them."""
        ...


@runtime_checkable
class Continues(Carries[StateT], Protocol[StateT]):
    """A causal model that learns from batches whose rows go on: the module of a config with `continues`.

    Its states have `tensors()`, which `recall` reads, and `where(kept)`, which empties the rows where kept (B, 1) is
    False.
    """

    @property
    def remembers(self) -> int:
        """How many positions before a block its state holds."""
        ...

    def lead(self, block: int) -> int:
        """How many tokens decide the state before a block, if a text is read in blocks of so many tokens."""
        ...

    def recall(self, tensors: Mapping[str, Tensor]) -> StateT:
        """The state that was kept as these tensors."""
        ...


@runtime_checkable
class Draws(Protocol):
    """An encoder-decoder whose attention may draw at random, so that its loss needs what was drawn."""

    def rollout(self, source: Tensor, lengths: Tensor | None, given: Tensor, /) -> Rollout:
        """source (B, S), lengths (B,), given (B, T) from BOS on → what `forward` returns, and the draws."""
        ...


@runtime_checkable
class SeesPictures(Protocol):
    """pictures (B, C, H, W) → numbers (B, outputs), such as the logits of labels"""

    alignment: str  # the path of the attention that says most about the answer; "" if there is none

    def __call__(self, pictures: Tensor, /) -> Tensor: ...
    def parameters(self, recurse: bool = True) -> Iterator[nn.Parameter]: ...
    def grids(self) -> Mapping[str, Grid]:
        """The places of each side: of "source", the patches of a picture, and of coarser sides by name."""
        ...

    def looks(self, path: str) -> tuple[str, str]:
        """The side that the attention at a path looks from, and the side it looks at: names of `grids()`."""
        ...


@runtime_checkable
class EmbedsPatches(Protocol):
    """A module that sees pictures, and embeds them as a vector for each item of "source" (B, items, M) first."""

    embedding: nn.Module


class DrawnPlaces(Protocol):
    """What came of a pass that drew at random where to look."""

    @property
    def logits(self) -> Tensor:
        """(K·B, outputs): all pictures once and then again, if each was looked at K times"""
        ...

    def surrogate(self, losses: Tensor) -> Tensor:
        """A term of value 0 for Σ losses (K·B,), whose gradient makes that of the sum an estimate for all draws."""
        ...


@runtime_checkable
class DrawsPlaces(Protocol):
    """A module that sees pictures and draws at random where to look, so that its loss needs what was drawn."""

    def drawn(self, pictures: Tensor, /) -> DrawnPlaces:
        """pictures (B, C, H, W) → the numbers that `forward` returns, and the draws"""
        ...


@runtime_checkable
class ReadsSets(Protocol):
    """elements (B, N, F) numbers or (B, N) ids, lengths (B,) → (B, outputs)"""

    element: nn.Module  # the elements → (B, N, M)
    inducing: int  # learned vectors that elements look at each other through; 0 if there are none

    def __call__(self, elements: Tensor, lengths: Tensor, /) -> Tensor: ...
    def looks(self, path: str) -> tuple[str, str]:
        """The side that the attention at a path looks from, and the side it looks at: "source" are the elements,
        "pooled" is the set, "inducing" are the learned vectors."""
        ...


@runtime_checkable
class ReadsGraphs(Protocol):
    """features (N, F), dense or sparse, and cells (N, N) of the edges → (N, C)"""

    @property
    def hops(self) -> int:
        """How many edges away the nodes are that an output depends on."""
        ...

    @property
    def embedding(self) -> nn.Module:
        """The module that turns the features of each node into a vector: (1, N, M)"""
        ...

    def looks(self, path: str) -> tuple[str, str]:
        """The side that the attention at a path looks from, and the side it looks at."""
        ...

    def __call__(self, x: Tensor | Sparse, cells: Cells, /) -> Tensor: ...


@runtime_checkable
class ContinuesSeries(Protocol):
    """Quantiles at some levels of the K steps after T known numbers.

    values (B, T), calendar of the steps after them (B, T + K − 1, F), medians of K − 1 steps, said (B, K − 1)
    """

    levels: tuple[float, ...]
    lag: int  # known numbers that are read beside the first step

    def __call__(self, values: Tensor, calendar: Tensor, said: Tensor, /) -> Tensor:
        """→ (B, K, Q)"""
        ...

    def forecast(self, values: Tensor, calendar: Tensor) -> Tensor:
        """The same with the medians that the module says itself → (B, K, Q)"""
        ...

    def scales(self, values: Tensor) -> Tensor:
        """The size of the changes of known numbers (B, T) → (B, 1)"""
        ...

    def looks(self, path: str) -> tuple[str, str]:
        """The side that the attention at a path looks from, and the side it looks at."""
        ...
