"""`regard serve`: models behind the APIs that programs already speak. Torch is imported in workers alone."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from regard.errors import RegardError, listed, shown

if TYPE_CHECKING:
    from regard.engines.choose import EngineName
    from regard.engines.ctranslate2.plans import Precision
    from regard.serve.settings import Settings

NEEDED = ("fastapi", "uvicorn", "httptools", "prometheus_client", "sentencex", "lxml", "py3langid")
WORKER = "regard.commands.serve_worker"


def require_extra(what: str = "a server") -> None:
    """Refuse to serve without the packages that it needs."""
    if missing := [name for name in NEEDED if find_spec(name) is None]:
        raise RegardError(f"{what} needs {', '.join(missing)}; install it with: pip install 'regard[serve]'")


def serve(
    models: Sequence[str],
    settings: Settings,
    *,
    runtime: EngineName,
    compute_type: Precision,
    languages: Sequence[str] = (),
) -> None:
    """Serve models, given as DIR or NAME=DIR, until a signal. `languages` are SOURCE,TARGET or NAME=SOURCE,TARGET."""
    from regard.serve.process import python
    from regard.serve.registry import named
    from regard.serve.server import Server

    paths: dict[str, Path] = named(models)
    codes = json.dumps(_languages(languages, paths))
    if not settings.local and not settings.keys.known:
        said = f"anybody who reaches {settings.host} may ask; give keys with --keys FILE"
        print(f"regard: {said}", file=sys.stderr, flush=True)
    server = Server.started(settings, [*python(WORKER), runtime, compute_type, codes])
    try:
        from regard.serve.running import run  # while the workers start

        run(paths, settings, server)
    finally:
        server.pool.kill()


def _languages(given: Sequence[str], paths: Mapping[str, Path]) -> dict[str, list[str]]:
    """The languages of model directories; those without a name are of the first model."""
    if not given:
        return {}
    from regard.data.pairs.examples import CODE

    found: dict[str, list[str]] = {}
    for each in given:
        name, _, codes = each.rpartition("=")
        name = name or next(iter(paths))
        if name not in paths:
            raise RegardError(f"there is no model {shown(name)} for --languages {each}; there are {listed(paths)}")
        if not re.fullmatch(f"{CODE},{CODE}", codes):
            raise RegardError(f"--languages {each} are not the codes of source and target, such as en,de")
        found[str(paths[name])] = codes.split(",")
    return found
