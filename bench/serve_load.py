"""The load of `python -m bench serve`: a process of its own, so that its share of the machine can be told.

A job in JSON on standard input: where the server is, how many clients there are, and the bodies that they post, each
with the answers expected of it. The result in JSON on standard output.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Load:
    """What is posted, in turn, by clients that keep their connections."""

    port: int
    path: str
    clients: int
    requests: int
    bodies: list[tuple[str, list[str]]]  # each with the texts that it is answered with
    seconds: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    different: int = 0

    async def run(self) -> dict[str, Any]:
        begun, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
        numbers = iter(range(self.requests))
        await asyncio.gather(*(self._client(numbers) for _ in range(self.clients)))
        taken, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_SELF)
        used = (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime)
        return {
            "seconds": taken,
            "latencies": sorted(self.seconds),
            "errors": self.errors[:5],
            "failed": len(self.errors),
            "different": self.different,
            "cpu": used / taken,
        }

    async def _client(self, numbers: Iterator[int]) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        for number in numbers:
            body, expected = self.bodies[number % len(self.bodies)]
            content = body.encode()
            head = f"POST {self.path} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\nContent-Type: application/json\r\n"
            begun = time.perf_counter()
            writer.write(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content)
            status, answer = await self._answer(reader)
            self.seconds.append(time.perf_counter() - begun)
            if status != 200:
                self.errors.append(f"{status}: {answer[:200].decode(errors='replace')}")
            elif texts_of(json.loads(answer)) != expected:
                self.different += 1
        writer.close()

    async def _answer(self, reader: asyncio.StreamReader) -> tuple[int, bytes]:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        length = int(head.partition("content-length:")[2].partition("\r\n")[0])
        return int(head.split()[1]), await reader.readexactly(length)


def texts_of(answer: Any) -> list[str]:
    """The texts of an answer, of LibreTranslate's form or of regard's own."""
    if isinstance(answer, dict) and "translatedText" in answer:
        found = answer["translatedText"]
        return found if isinstance(found, list) else [found]
    rows = answer if isinstance(answer, list) else [answer]
    return [row["answers"][0]["text"] for row in rows]


if __name__ == "__main__":
    print(json.dumps(asyncio.run(Load(**json.load(sys.stdin)).run())))
