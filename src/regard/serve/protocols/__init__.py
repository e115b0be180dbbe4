"""Protocols that programs already speak: one file each.

A file has a function `protocol(server) -> Protocol`, and `PROTOCOLS` names it.
"""

from __future__ import annotations

from collections.abc import Callable

from regard.serve.protocol import Protocol
from regard.serve.protocols import health, own, page
from regard.serve.server import Server

PROTOCOLS: tuple[Callable[[Server], Protocol], ...] = (health.protocol, page.protocol, own.protocol)
