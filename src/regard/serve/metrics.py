"""What `GET /metrics` tells, in Prometheus' form. No label holds a key, an address or a text."""

from __future__ import annotations

from contextvars import ContextVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
TOKENS = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)


asked: ContextVar[str] = ContextVar("asked", default="")  # the model that the current request asks


class Metrics:
    """The measurements of one server."""

    def __init__(self) -> None:
        self.registry = own = CollectorRegistry()
        self.requests = Counter(
            "regard_requests",
            "Requests by path, model and status",
            ["endpoint", "model", "status"],
            registry=own,
        )
        self.duration = Histogram(
            "regard_request_duration_seconds",
            "From a request to its answer",
            ["endpoint"],
            buckets=SECONDS,
            registry=own,
        )
        self.queue_duration = Histogram(
            "regard_queue_duration_seconds",
            "From an input to the worker that answers it",
            buckets=SECONDS,
            registry=own,
        )
        self.batch_size = Histogram("regard_batch_size", "Inputs answered together", buckets=SIZES, registry=own)
        self.batch_tokens = Histogram("regard_batch_tokens", "Tokens answered together", buckets=TOKENS, registry=own)
        self.queue_length = Gauge("regard_queue_length", "Inputs that wait for a worker", registry=own)
        self.tokens = Counter("regard_tokens", "Tokens read and said", ["direction"], registry=own)
        self.workers = Gauge("regard_workers", "Workers that run", registry=own)
        self.restarts = Counter("regard_worker_restarts", "Workers that ended and were started again", registry=own)
        self.models = Gauge("regard_model_info", "Models by name", ["model", "task", "kind", "version"], registry=own)

    def text(self) -> bytes:
        return generate_latest(self.registry)
