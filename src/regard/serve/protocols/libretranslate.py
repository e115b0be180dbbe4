"""The API of LibreTranslate: /translate, /detect, /languages, /translate_file, /frontend/settings.

Its clients read the words of errors, so they are LibreTranslate's own. A key is the field `api_key`; a header
`Authorization: Bearer KEY` is read as well. Beyond LibreTranslate: <keep>…</keep> and the field `glossary`.
"""

from __future__ import annotations

import asyncio
import json
import re
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from urllib.parse import quote

from fastapi import APIRouter, Request
from pydantic import JsonValue
from starlette.responses import JSONResponse, Response

from regard.errors import RegardError, cut
from regard.serve.failures import ServeError, refused
from regard.serve.forms import Form, Upload, form_of
from regard.serve.guard import bearer
from regard.serve.protocol import Protocol, answer
from regard.serve.registry import Entry
from regard.serve.server import Server
from regard.serve.texts import documents
from regard.serve.texts.documents import Document
from regard.serve.texts.languages import Detector, name_of
from regard.serve.texts.translation import Translated, translate

FORMATS: dict[str, Callable[[str], Document]] = {"text": documents.text, "html": documents.html}
FILES: dict[str, Callable[[str], Document]] = {
    ".txt": documents.text,
    ".html": documents.html,
    ".srt": documents.subtitles,
}
HOST = re.compile(r"[\w.-]+(:\d+)?|\[[\da-fA-F:]+\](:\d+)?", re.ASCII)
TERMS = 200  # of a glossary
PATIENCE = 500  # milliseconds that a page waits for the end of typing
KEPT_FILES, KEPT_BYTES, KEPT_SECONDS = 64, 64 << 20, 1800.0  # translated files, until they are fetched

SCHEMA: dict[str, JsonValue] = {
    "type": "object",
    "required": ["q", "source", "target"],
    "properties": {
        "q": {"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]},
        "source": {"type": "string"},
        "target": {"type": "string"},
        "format": {"type": "string", "enum": ["text", "html"]},
        "alternatives": {"type": "integer", "minimum": 0},
        "api_key": {"type": "string"},
        "glossary": {"type": "object", "additionalProperties": {"type": "string"}},
    },
}
ONE_TEXT: dict[str, JsonValue] = {"type": "object", "required": ["q"], "properties": {"q": {"type": "string"}}}


def shape(failure: ServeError) -> Response:
    """{"error": "a sentence"}, with LibreTranslate's codes and words."""
    status, sentence = failure.status, failure.sentence
    if failure.reason == "no_key":
        status, sentence = 400, "Please contact the server operator to get an API key"
    elif failure.reason == "wrong_key":
        sentence = "Invalid API key"
    elif failure.reason == "overloaded":
        sentence = f"Slowdown: {sentence}"
    elif status == 422:
        status = 400
    return JSONResponse({"error": sentence}, status)


def missing(name: str) -> ServeError:
    return refused(f"Invalid request: missing {name} parameter")


def protocol(server: Server) -> Protocol:
    router = APIRouter(tags=["LibreTranslate"])
    adapter, kept = Adapter(server), Kept()

    @router.post("/translate", openapi_extra=_takes(SCHEMA))
    async def translated(request: Request) -> Response:
        """A text, or a list of texts, in another language."""
        form = await adapter.form(request)
        return answer(await adapter.translated(form))

    @router.post("/detect", openapi_extra=_takes(ONE_TEXT))
    async def detect(request: Request) -> Response:
        """The languages that a text may have, the most probable first."""
        form = await adapter.form(request)
        texts = _texts(form)
        adapter.limit(texts)
        return answer(await adapter.detected(texts))

    @router.get("/languages")
    async def languages() -> Response:
        """The languages, and into which each can be translated."""
        return answer(adapter.languages())

    @router.get("/frontend/settings")
    async def settings() -> Response:
        """What a page must know."""
        return answer(adapter.settings())

    @router.post("/suggest")
    async def suggest() -> Response:
        """Suggestions are not taken."""
        raise ServeError(403, "forbidden", "Suggestions are disabled on this server.")

    @router.post("/translate_file")
    async def translate_file(request: Request) -> Response:
        """A file in another language: .txt, .html or .srt. The answer is an address where it can be fetched."""
        form = await adapter.form(request)
        file, truncated = await adapter.file(form)
        address = f"{_address(request)}/download_file/{kept.put(file)}.{quote(file.name)}"
        return answer({"translatedFileUrl": address, **({"truncated": True} if truncated else {})})

    @router.get("/download_file/{name}")
    async def download(name: str) -> Response:
        """A file that was translated."""
        found = kept.get(name.partition(".")[0])
        if found is None:
            raise ServeError(404, "not_found", "there is no such file; files are kept for half an hour")
        headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{quote(found.name)}"}
        return Response(found.content, media_type="application/octet-stream", headers=headers)

    return Protocol(router, shape=shape, own_keys=True)


def _address(request: Request) -> str:
    """How the client has addressed this server, which may be behind another one."""
    host, scheme = request.headers.get("x-forwarded-host", ""), request.headers.get("x-forwarded-proto", "")
    host = host if HOST.fullmatch(host) else request.headers.get("host", "")
    return f"{scheme if scheme in ('http', 'https') else request.url.scheme}://{host}"


def _takes(schema: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """What a path takes, for the description of the API."""
    kinds = ("application/json", "application/x-www-form-urlencoded")
    return {"requestBody": {"required": True, "content": {kind: {"schema": dict(schema)} for kind in kinds}}}


@dataclass
class Adapter:
    """Requests of LibreTranslate's clients as questions to the models of a server."""

    server: Server
    detector: Detector = field(default_factory=lambda: Detector(()))

    async def form(self, request: Request) -> Form:
        """The fields of a request, if its key is known."""
        try:
            form = await form_of(request)
        except ServeError as failure:
            is_json = "json" in request.headers.get("content-type", "")
            raise refused("Invalid JSON format") if is_json else failure from None
        key = form.fields.get("api_key")
        self.server.keys.admit(key if isinstance(key, str) and key else bearer(request.headers))
        return form

    # languages

    def pairs(self) -> dict[tuple[str, str], Entry]:
        """The model for each source and target language; the first where there are several."""
        found: dict[tuple[str, str], Entry] = {}
        for entry in self.server.registry.doing("translation"):
            if len(entry.facts.languages) == 2:
                found.setdefault((entry.facts.languages[0], entry.facts.languages[1]), entry)
        return found

    def languages(self) -> list[dict[str, JsonValue]]:
        pairs = self.pairs()
        codes = dict.fromkeys(code for pair in pairs for code in pair)
        return [
            {
                "code": code,
                "name": name_of(code),
                "targets": list[JsonValue](sorted({code, *(target for source, target in pairs if source == code)})),
            }
            for code in codes
        ]

    async def detected(self, texts: list[str]) -> list[dict[str, JsonValue]]:
        """Each language of the server with its certainty, the most certain first."""
        codes = dict.fromkeys(code for pair in self.pairs() for code in pair)
        if not codes:
            return []
        if self.detector.codes != tuple(codes):
            self.detector = Detector(codes)
        found = await asyncio.to_thread(self.detector.told, texts)
        return [{"confidence": share, "language": code} for code, share in found if share or len(found) == 1]

    def settings(self) -> dict[str, JsonValue]:
        pairs, keys = list(self.pairs()), bool(self.server.keys.known)
        source, target = pairs[0] if pairs else ("en", "en")
        return {
            "charLimit": self.server.limits.characters,
            "frontendTimeout": PATIENCE,
            "apiKeys": keys,
            "keyRequired": keys,
            "suggestions": False,
            "filesTranslation": True,
            "supportedFilesFormat": list(FILES),
            "language": {
                "source": {"code": source, "name": name_of(source)},
                "target": {"code": target, "name": name_of(target)},
            },
        }

    def model(self, source: str, target: str) -> Entry | None:
        """The model from one language to another; None for a language to itself."""
        pairs = self.pairs()
        for code in (source, target):
            if not any(code in pair for pair in pairs):
                raise refused(f"{cut(code, most=40)} is not supported")
        if source == target:
            return None
        if (source, target) not in pairs:
            names = f"{name_of(target)} ({target})", f"{name_of(source)} ({source})"
            raise refused(f"{names[0]} is not available as a target language from {names[1]}")
        return pairs[source, target]

    # texts

    async def translated(self, form: Form) -> dict[str, JsonValue]:
        """The answer to POST /translate."""
        texts, source, target = _texts(form), _code(form, "source"), _code(form, "target")
        alternatives, glossary = self._alternatives(form), self.glossary(form)
        self.limit(texts)
        found: dict[str, JsonValue] = {}
        several = isinstance(form.fields["q"], list)
        if source == "auto":
            told = (await self.detected(texts) or [{"confidence": 0.0, "language": target}])[0]
            source = str(told["language"])
            found["detectedLanguage"] = [told] * len(texts) if several else told
        entry = self.model(source, target)
        read = self._format(form)
        made = [_read(read, text) for text in texts]
        if entry is None:
            said = [Translated([text]) for text in texts]
        else:
            wanted = 0 if read is documents.html else alternatives
            said = await translate(self.server, entry, made, glossary=glossary, alternatives=wanted)
        best, others = [each.texts[0] for each in said], [list[JsonValue](each.texts[1:]) for each in said]
        found["translatedText"] = list(best) if several else best[0]
        if alternatives:
            found["alternatives"] = list(others) if several else others[0]
        if any(each.truncated for each in said):
            found["truncated"] = [each.truncated for each in said] if several else True
        return found

    async def file(self, form: Form) -> tuple[Upload, bool]:
        """A translated file, and whether something of it was cut."""
        upload, source, target = form.files.get("file"), _code(form, "source"), _code(form, "target")
        if upload is None:
            raise missing("file")
        if not upload.name or not upload.content:
            raise refused("Invalid request: empty file")
        name = PurePath(upload.name.replace("\\", "/"))
        if name.suffix.lower() not in FILES:
            raise refused("Invalid request: file format not supported")
        text = _decoded(upload)
        self.limit([text])
        if source == "auto":
            source = str((await self.detected([text]) or [{"language": target}])[0]["language"])
        entry, glossary = self.model(source, target), self.glossary(form)
        if entry is None:
            return Upload(name.name, upload.content), False
        document = _read(FILES[name.suffix.lower()], text)
        (said,) = await translate(self.server, entry, [document], glossary=glossary)
        return Upload(f"{name.stem}_{target}{name.suffix}", said.texts[0].encode()), said.truncated

    def glossary(self, form: Form) -> dict[str, str]:
        if found := _glossary(form):
            self.server.check([" ".join([*found, *found.values()])])
        return found

    def limit(self, texts: list[str]) -> None:
        limits = self.server.limits
        for size, most in ((len(texts), limits.batch), (sum(map(len, texts)), limits.characters)):
            if size > most:
                raise refused(f"Invalid request: request ({size}) exceeds text limit ({most})")
        self.server.check(texts)

    def _alternatives(self, form: Form) -> int:
        given = form.fields.get("alternatives") or 0
        try:
            number = max(0, int(given)) if isinstance(given, str | int | float) else None
        except (ValueError, OverflowError):
            number = None
        if number is None:
            raise refused("Invalid request: alternatives parameter is not a number")
        if number > (most := self.server.limits.beam - 1):
            raise refused(f"Invalid request: alternatives parameter must be <= {most}")
        return number

    def _format(self, form: Form) -> Callable[[str], Document]:
        given = form.fields.get("format") or "text"
        if not isinstance(given, str) or given not in FORMATS:
            raise refused(f"{cut(str(given), most=40)} format is not supported")
        return FORMATS[given]


def _texts(form: Form) -> list[str]:
    """The texts of `q`. The line ends of a form are those of its transport."""
    given = form.fields.get("q")
    if not given:
        raise missing("q")
    texts = [text for text in given if isinstance(text, str)] if isinstance(given, list) else [given]
    if not isinstance(given, str | list) or len(texts) != (len(given) if isinstance(given, list) else 1):
        raise refused("Invalid request: q parameter is not a text or a list of texts")
    found = [str(text) for text in texts]
    return found if form.is_json else [text.replace("\r\n", "\n") for text in found]


def _code(form: Form, name: str) -> str:
    given = form.fields.get(name)
    if not given:
        raise missing(name)
    if not isinstance(given, str):
        raise refused(f"{cut(str(given), most=40)} is not supported")
    return given


def _glossary(form: Form) -> dict[str, str]:
    """The terms with their renderings; in a form they are JSON."""
    given = form.fields.get("glossary")
    if not given:
        return {}
    try:
        found = json.loads(given) if isinstance(given, str) else given
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not all(isinstance(said, str) for said in found.values()):
        raise refused('Invalid request: glossary parameter is not an object such as {"term": "rendering"}')
    if len(found) > TERMS:
        raise refused(f"Invalid request: glossary has {len(found)} terms; at most {TERMS} are read")
    return {str(term): str(said) for term, said in found.items()}


def _read(read: Callable[[str], Document], text: str) -> Document:
    try:
        return read(text)
    except RegardError as error:
        raise refused(f"Invalid request: {error}") from None


def _decoded(upload: Upload) -> str:
    try:
        return upload.content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise refused("Invalid request: the file is not UTF-8") from None


@dataclass
class Kept:
    """Translated files in memory, until they are old or there are too many."""

    files: OrderedDict[str, tuple[float, Upload]] = field(default_factory=OrderedDict)

    def put(self, file: Upload) -> str:
        token = secrets.token_urlsafe(24)
        self.files[token] = (time.monotonic(), file)
        while len(self.files) > KEPT_FILES or sum(len(file.content) for _, file in self.files.values()) > KEPT_BYTES:
            self.files.popitem(last=False)
        return token

    def get(self, token: str) -> Upload | None:
        since, found = self.files.get(token, (0.0, None))
        if found is not None and time.monotonic() - since > KEPT_SECONDS:
            del self.files[token]
            return None
        return found
