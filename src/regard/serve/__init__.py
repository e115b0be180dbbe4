"""Models behind HTTP, for programs and people. The process that listens never imports torch.

    client ─HTTP→ guard → protocol → server.ask → pool (batching) ─socket→ worker: surface, engine
                  ↑ host, origin, key, size, time

settings      where a server listens, what it allows (Settings), what a request may cost (Limits)
registry      the models by name: Entry(name, path, facts); Facts is what a model's surface says of its task
server        Server: what every protocol asks
protocol      Protocol: what an adapter hands to the application; json_of, object_of, answer
protocols/    one file for each protocol
guard         what every request passes first, and what is counted of it
application   all protocols as one ASGI application; reference: the page /docs
pool          worker processes: who answers what, restarts, which models are held
batching      which inputs are answered together
process       one worker, as the server sees it; channel: the messages
worker        one worker, as it sees itself; how it opens models is given by `regard.commands.serve_worker`
texts/        texts in and out of models: sentences, marks, HTML, subtitles, languages
forms         what a request holds, however it was sent
running       sockets and signals
live          the live page of `regard look`, on models of its own process

The interface for an adapter, a file in `protocols/` that the tuple `PROTOCOLS` there names:

    def protocol(server: Server) -> Protocol:
        router = APIRouter(tags=["…"])

        @router.post("/path")
        async def path(request: Request) -> Response:
            body = await object_of(request)               # JSON; the size of the body was checked before
            found = await server.ask(model, [text], {"beam": 1}, detailed=True)
            return answer({"text": found[0].answer[0]["text"]})

        return Protocol(router, shape=shape, own_keys=False)

    def shape(error: ServeError) -> Response: …           # error.status, .reason (a Reason), .sentence

A handler that takes a Request alone and returns a Response is called without FastAPI in between, which is several times
faster; `openapi_extra=takes(Model)` documents its body and `await body_of(request, Model)` reads it.

server.ask(model, inputs, options, detailed, language, split) → list[Answered]
    `model` is a name of the registry, None for the first. `inputs` are JSON values as the task's surface reads them
    (`from_request`); `options` are those of `regard run`. An `Answered` has `.answer`, what `surface.to_json` gives
    and how many tokens were `.read` and `.said`. `detailed` adds what `regard run --json` tells: scores and tokens.
    Inputs are batched with those of other requests, and texts that are too long are split at sentence ends.
server.stream(model, input, options) → async iterator of pieces; server.tokenize(model, texts); server.look(…)
server.registry.find(name) → Entry, or a ServeError 404; server.registry.doing("translation") → entries, by the name
    that Hugging Face's programs have for the task (`facts.pipeline`): the name of a task is never asked for
server.check(inputs) refuses what is too long, NULs and half characters; `ask` does this itself
server.keys.admit(key) refuses a wrong key; the guard does this for `Authorization: Bearer KEY` unless `own_keys`

Errors: raise `ServeError(status, reason, sentence, retry_after=…)`, or `refused(sentence)` for a wrong request.
Whatever fails at a path of a protocol, in the guard too, is answered by the `shape` of that protocol; a request that
FastAPI cannot validate has status 422. If the client leaves, the handler is cancelled and its inputs are forgotten.
"""
