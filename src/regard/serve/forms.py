"""What a request holds, however it was sent: JSON, a form, a form with files, or parameters in the address."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from email.message import Message
from email.parser import BytesParser
from email.policy import HTTP
from urllib.parse import parse_qsl

from fastapi import Request
from pydantic import JsonValue

from regard.serve.failures import refused
from regard.serve.protocol import object_of

FIELDS = 1000  # of a form


@dataclass(frozen=True)
class Upload:
    """A file of a form. It is kept in memory; its name never reaches the file system."""

    name: str
    content: bytes


@dataclass(frozen=True)
class Form:
    """The fields and files of a request."""

    fields: Mapping[str, JsonValue]
    files: Mapping[str, Upload] = field(default_factory=dict)
    is_json: bool = False


async def form_of(request: Request) -> Form:
    """The fields of a request. Of a form and the parameters in the address, the latter come first."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "application/json" or kind.endswith("+json"):
        return Form(await object_of(request), is_json=True)
    query = dict(reversed(request.query_params.multi_items()))
    if kind == "multipart/form-data":
        fields, files = _parts(request.headers["content-type"], await request.body())
        return Form({**fields, **query}, files)
    try:
        pairs = parse_qsl(
            (await request.body()).decode(), keep_blank_values=True, errors="strict", max_num_fields=FIELDS
        )
    except ValueError:
        raise refused("the form cannot be read; send it in UTF-8") from None
    return Form({**dict(reversed(pairs)), **query})


def _parts(kind: str, body: bytes) -> tuple[dict[str, JsonValue], dict[str, Upload]]:
    """The fields and the files of a form in several parts."""
    head = f"Content-Type: {kind}\r\n\r\n".encode("latin-1", "replace")
    message: Message = BytesParser(policy=HTTP).parsebytes(head + body)
    if not message.is_multipart():
        raise refused("the form cannot be read; its parts and its boundary do not agree")
    fields: dict[str, JsonValue] = {}
    files: dict[str, Upload] = {}
    for part in message.walk():
        name, content = part.get_param("name", header="content-disposition"), part.get_payload(decode=True)
        if not isinstance(name, str) or not isinstance(content, bytes):
            continue
        file = part.get_filename()
        if file is not None:
            files.setdefault(name, Upload(file, content))
        else:
            fields.setdefault(name, _text(content))
    return fields, files


def _text(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise refused("a field of the form is not UTF-8; send it again") from None
