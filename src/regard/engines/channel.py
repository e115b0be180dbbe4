"""Messages between two processes of this program: JSON objects, each after its length in four bytes."""

from __future__ import annotations

import json
import socket
from typing import Any

Message = dict[str, Any]
LARGEST = 1 << 30  # bytes of a message


def packed(message: Message) -> bytes:
    content = json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
    return framed(content)


def framed(content: bytes) -> bytes:
    return len(content).to_bytes(4, "big") + content


def unpacked(content: bytes) -> Message:
    found: Message = json.loads(content.decode("utf-8", "surrogatepass"))
    return found


class Channel:
    """One end, which waits for each message."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection

    def receive(self) -> Message | None:
        """The next message; None when the other process has ended."""
        content = self.receive_bytes()
        return None if content is None else unpacked(content)

    def receive_bytes(self) -> bytes | None:
        """What `send_bytes` has sent."""
        head = self._exactly(4)
        return None if head is None else self._exactly(int.from_bytes(head, "big"))

    def send(self, message: Message) -> None:
        self.connection.sendall(packed(message))

    def send_bytes(self, content: bytes) -> None:
        """Send numbers as they are, after a message that announces them."""
        self.connection.sendall(framed(content))

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
