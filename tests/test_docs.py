"""What the documentation shows, runs: its Python, its commands with their options, its links, pictures and paths."""

import argparse
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
import typer.core

from bench import __main__ as measuring
from regard import recipes
from regard.cli import app
from regard.commands.failures import UsageError

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
RECIPES = sorted((ROOT / "src/regard/recipes").glob("*.toml"))
SNIPPETS = {
    page.name: re.findall(r"^```python\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE) for page in PAGES
}
RUNNABLE = [name for name, snippets in SNIPPETS.items() if snippets and name != "README.md"]
ENDS = re.compile(r"\s{2,}|\s[|<>#](?=\s|$)|\s#|[;)]\s*$")  # what ends a command: an explanation, a pipe, a comment


def code(page: Path) -> Iterator[str]:
    """The lines of code of a page, fenced or indented; lines that end in a backslash are joined with the next."""
    text = page.read_text()
    if page.suffix == ".toml":
        lines = [line.removeprefix("#").strip() for line in text.splitlines() if line.startswith("#     ")]
    else:
        blocks = re.findall(r"^```(\w*)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
        plain = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
        lines = [line for language, block in blocks if language in ("", "sh") for line in block.splitlines()]
        lines += [line for line in plain.splitlines() if line.startswith("    ")]
    return (line.strip() for line in re.sub(r"\\\n\s*", "", "\n".join(lines)).splitlines())


def inline(page: Path) -> Iterator[str]:
    """The commands in a page's running text."""
    return iter(re.findall(r"`(regard [a-z]+ [^`\n]*)`", page.read_text()) if page.suffix == ".md" else [])


def commands(page: Path) -> Iterator[list[str]]:
    """The arguments of every `regard …` of a page: a command, then its arguments and options."""
    for line in [*code(page), *inline(page)]:
        found = re.search(r"(?:^|[$|] )(?:\.venv/bin/)?regard (?=[a-z-])(.*)", line)
        if found and not found[1].startswith("recipes, "):
            text = ENDS.split(found[1].replace("$'", "'"), maxsplit=1)[0]
            yield shlex.split(text)


EVERY = [(page, arguments) for page in [*PAGES, *RECIPES] for arguments in commands(page)]


def test_pages_and_commands_were_found():
    assert len(PAGES) >= 10
    assert "attention.md" in RUNNABLE
    assert {page.name for page, _ in EVERY} >= {"README.md", "translate.md", "rank.md", "sst2.toml"}
    assert {arguments[0] for _, arguments in EVERY} >= {"train", "run", "evaluate", "look", "bench", "import", "export"}


@pytest.mark.parametrize("name", RUNNABLE)
def test_the_python_of_a_page_runs_from_top_to_bottom(name: str):
    scope: dict[str, object] = {}
    for snippet in SNIPPETS[name]:
        exec(compile(snippet, name, "exec"), scope)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_and_pictures_lead_somewhere(page: Path):
    for target, section in re.findall(r"\]\((?!https?:)([^)#\s]*)(?:#([^)]+))?\)", page.read_text()):
        there = page.parent / target if target else page
        assert there.exists(), target
        if section:
            assert section in {anchor(title) for title in re.findall(r"^#+ (.+)$", there.read_text(), re.MULTILINE)}


def anchor(title: str) -> str:
    """The anchor that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


@pytest.mark.parametrize(
    "arguments",
    [arguments for _, arguments in EVERY],
    ids=[f"{page.name}: {' '.join(arguments)[:60]}" for page, arguments in EVERY],
)
def test_a_command_of_the_documentation_is_one_that_the_command_line_takes(arguments: list[str]):
    command = typer.main.get_command(app)
    assert isinstance(command, typer.core.TyperGroup)
    given = [word.strip("[]") for word in arguments if word.strip("[]…")]
    if given[0] == "--version":
        return
    name, *rest = given
    assert name in command.commands
    try:
        context = command.commands[name].make_context(name, rest)
    except UsageError as error:  # a sentence may name a command with one of its options, and leave the rest out
        if not re.search("Missing (argument|option)|requires an argument", error.format_message()):
            raise
        return
    if name == "train" and context.params["recipe"].islower() and "." not in context.params["recipe"]:
        recipe = context.params["recipe"]
        assert recipe in recipes.bundled()
        recipes.load(recipe, context.params["changes"] or ())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_paths_of_the_repository_exist(page: Path):
    for path in re.findall(r"`((?:src|tests|bench|docs)/[^`*…\s]+)`", page.read_text()):
        assert (ROOT / path).exists(), path


def test_the_readme_lists_every_page():
    text = (ROOT / "README.md").read_text()
    for page in (ROOT / "docs").glob("*.md"):
        assert f"](docs/{page.name})" in text, page.name


def measurements(page: Path) -> Iterator[list[str]]:
    """The arguments of every `python -m bench …` of a page."""
    shown = [*code(page), *re.findall(r"`(python -m bench [^`\n]*)`", page.read_text())]
    for line in shown:
        found = re.search(r"python -m bench (?=[a-z])([^`]*)", line)
        if found:
            yield shlex.split(ENDS.split(found[1], maxsplit=1)[0])


MEASURED = [(page, arguments) for page in [*PAGES, *RECIPES] for arguments in measurements(page)]


class ParsedError(Exception):
    """The arguments of a measurement were understood."""


@pytest.mark.parametrize(
    "arguments",
    [arguments for _, arguments in MEASURED],
    ids=[f"{page.name}: {' '.join(arguments)[:60]}" for page, arguments in MEASURED],
)
def test_a_measurement_of_the_documentation_is_one_that_bench_takes(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch
):
    parse = argparse.ArgumentParser.parse_known_args

    def parsed(parser: argparse.ArgumentParser, given: list[str], namespace: None) -> None:
        found, unknown = parse(parser, given, namespace)
        assert not unknown
        raise ParsedError(found)

    def refused(
        _parser: argparse.ArgumentParser, message: str
    ) -> None:  # a sentence may name a measurement and leave its data out
        assert "are required" in message, message
        raise ParsedError(message)

    monkeypatch.setattr(argparse.ArgumentParser, "parse_known_args", parsed)
    monkeypatch.setattr(argparse.ArgumentParser, "error", refused)
    assert arguments[0] in measuring.WORKS
    with pytest.raises(ParsedError):
        measuring.main(arguments)
