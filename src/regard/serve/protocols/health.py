"""Whether the server lives and is ready, and what it has counted: paths for those who watch over it.

/health and /ready; /v2/health/live, /v2/health/ready and /v2/models/{model}/ready as the Open Inference Protocol has
them; /metrics as Prometheus reads it.
"""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import JSONResponse, Response

from regard.serve.failures import ServeError
from regard.serve.protocol import Protocol
from regard.serve.server import Server

METRICS = "text/plain; version=0.0.4; charset=utf-8"


def protocol(server: Server) -> Protocol:
    router = APIRouter(tags=["health"])

    @router.get("/health")
    async def health() -> Response:
        """The server lives."""
        return JSONResponse({"status": "ok"})

    @router.get("/v2/health/live")
    async def live() -> Response:
        """The server lives."""
        return JSONResponse({"live": True})

    @router.get("/ready")
    async def ready() -> Response:
        """The server takes requests."""
        if server.draining or not server.pool.processes:
            raise ServeError(503, "unavailable", "the server is ending" if server.draining else "no worker runs")
        return JSONResponse({"status": "ready"})

    @router.get("/v2/health/ready")
    async def all_ready() -> Response:
        """The server takes requests."""
        await ready()
        return JSONResponse({"ready": True})

    @router.get("/v2/models/{model}/ready")
    async def model_ready(model: str) -> Response:
        """The model can be asked."""
        entry = server.registry.find(model)
        await ready()
        return JSONResponse({"name": entry.name, "ready": True})

    @router.get("/metrics", response_class=Response)
    async def metrics() -> Response:
        """What was counted."""
        return Response(server.metrics.text(), media_type=METRICS)

    free = frozenset({"/health", "/ready", "/v2/health/live", "/v2/health/ready"})
    return Protocol(router, free=free)
