"""No command destroys what it is given, whatever the names it is given for it."""

import os
import stat
import threading

import click
import numpy as np
import pytest

from files import made_rows, write
from test_cli import run
from toppush import __version__, files
from toppush.cli import main
from toppush.cli.options import FilePath
from toppush.modelfile.saving import export_json, export_onnx

FIT = ("fit", "train.csv", "--label", "fraud", "--drop", "id", "--lam", "0.1", "--top", "30%")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli-files")
    write(folder / "train.csv", made_rows(120))
    run("fit", folder / "train.csv", "-o", folder / "m.toppush", *FIT[2:])
    return folder


@pytest.fixture
def folder(made, tmp_path, monkeypatch):
    """A folder with a table, a model and other names for both."""
    for path in made.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "hard.csv").hardlink_to(tmp_path / "train.csv")
    (tmp_path / "soft.csv").symlink_to("train.csv")
    (tmp_path / "soft.toppush").symlink_to("m.toppush")
    (tmp_path / "here").symlink_to(".")
    (tmp_path / "parts").mkdir()
    for name in ("a.csv", "b.csv"):
        (tmp_path / "parts" / name).write_bytes((made / "train.csv").read_bytes())
    rows = np.arange(40.0).reshape(20, 2)
    np.save(tmp_path / "X.npy", rows)
    np.save(tmp_path / "y.npy", rows[:, 0] > 20)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def contents(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.parametrize(
    "arguments",
    [
        (*FIT, "-o", "train.csv"),
        (*FIT, "-o", "hard.csv"),
        (*FIT, "-o", "soft.csv"),
        (*FIT, "-o", "here/train.csv"),
        ("fit", "soft.csv", *FIT[2:], "-o", "train.csv"),
        (*FIT, "-o", "new", "--weights", "new"),
        (*FIT, "-o", "new", "--weights", "here/new"),
        (*FIT, "--weights", "new", "-o", "./new"),
        (*FIT, "-o", "new", "--weights", "train.csv"),
        (*FIT, "-o", "new", "--onnx", "train.csv"),
        (*FIT, "-o", "new", "--onnx", "w", "--weights", "w"),
        ("fit", "X.npy", "--label", "y.npy", "-o", "y.npy", "--lam", "1"),
        ("fit", "parts", "--cluster", "local", "--label", "fraud", "-o", "parts/b.csv"),
        ("fit", "parts/*.csv", "--cluster", "local", "--label", "fraud", "-o", "parts/a.csv"),
        ("rank", "m.toppush", "train.csv", "-o", "train.csv"),
        ("rank", "m.toppush", "train.csv", "-o", "hard.csv"),
        ("rank", "soft.toppush", "train.csv", "-o", "m.toppush"),
        ("report", "m.toppush", "train.csv", "-o", "train.csv"),
        ("report", "m.toppush", "train.csv", "-o", "soft.toppush"),
        ("report", "m.toppush", "train.csv", "--train", "parts/a.csv", "-o", "parts/a.csv"),
    ],
    ids=" ".join,
)
def test_no_command_writes_over_what_it_reads_or_writes(arguments, folder):
    before = contents(folder)
    assert "which would be lost; name another file" in run(*arguments, code=2).stderr
    assert contents(folder) == before


def test_a_folder_of_parts_may_hold_the_model(folder):
    from toppush.cli.options import InputFile

    (folder / "parts" / "m.toppush").touch()
    read = InputFile().files(folder / "parts")
    assert [path.name for path in read] == ["a.csv", "b.csv"]


def all_commands(group):
    for command in group.commands.values():
        if isinstance(command, click.Group):
            yield from all_commands(command)
        else:
            yield command


def test_every_file_of_every_command_is_compared():
    """A new command cannot forget it: paths of files are of the types that compare."""
    paths = [
        (command.name, param)
        for command in all_commands(main)
        for param in command.params
        if isinstance(param.type, (click.Path, click.File))
    ]
    assert len(paths) > 10
    plain = [
        f"{name} {param.name}"
        for name, param in paths
        if not isinstance(param.type, FilePath) and getattr(param.type, "file_okay", True)
    ]
    assert plain == []


@pytest.mark.parametrize("arguments", [FIT, ("rank", "m.toppush", "train.csv")], ids=" ".join)
def test_a_folder_that_is_not_there_is_told_at_once(arguments, folder, monkeypatch):
    monkeypatch.setattr(files, "load", lambda path: pytest.fail("the work has begun"))
    monkeypatch.setattr(files, "fit", lambda *path: pytest.fail("the work has begun"))
    assert "none is not a folder" in run(*arguments, "-o", "none/x.csv", code=2).stderr


def test_a_model_is_written_where_a_link_leads(folder):
    (folder / "models").mkdir()
    (folder / "latest").symlink_to("models/today")
    run(*FIT, "-o", "latest")
    assert (folder / "latest").is_symlink()
    assert files.load(folder / "models" / "today").about["label"]["column"] == "fraud"


def test_a_list_goes_through_a_pipe(folder):
    pipe, got = folder / "pipe.csv", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: got.append(pipe.read_text()))
    reader.start()
    run("rank", "m.toppush", "train.csv", "-o", "pipe.csv")
    reader.join()
    run("rank", "m.toppush", "train.csv", "-o", "plain.csv")
    assert got == [(folder / "plain.csv").read_text()]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_devices_may_be_named_twice(folder):
    run(*FIT, "-o", os.devnull, "--weights", os.devnull)
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)


@pytest.mark.parametrize("write_to", [files.save, export_json, export_onnx])
def test_python_does_not_write_over_the_training_rows_either(write_to, folder):
    model = files.load("m.toppush")
    before = contents(folder)
    for path in ("train.csv", folder / "soft.csv", "parts/a.csv"):
        with pytest.raises(files.DataError, match="fitted"):
            write_to(model, path)
    assert contents(folder) == before
    write_to(model, "new")
    write_to(model, "new")


@pytest.mark.parametrize("arguments", [("--version",), FIT], ids=["version", "fit"])
def test_a_checkout_that_is_not_installed_works(arguments, folder, monkeypatch):
    from importlib import metadata

    found = metadata.version

    def version(package):
        if package == "toppush":
            raise metadata.PackageNotFoundError(package)
        return found(package)

    monkeypatch.setattr(metadata, "version", version)
    written = () if arguments == ("--version",) else ("-o", "new")
    run(*arguments, *written)
    if written:
        assert files.load("new").about["versions"]["toppush"] == __version__
        assert f"toppush {__version__}" in run("info", "new").stdout
        run("report", "new", "parts/a.csv", "-o", "page.html")
        assert f"toppush {__version__}" in (folder / "page.html").read_text(encoding="utf-8")
