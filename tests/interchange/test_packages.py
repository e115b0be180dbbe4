from pathlib import Path

import pytest

from regard.errors import RegardError
from regard.interchange.packages import find_directory


def install(folder: Path, name: str, files: list[str]) -> None:
    """A package as pip leaves it; running any of its code would fail."""
    information = folder / f"{name}-1.0.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (information / "RECORD").write_text("".join(f"{file},,\n" for file in [f"{name}/__init__.py", *files]))
    for file in [f"{name}/__init__.py", *files]:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text("raise SystemExit('this was run')" if file.endswith(".py") else "{}")


def test_a_model_in_a_package_is_found_and_nothing_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    files = ["small_model/files/config.json", "small_model/files/model.safetensors", "small_model/config.json"]
    install(tmp_path, "small_model", files)
    monkeypatch.syspath_prepend(tmp_path)
    assert find_directory("small-model") == tmp_path / "small_model" / "files"


def test_a_directory_is_itself(tmp_path: Path):
    assert find_directory(tmp_path) == tmp_path


def test_what_is_neither_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(RegardError, match="neither a directory nor an installed package"):
        find_directory("no-such-model")
    install(tmp_path, "without_model", [])
    two = ["a/config.json", "a/x.safetensors", "b/config.json", "b/y.safetensors"]
    install(tmp_path, "two_models", two)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(RegardError, match=r"has no directory with config\.json"):
        find_directory("without-model")
    with pytest.raises(RegardError, match=r"has several models; name one of: two-models/a, two-models/b$"):
        find_directory("two-models")


def test_one_of_several_models_in_a_package_is_named_by_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folders = ["zoo/small", "zoo/large", "zoo/old/small"]
    install(tmp_path, "zoo", [f"{folder}/{file}" for folder in folders for file in ("config.json", "m.safetensors")])
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path / "zoo-1.0.dist-info")  # where no directory has the name of the package
    with pytest.raises(
        RegardError, match="several models; name one of: zoo/zoo/large, zoo/zoo/old/small, zoo/zoo/small"
    ):
        find_directory("zoo")
    assert find_directory("zoo/large") == tmp_path / "zoo" / "large"
    assert find_directory("zoo/zoo/small") == tmp_path / "zoo" / "small"
    assert find_directory("zoo/old/small/") == tmp_path / "zoo" / "old" / "small"
    with pytest.raises(RegardError, match="several models at small; name one of: zoo/zoo/old/small, zoo/zoo/small"):
        find_directory("zoo/small")
    with pytest.raises(RegardError, match="no model at tiny; name one of"):
        find_directory("zoo/tiny")
    with pytest.raises(RegardError, match="neither a directory nor an installed package"):
        find_directory("no-such-package/small")
