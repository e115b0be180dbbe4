"""Results as tables: in the terminal, and as Markdown for the docs."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table as RichTable

from bench.figures import sensible, spread
from bench.results import Result, Row, Table


def heading(table: Table) -> list[str]:
    """The names of the columns: one ratio for each of our rows, shares of the limit where they can be counted."""
    ratios = [f"{_short(row.name)} ÷ it" for row in table.ours]
    return ["system", table.unit, *ratios, *(["of the limit"] if table.flops is not None else [])]


def cells(table: Table, row: Row, limits: dict[str, float]) -> list[str]:
    """One line of a table, as text."""
    own = row.spread
    texts = [row.name, own.text(sensible(own.median))]
    texts += ["" if row.ours else table.ratio(mine, row).text(".2f") for mine in table.ours]
    if table.flops is not None:
        shares = {name: table.share(row, limit) for name, limit in limits.items()}
        texts.append(" · ".join(f"{share:.0%} {name}" for name, share in shares.items() if share is not None))
    return texts


def verdicts(table: Table) -> list[str]:
    """Each of our rows against the best peer."""
    best = table.best_peer()
    if best is None:
        return []
    sense = "" if table.higher else " (less is better)"
    return [
        f"{row.name}: {table.ratio(row, best).text('.2f')} × the best peer, {best.name}{sense}" for row in table.ours
    ]


def limits_of(result: Result) -> dict[str, float]:
    """The machine's rates in GFLOP/s, by precision."""
    return {name: spread(figures).median for name, figures in result.limits.items()}


def limit_line(result: Result) -> str:
    rates = [f"{spread(figures).text(',.0f')} GFLOP/s in {name}" for name, figures in result.limits.items()]
    return f"large matrix products in the same run: {', '.join(rates)}" if rates else ""


def show(result: Result, console: Console) -> None:
    """On the terminal."""
    for table in result.tables:
        made = RichTable(*heading(table), title=table.title)
        for row in table.rows:
            made.add_row(*cells(table, row, limits_of(result)), style="bold" if row.ours else None)
        console.print(made)
        for line in [*verdicts(table), *table.notes]:
            console.print(line, highlight=False)
    for line in [limit_line(result), *result.notes]:
        if line:
            console.print(line, highlight=False)


def markdown(result: Result) -> str:
    """A section of the docs: what was measured, by which command, when and on what."""
    machine = result.machine
    where = f"{machine['cpu']}, {machine['cores']} cores, {machine['threads']} threads"
    special = f" ({', '.join(machine['instructions'])})" if machine.get("instructions") else ""
    parts = [f"## {result.work}", result.about, f"    {result.command}", f"{result.date}, {where}{special}."]
    for table in result.tables:
        names = heading(table)
        rows = [names, ["---"] * len(names), *(cells(table, row, limits_of(result)) for row in table.rows)]
        parts += [f"**{table.title}**", "\n".join(f"| {' | '.join(row)} |" for row in rows)]
        said = [*verdicts(table), *table.notes]
        parts += ["\n".join(f"- {line}" for line in said)] if said else []
    closing = [limit_line(result), *result.notes, _versions(result)]
    parts += ["\n".join(f"- {line}" for line in closing if line)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _versions(result: Result) -> str:
    """Each package once, with the versions that were used."""
    found = sorted({f"{package} {version}" for each in result.versions.values() for package, version in each.items()})
    return f"versions: {', '.join(found)}" if found else ""


def _short(name: str) -> str:
    """What tells one of our rows from another."""
    return name.removeprefix("regard").strip(" ,") or "regard"
