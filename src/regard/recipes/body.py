"""[model] of a recipe that starts from a pretrained model."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from regard.checking import Settings
from regard.models.facts import Pooling


class Pretrained(Settings):
    """`[model] body = "…"`: sizes and first weights are those of a model directory, or of one inside a package.

    When training begins, this becomes the config of the body's kind, so that the recipe beside the model is complete.
    """

    kind: Literal["body"] = "body"
    body: str = Field(
        description="a model directory, a Hugging Face directory, or an installed package with one inside"
    )
    dropout: float | None = Field(None, ge=0, lt=1, description="the body's own unless given")
    pooling: Pooling | None = Field(None, description="how one vector is made of a text")
