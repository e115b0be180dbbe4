"""A model behind Ray Serve, for those who run Ray: two replicas, each with the whole model, and requests in batches.

    pip install regard 'ray[serve]'
    python examples/ray_serve.py runs/pairs
    curl -s localhost:8000/ -H 'Content-Type: application/json' -d '{"input": "a man sleeps"}'

A request and its answer have the form of `POST /run` of `regard serve`, for every task. In a cluster,
`num_replicas` says how many processes answer; every machine must reach the model directory.
"""

from __future__ import annotations

import sys

from ray import serve
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

import regard
from regard.errors import RegardError

REPLICAS = 2  # processes that answer, each with a core; Ray sets their number of threads
TOGETHER = 64  # requests that are answered together, at most
WAIT = 0.005  # seconds that a request waits for others


@serve.deployment(num_replicas=REPLICAS, ray_actor_options={"num_cpus": 1})
class Answering:
    """A replica: one process that holds the model."""

    def __init__(self, path: str) -> None:
        self.model = regard.load(path)

    @serve.batch(max_batch_size=TOGETHER, batch_wait_timeout_s=WAIT)
    async def answers(self, asked: list[object]) -> list[object]:
        """An answer to each input; Ray gathers the inputs of requests that arrive together."""
        return [self.model.surface.to_json(answer) for answer in self.model.answers(asked)]

    async def __call__(self, request: Request) -> Response:
        try:
            given = (await request.json())["input"]
            asked = self.model.surface.from_request(given)
        except (ValueError, TypeError, KeyError, RegardError) as error:
            sentence = str(error) if isinstance(error, RegardError) else 'send JSON such as {"input": "a text"}'
            return JSONResponse({"error": sentence}, 400)
        return JSONResponse({"input": given, "answers": await self.answers(asked)})


if __name__ == "__main__":
    serve.run(Answering.bind(sys.argv[1]), blocking=True)
