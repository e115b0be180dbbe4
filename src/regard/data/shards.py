"""A corpus on disk in shards, made by this process or by several.

The content of a shard is a record batch, from which a `Maker` writes a file. The shard is kept (see `regard.data.kept`)
by a digest of its content and of the maker: a making that was killed goes on where it ended, and if one file of many
has changed, only its shards are made again. Whoever makes a shard, its bytes are the same.

Other processes run `regard.data.shard_maker` and are asked through pipes.
"""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from queue import SimpleQueue
from typing import IO, Any, Protocol

import pyarrow
from pydantic import JsonValue

from regard.data.kept import DAMAGED, made, stored
from regard.errors import RegardError

LENGTH = struct.Struct("<Q")  # before each message of a pipe
AHEAD = 2  # shards that are read in advance, for each process

Description = Mapping[str, Any]


class Maker(Protocol):
    """What makes a shard from its content."""

    def settings(self) -> dict[str, JsonValue]:
        """All that makes the same maker in another process (see `regard.data.shard_maker`)."""

    def make(self, content: pyarrow.RecordBatch, path: Path) -> dict[str, object]:
        """Write the shard, and return what its description has to say."""


def shards(
    contents: Iterable[pyarrow.RecordBatch], maker: Maker, *, place: Callable[[int], Path], processes: int = 1
) -> Iterator[Description]:
    """Make shards of these contents, at the places for 0, 1, 2, …, and yield their descriptions in this order.

    With several processes, these make the shards that are missing, and this one reads.
    """
    settings = json.dumps(maker.settings()).encode()
    base = sha256(settings)
    with _Makers(settings, processes) if processes > 1 else _Alone(maker) as makers:
        waiting: deque[Callable[[], Description]] = deque()
        for number, content in enumerate(contents):
            packed, digest = to_bytes(content), base.copy()
            digest.update(packed)
            path = place(number)
            found = _found(path, digest.hexdigest())
            waiting.append(_known(found) if found else makers.ask(path, digest.hexdigest(), content, packed))
            while len(waiting) > AHEAD * processes:
                yield waiting.popleft()()
        while waiting:
            yield waiting.popleft()()


def _known(description: Description) -> Callable[[], Description]:
    return lambda: description


def _found(path: Path, digest: str) -> Description | None:
    """The description of a shard that is there; a damaged one is made again."""
    try:
        return stored(path, digest)
    except DAMAGED as error:
        warnings.warn(f"{path} is damaged ({error}) and is made again", RuntimeWarning, stacklevel=3)
        return None


class _Alone:
    """This process, which makes a shard when it is asked for it."""

    def __init__(self, maker: Maker) -> None:
        self.maker = maker

    def __enter__(self) -> _Alone:
        return self

    def __exit__(self, *_: object) -> None: ...

    def ask(
        self, path: Path, digest: str, content: pyarrow.RecordBatch, _packed: memoryview
    ) -> Callable[[], Description]:
        description = made(path, digest, lambda beside: self.maker.make(content, beside))
        return _known(description)


class _Makers:
    """Processes that make shards, each with a thread here that waits for it."""

    def __init__(self, settings: bytes, count: int) -> None:
        self.settings, self.count = settings, count
        self.processes: list[subprocess.Popen[bytes]] = []
        self.idle: SimpleQueue[subprocess.Popen[bytes]] = SimpleQueue()
        self.threads = ThreadPoolExecutor(count)

    def __enter__(self) -> _Makers:
        environment = {**os.environ, "TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": "1"}
        for _ in range(self.count):
            process = subprocess.Popen(
                [sys.executable, "-m", "regard.data.shard_maker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=environment,
            )
            self.processes.append(process)
            self.idle.put(process)
            with suppress(BrokenPipeError):  # a process that cannot start is reported when it is asked
                write(_pipe(process.stdin), self.settings)
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes:
            process.kill()
        self.threads.shutdown(cancel_futures=True)
        for process in self.processes:
            process.wait()
            for pipe in (process.stdin, process.stdout):
                with suppress(BrokenPipeError):
                    _pipe(pipe).close()

    def ask(
        self, path: Path, digest: str, _content: pyarrow.RecordBatch, packed: memoryview
    ) -> Callable[[], Description]:
        future: Future[Description] = self.threads.submit(self._asked, path, digest, packed)
        return future.result

    def _asked(self, path: Path, digest: str, packed: memoryview) -> Description:
        process = self.idle.get()
        try:
            write(_pipe(process.stdin), json.dumps({"path": str(path), "digest": digest}).encode())
            write(_pipe(process.stdin), packed)
            answer = read(_pipe(process.stdout))
        except BrokenPipeError:
            answer = None
        finally:
            self.idle.put(process)  # one that has ended, too: whoever takes it finds that out
        if answer is None:
            raise RegardError(
                f"a process that prepares data has ended (exit code {process.wait()}); shards that are finished are "
                "kept, so run the same command again, with fewer --processes if memory was short"
            )
        description = json.loads(bytes(answer))
        if error := description.get("error"):
            raise RegardError(error)
        return description


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None
    return pipe


def to_bytes(content: pyarrow.RecordBatch) -> memoryview:
    """A record batch with its schema, as a stream of Arrow."""
    sink = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, content.schema) as writer:
        writer.write_batch(content)
    return memoryview(sink.getvalue())


def from_bytes(content: bytes | memoryview) -> pyarrow.RecordBatch:
    """The opposite of `to_bytes`."""
    with pyarrow.ipc.open_stream(pyarrow.py_buffer(content)) as reader:
        return reader.read_next_batch()


def write(pipe: IO[bytes], message: bytes | memoryview) -> None:
    """Send a message through a pipe."""
    pipe.write(LENGTH.pack(len(message)))
    pipe.write(message)
    pipe.flush()


def read(pipe: IO[bytes]) -> bytes | None:
    """The next message of a pipe; None at its end."""
    head = pipe.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    (size,) = LENGTH.unpack(head)
    message = pipe.read(size)
    return message if len(message) == size else None
