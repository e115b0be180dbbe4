"""GET /docs: the paths of a server, for people who write programs. It is made of the server's own OpenAPI.

The page has no script and loads nothing, so it works without a network.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape

from pydantic import JsonValue

from regard.look import page

Schema = Mapping[str, JsonValue]

STYLE = """
body { max-width: 62rem; margin: 0 auto; padding: 0 20px 40px; }
a { color: var(--accent); }
h2 { margin: 28px 0 6px; font-size: 1.15rem; }
details { margin: 6px 0; background: var(--raised); border: 1px solid var(--line); border-radius: 10px; padding: 8px 14px; }
summary { cursor: pointer; overflow-wrap: anywhere; }
summary b { display: inline-block; min-width: 3.6rem; color: var(--accent); }
code { font: 0.92em ui-monospace, monospace; }
table { border-collapse: collapse; margin: 8px 0; width: 100%; table-layout: fixed; }
th, td { text-align: start; vertical-align: top; padding: 3px 10px 3px 0; border-top: 1px solid var(--line); font-size: 0.9rem; overflow-wrap: anywhere; }
th { color: var(--ink-soft); font-weight: 400; }
th:first-child { width: 30%; }
th:last-child { width: 20%; }
"""  # noqa: E501


def rendered(api: Schema) -> str:
    """The page of an OpenAPI document."""
    info = _object(api["info"])
    title = f"{info['title']} {info['version']}"
    parts = _object(_object(api.get("components", {})).get("schemas", {}))
    groups: dict[str, list[str]] = {}
    for path, methods in _object(api["paths"]).items():
        for method, operation in _object(methods).items():
            said = _object(operation)
            tag = next(iter(_list(said.get("tags", ["other"]))))
            groups.setdefault(str(tag), []).append(_operation(path, method, said, parts))
    body = [f'<header><p class="brand">{escape(title)}</p><a href="./">try a model</a></header>']
    for tag, operations in groups.items():
        body += [f"<h2>{escape(tag)}</h2>", *operations]
    body.append('<p>For programs: <a href="./openapi.json">openapi.json</a></p>')
    return page.document(title, "\n".join(body), style=STYLE)


def _operation(path: str, method: str, said: Schema, parts: Schema) -> str:
    """One path with a method: what it does, and the fields that it takes."""
    does = escape(str(said.get("description", "")))
    rows = [*_parameters(said), *_fields(said, parts)]
    table = f"<table><tr><th>field<th>type<th>default</tr>{''.join(rows)}</table>" if rows else ""
    head = f"<summary><b>{escape(method.upper())}</b> <code>{escape(path)}</code> {does}</summary>"
    return f"<details>{head}{table}</details>"


def _parameters(said: Schema) -> Iterator[str]:
    for each in map(_object, _list(said.get("parameters", []))):
        yield _row(f"{each['name']} (in the {each['in']})", _object(each["schema"]), {}, needed=bool(each["required"]))


def _fields(said: Schema, parts: Schema) -> Iterator[str]:
    """The fields of the body, in the first form that it may have."""
    content = _object(_object(said.get("requestBody", {})).get("content", {}))
    for kind in list(content.values())[:1]:
        schema = _followed(_object(_object(kind)["schema"]), parts)
        needed = _list(schema.get("required", []))
        for name, field in _object(schema.get("properties", {})).items():
            yield _row(name, _object(field), parts, needed=name in needed)


def _row(name: str, field: Schema, parts: Schema, *, needed: bool) -> str:
    default = "needed" if needed else str(field["default"]) if field.get("default") is not None else ""
    return f"<tr><td><code>{escape(name)}</code><td>{escape(_type(field, parts))}<td>{escape(default)}</tr>"


def _type(schema: Schema, parts: Schema) -> str:
    """What a value is, in words."""
    schema = _followed(schema, parts)
    several = _list(schema.get("anyOf", schema.get("oneOf", [])))
    if several:
        kinds = [_type(_object(each), parts) for each in several]
        return " or ".join(dict.fromkeys(kind for kind in kinds if kind != "null"))
    if "enum" in schema:
        return " or ".join(map(str, _list(schema["enum"])))
    if "const" in schema:
        return str(schema["const"])
    if schema.get("type") == "array":
        return f"list of {_type(_object(schema.get('items', {})), parts)}"
    names = list(_object(schema.get("properties", {})))
    return f"object of {', '.join(names)}" if names else str(schema.get("type", "any JSON"))


def _followed(schema: Schema, parts: Schema) -> Schema:
    """A schema, or the one that it refers to by name."""
    return _object(parts[str(schema["$ref"]).rpartition("/")[2]]) if "$ref" in schema else schema


def _object(value: JsonValue | Schema) -> Schema:
    assert isinstance(value, Mapping)
    return value


def _list(value: JsonValue) -> Sequence[JsonValue]:
    assert isinstance(value, list)
    return value
