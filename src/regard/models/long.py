"""The key `attention` of [model]: exact attention, or a form whose cost grows with the length and not with its square.

    exact        every pair that the model allows
    window       the `window` positions around each query; of a causal model, the last `window` with its own
    big_bird     blocks of `blocks` positions: a window of `window` positions, `random` blocks drawn for each block of
                 queries, and the first `global` blocks, which see all and are seen by all     Zaheer 2020, ITC
    linformer    keys and values of n positions projected to `rank`                            Wang 2020
    performer    exp(q·k) as φ(q)·φ(k), with `features` positive random features               Choromanski 2021

A form that cannot be is refused when the recipe is read.
"""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from pydantic import ConfigDict, Field, NonNegativeInt, PositiveInt, model_validator

from regard.attention import MultiHead
from regard.attention.linformer import Linformer, Projections
from regard.attention.patterns import Blocks, Causal, Global, Pattern, Random, Window
from regard.attention.performer import Performer
from regard.attention.positions import Position
from regard.checking import Settings
from regard.errors import RegardError

AttentionName = Literal["exact", "window", "big_bird", "linformer", "performer"]
CausalName = Literal["exact", "window", "big_bird", "performer"]

WINDOW = 256  # positions
BLOCKS = 64  # positions of a block
WINDOW_BLOCKS = 3
RANDOM = 3  # blocks
GLOBAL = 1  # blocks
RANK = 128

SETTINGS: dict[str, tuple[str, ...]] = {
    "exact": (),
    "window": ("window",),
    "big_bird": ("window", "blocks", "random", "global"),
    "linformer": ("rank", "projections"),
    "performer": ("features", "redraw", "hyperbolic"),
}


class LongAttention(Settings):
    """The keys of [model] that choose a form of attention. A config inherits them beside its own."""

    model_config = ConfigDict(populate_by_name=True)

    attention: AttentionName = "exact"
    window: PositiveInt | None = None  # positions: 256, or 3 blocks of Big Bird
    blocks: PositiveInt | None = None  # positions of a block: 64
    random: NonNegativeInt | None = None  # random blocks for each block of queries: 3, or 0 if the model is causal
    global_: NonNegativeInt | None = Field(default=None, alias="global")  # blocks that see all and are seen: 1
    rank: PositiveInt | None = None  # positions that Linformer's keys and values are projected to: 128
    projections: Projections | None = None  # which of Linformer's projections are one and the same: "shared"
    features: PositiveInt | None = None  # random features of a head of width D: D ln D
    redraw: PositiveInt | None = None  # training steps after which the features are drawn anew: 1000
    hyperbolic: bool | None = None  # features of w and of −w together: false

    looks_ahead: ClassVar[bool] = True  # whether `attention` is for a model that looks at later positions too

    def forms(self) -> tuple[str, ...]:
        """The forms of attention in use."""
        return (self.attention,)

    @model_validator(mode="after")
    def _can_be(self) -> Self:
        for form in self.forms():
            _refuse_impossible(form, self)
        used = {name for form in self.forms() for name in SETTINGS[form]}
        for name in {name for names in SETTINGS.values() for name in names} - used:
            if getattr(self, _field(name)) is not None:
                owners = " or ".join(f'"{form}"' for form, names in SETTINGS.items() if name in names)
                raise RegardError(f"{name} is a setting of attention = {owners}; leave it out, or choose that")
        return self

    def heads_of(
        self,
        form: AttentionName,
        width: int,
        *,
        heads: int,
        causal: bool,
        layer: int,
        maximum: int,
        position: Position | None = None,
        key_value_heads: int | None = None,
        bias: bool = True,
    ) -> MultiHead:
        """The attention of one layer over its own sequence of at most `maximum` positions."""
        if form == "linformer":
            rank, projections = self.rank or RANK, self.projections or "shared"
            return Linformer(
                width, heads=heads, maximum=maximum, rank=rank, projections=projections, position=position, bias=bias
            )
        pattern = self._pattern(form, causal=causal, layer=layer)
        if form == "performer":
            return Performer(
                width,
                heads=heads,
                key_value_heads=key_value_heads,
                pattern=pattern,
                position=position,
                bias=bias,
                features=self.features,
                redraw=self.redraw or Performer.REDRAW,
                hyperbolic=self.hyperbolic or False,
                seed=layer,
            )
        return MultiHead(
            width, heads=heads, key_value_heads=key_value_heads, pattern=pattern, position=position, bias=bias
        )

    def _pattern(self, form: AttentionName, *, causal: bool, layer: int) -> Pattern | None:
        everyone = Causal() if causal else None
        if form == "window":
            width = self.window or WINDOW
            return Causal() & Window(2 * width - 1) if causal else Window(width)
        if form != "big_bird":
            return everyone
        blocks = self.blocks or BLOCKS
        window = Window((self.window or WINDOW_BLOCKS * blocks) // blocks)
        first = Global(GLOBAL if self.global_ is None else self.global_)
        if causal:
            return Causal() & Blocks(blocks, window | first)
        drawn = Random(RANDOM if self.random is None else self.random, seed=layer)
        return Blocks(blocks, window | first | drawn)


def _refuse_impossible(form: str, config: LongAttention) -> None:
    causal = not config.looks_ahead or form != config.attention
    if causal and form == "linformer":
        raise RegardError(
            'attention = "linformer" mixes all positions into its keys, so a causal model would see the future; '
            'choose "performer", "window" or "big_bird"'
        )
    if causal and form == "big_bird" and config.random:
        raise RegardError(
            f"random = {config.random}: random blocks may lie in the future of a causal model; leave random out"
        )
    blocks = config.blocks or BLOCKS
    if form == "big_bird" and config.window is not None and config.window % (2 * blocks) != blocks:
        raise RegardError(
            f"window = {config.window}: Big Bird's window is an odd number of blocks of {blocks} positions; "
            f"choose {blocks}, {3 * blocks} or {5 * blocks}, or other blocks"
        )
    maximum = getattr(config, "maximum", None)
    if form == "linformer" and config.rank and maximum and config.rank > maximum:
        raise RegardError(
            f"rank = {config.rank} is more than the {maximum} positions that are projected (maximum), and would cost "
            "more than exact attention; choose a lower rank"
        )
    if form == "performer" and config.hyperbolic and config.features and config.features % 2:
        raise RegardError(f"features = {config.features}: hyperbolic features come in pairs; choose an even number")
    position = getattr(config, "position", None)
    if form in ("linformer", "performer") and position in ("shaw", "alibi"):
        raise RegardError(
            f'attention = "{form}" never computes the score of a pair, which position = "{position}" adds to; '
            'choose position = "sinusoidal", "learned" or "rotary"'
        )


def _field(name: str) -> str:
    return "global_" if name == "global" else name
