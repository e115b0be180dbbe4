"""Messages between the server and a worker: JSON objects, each after its length in four bytes."""

from __future__ import annotations

import json
import socket
from typing import Any

Message = dict[str, Any]
LARGEST = 1 << 30  # bytes of a message


def packed(message: Message) -> bytes:
    content = json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
    return len(content).to_bytes(4, "big") + content


def unpacked(content: bytes) -> Message:
    found: Message = json.loads(content.decode("utf-8", "surrogatepass"))
    return found


class Channel:
    """The worker's side, which waits for each message."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection

    def receive(self) -> Message | None:
        head = self._exactly(4)
        content = None if head is None else self._exactly(int.from_bytes(head, "big"))
        return None if content is None else unpacked(content)

    def send(self, message: Message) -> None:
        self.connection.sendall(packed(message))

    def has_message(self) -> bool:
        """Whether something has arrived that was not received yet."""
        self.connection.setblocking(False)
        try:
            return len(self.connection.recv(1, socket.MSG_PEEK)) >= 0
        except BlockingIOError:
            return False
        finally:
            self.connection.setblocking(True)

    def _exactly(self, length: int) -> bytes | None:
        parts: list[bytes] = []
        while length:
            part = self.connection.recv(min(length, 1 << 20))
            if not part:
                return None
            parts.append(part)
            length -= len(part)
        return b"".join(parts)
