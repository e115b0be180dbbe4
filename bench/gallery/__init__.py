"""The gallery: one picture for each system, made by commands that the page shows.

    python -m bench gallery                   every picture, and docs/gallery.md
    python -m bench gallery --only performer  this picture alone; --only may be given again

Small files and models go into runs/gallery; models that are there are not trained again. It is run in the clone, where
the paths of the commands begin. Pictures are reduced to a few colours, so that the page stays small.
"""

from __future__ import annotations

import argparse
import io
import shlex
import warnings
from pathlib import Path

import typer
from PIL import Image

from bench.gallery.data import write_files
from bench.gallery.table import ELSEWHERE, GALLERY, Picture
from regard.cli import app
from regard.durable import write_file
from regard.errors import RegardError

OUT, RUNS, PAGE = Path("docs/gallery"), Path("runs/gallery"), Path("docs/gallery.md")
WIDEST, COLOURS = 900, 64  # pixels, and colours of a picture
OPENING = """# Gallery

One picture for each system, made by the commands below it. The models are small, and most learn in less than a minute:
digits written backwards, sentences of a small grammar, drawn objects, and other examples that are made by a rule. The
pictures illustrate the systems; they are no evidence of how reliably a system learns. Run in the clone,

    python -m bench gallery

writes the files that the commands read into `runs/gallery`, runs every command, and writes this page. Pictures that
need more than a command are drawn by `bench/gallery/drawings.py`.
"""


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench gallery", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", action="append", metavar="NAME", help="only this picture; may be given again")
    options = parser.parse_args(arguments)
    every = {picture.name: picture for pictures in GALLERY.values() for picture in pictures}
    for name in options.only or ():
        if name not in every:
            raise RegardError(f"there is no picture {name}; there are {', '.join(every)}")
    write_files(RUNS)
    OUT.mkdir(parents=True, exist_ok=True)
    for name in options.only or every:
        make(every[name])
        print(f"{OUT / name}.png")
    write_file(PAGE, page().encode())


def make(picture: Picture) -> None:
    """Run the commands of a picture, which write it, or draw it; then make it small."""
    for command in picture.commands:
        words = words_of(command)
        if words[0] == "regard" and not is_trained(words):
            run(words[1:])
    path = OUT / f"{picture.name}.png"
    if picture.draw is not None:
        picture.draw(path)
    write_file(path, small(path.read_bytes()))


def words_of(command: str) -> list[str]:
    """The words of a command as a shell has them; a tab may be written as in $'one\\tother'."""
    return shlex.split(command.replace("$'", "'").replace("\\t", "\t"))


def is_trained(words: list[str]) -> bool:
    """Whether a command trains a model that is there."""
    return words[1] == "train" and (Path(words[words.index("-o") + 1]) / "weights.safetensors").is_file()


def run(arguments: list[str]) -> None:
    """`regard` with these arguments, in this process: torch is imported once for all."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        typer.main.get_command(app)(arguments, standalone_mode=False)


def small(picture: bytes) -> bytes:
    """The picture with few colours, and no wider than `WIDEST`."""
    image = Image.open(io.BytesIO(picture)).convert("RGB")
    if image.width > WIDEST:
        image = image.resize((WIDEST, round(image.height * WIDEST / image.width)), Image.Resampling.LANCZOS)
    written = io.BytesIO()
    image.quantize(COLOURS, kmeans=2).save(written, "PNG", optimize=True)
    return written.getvalue()


def page() -> str:
    """The page of all pictures that are there."""
    parts = [OPENING]
    for section, pictures in GALLERY.items():
        parts.append(f"## {section}\n")
        for each in pictures:
            if (OUT / f"{each.name}.png").is_file():
                shown = "\n".join(f"    {command}" for command in each.shown)
                parts.append(
                    f"### {each.system}\n\n{each.says}\n\n![{each.system}](gallery/{each.name}.png)\n\n{shown}\n"
                )
        if section in ELSEWHERE:
            parts.append(ELSEWHERE[section])
    return "\n".join(parts)
