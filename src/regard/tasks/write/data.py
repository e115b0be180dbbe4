"""[data] of write, and the settings that cannot go together."""

from __future__ import annotations

from typing import Self

from pydantic import Field, NonNegativeInt, PositiveInt, model_validator

from regard import models
from regard.data.mixing import MixedTable, WeightedFiles
from regard.errors import RegardError
from regard.tasks.base import Setting


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


def check(setting: Setting[WriteData]) -> None:
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
