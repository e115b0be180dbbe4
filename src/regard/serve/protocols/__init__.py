"""Protocols that programs already speak: one file each; `pipelines` is what that of Hugging Face makes of answers.

A file has a function `protocol(server) -> Protocol`, and `PROTOCOLS` names it.
"""

from __future__ import annotations

from collections.abc import Callable

from regard.serve.protocol import Protocol
from regard.serve.protocols import health, hugging_face, libretranslate, openai, own, page
from regard.serve.server import Server

PROTOCOLS: tuple[Callable[[Server], Protocol], ...] = (
    health.protocol,
    page.protocol,
    own.protocol,
    libretranslate.protocol,
    openai.protocol,
    hugging_face.protocol,  # after the page: errors of POST / have its shape
)
