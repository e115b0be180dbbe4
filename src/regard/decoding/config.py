"""How to decode: the [decoding] part of a recipe."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from regard.checking import Settings

LONGEST = 1 << 16  # tokens of an answer
WIDEST = 256  # hypotheses of a beam


class DecodingConfig(Settings):
    """How answers are searched for. Lengths count the tokens of an answer; `max_length` counts EOS too."""

    beam: int = Field(5, ge=1, le=WIDEST, description="hypotheses kept alive for each source; 1 is greedy")
    length_penalty: float = Field(1.0, ge=0, le=100, description="score = sum of log p / length ** length_penalty")
    coverage_penalty: float = Field(
        0.0, ge=0, le=100, description="weight of the penalty for source tokens not looked at"
    )
    early_stopping: bool = Field(
        True, description="stop at `beam` finished answers; false: only when none can be better"
    )
    min_length: int = Field(0, ge=0, le=LONGEST, description="no EOS before this many tokens")
    max_length: int = Field(256, ge=1, le=LONGEST, description="an answer ends here, EOS or not")
    no_repeat_ngram: int = Field(
        0, ge=0, le=LONGEST, description="no sequence of this many tokens occurs twice; 0 allows it"
    )
    n_best: int = Field(1, ge=1, le=4096, description="answers given for each source")
    sample: bool = Field(False, description="draw at random instead of searching for the best")
    temperature: float = Field(1.0, ge=1e-3, le=1e3, description="logits are divided by it before drawing")
    top_k: int = Field(0, ge=0, le=1 << 31, description="draw among this many most probable tokens; 0: all")
    top_p: float = Field(1.0, ge=1e-6, le=1, description="draw among the most probable tokens that hold this much mass")
    seed: int = Field(
        0, ge=0, lt=1 << 63, description="seed of the draws; the same source draws the same answer in any batch"
    )
    batch_tokens: int = Field(
        2048, ge=1, le=1 << 20, description="source tokens decoded together at most, padding included"
    )
    replace_unknown: bool = Field(False, description="replace <unk> by the source word that it looks at most")
    shortlist: bool | Literal["measured"] = Field(
        "measured",
        description="learn which target tokens translate which source tokens; CTranslate2 then scores only those, "
        "always or (measured) if the answers are as good and faster",
    )

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if self.min_length > self.max_length:
            raise ValueError(f"min_length={self.min_length} exceeds max_length={self.max_length}; lower it")
        if not self.sample and self.n_best > self.beam:
            wider = f"beam={self.n_best}" if self.n_best <= WIDEST else f"n_best={WIDEST}"
            raise ValueError(f"n_best={self.n_best} exceeds beam={self.beam}; try {wider} or sample=true")
        if self.coverage_penalty and (self.sample or self.beam == 1):
            raise ValueError(
                f"coverage_penalty={self.coverage_penalty} ranks the hypotheses of a beam, and there is no beam; "
                "set it to 0, or beam to more than 1 and sample to false"
            )
        for name in ("temperature", "top_k", "top_p"):
            value = getattr(self, name)
            if not self.sample and value != type(self).model_fields[name].default:
                raise ValueError(f"{name}={value} does nothing without sample=true; set both or neither")
        return self


SAMPLING = ("sample", "temperature", "top_k", "top_p")


def changed(settings: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a [decoding] with some changed.

    Asking for a beam ends the recipe's sampling; a beam is made wide enough for `n_best` unless one is given.
    """
    if "beam" in changes and not changes.get("sample"):
        settings = {name: value for name, value in settings.items() if name not in SAMPLING}
    result = {**settings, **changes}
    beam, n_best = result.get("beam", DecodingConfig().beam), changes.get("n_best")
    if "beam" not in changes and not result.get("sample") and isinstance(beam, int) and isinstance(n_best, int):
        result["beam"] = max(beam, min(n_best, WIDEST))
    return result


def shortened(decoding: DecodingConfig, most: int) -> DecodingConfig:
    """The same settings for answers of at most `most` tokens."""
    longest = min(decoding.max_length, most)
    return decoding.model_copy(update={"max_length": longest, "min_length": min(decoding.min_length, longest)})
