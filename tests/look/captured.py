"""The record of a task that stands alone, without a model directory."""

from typing import Any

from torch import nn

from regard.decoding import DecodingConfig
from regard.look.capture import capture
from regard.look.record import Record
from regard.tasks.base import AnyTask, Looking


def captured(
    module: nn.Module, task: Any, text: str, *, decoding: DecodingConfig, reference: str | None = None, **options: Any
) -> Record:
    """What `module` looks at when it answers a text, or when it is made to say `reference`."""
    chosen: AnyTask = task
    return capture(module, chosen.sight(module, text, Looking(decoding, reference)), **options)
