"""The application: the paths of all protocols, behind one guard."""

from __future__ import annotations

from collections.abc import Iterable
from http import HTTPStatus

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, Response

from regard.errors import cut
from regard.serve.failures import Reason, ServeError
from regard.serve.guard import Guard, Places, current
from regard.serve.metrics import Metrics
from regard.serve.protocol import Protocol
from regard.serve.reference import rendered
from regard.serve.settings import Settings
from regard.version import __version__

REASONS: dict[int, Reason] = {404: "not_found", 405: "not_found"}


def build(protocols: Iterable[Protocol], settings: Settings, metrics: Metrics) -> Guard:
    """The application of these protocols."""
    app = FastAPI(title="regard", version=__version__, docs_url=None, redoc_url=None)
    protocols = list(protocols)
    for protocol in protocols:
        app.include_router(protocol.router)

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        return HTMLResponse(rendered(app.openapi()))

    app.add_exception_handler(ServeError, _failed)
    app.add_exception_handler(HTTPException, _unknown)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(Exception, _broken)
    return Guard(app, Places(protocols), settings, metrics)


def shaped(failure: ServeError) -> Response:
    """An error in the shape of the protocol whose path was asked."""
    place = current.get()
    assert place is not None
    response = place.shape(failure)
    response.headers.update(failure.headers)
    return response


async def _failed(_request: Request, error: Exception) -> Response:
    assert isinstance(error, ServeError)
    return shaped(error)


async def _unknown(request: Request, error: Exception) -> Response:
    """A path or a method that there is not, or a body that cannot be read."""
    assert isinstance(error, HTTPException)
    said = HTTPStatus(error.status_code).phrase
    sentence = {
        404: f"there is nothing at {cut(request.url.path)}",
        405: f"{cut(request.url.path)} does not answer {cut(request.method, most=20)}",
        400: "the request cannot be read; send JSON in UTF-8",
    }.get(error.status_code, said)
    response = shaped(ServeError(error.status_code, REASONS.get(error.status_code, "invalid"), sentence))
    response.headers.update(error.headers or {})
    return response


async def _invalid(_request: Request, error: Exception) -> Response:
    """A request that does not have the form that its path takes."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"] if part != "body")
    sentence = f"{cut(where)}: {first['msg']}" if where else f"the request: {first['msg']}"
    return shaped(ServeError(422, "invalid", sentence))


async def _broken(_request: Request, error: Exception) -> Response:
    return shaped(ServeError(500, "failed", f"answering this failed ({type(error).__name__})"))
