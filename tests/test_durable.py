"""Files that a user names are replaced whole or not at all, and the message names them."""

import os
import resource
import sys
from contextlib import contextmanager
from pathlib import Path

import pandas as pd
import pytest
from samples import make_terms, regression_table

import parley
from parley.durable import require_folder, write_file
from parley.errors import DiskError, SettingError
from parley.learning.outcome.model import load_model
from parley.learning.outcome.predicted_table import write_table
from parley.protocol.setup import pin
from parley.report.figures import picture
from parley.terms import write_terms

ROOM = 200  # bytes that the disk takes of a file


@contextmanager
def full_disk():
    """Files of this process cannot grow beyond so many bytes: a write stops in the middle, as on a full disk.

    Except of bytecode, which is not written: cut off, it would break every later import of the module.
    """
    before, kept = resource.getrlimit(resource.RLIMIT_FSIZE), sys.dont_write_bytecode
    sys.dont_write_bytecode = True
    resource.setrlimit(resource.RLIMIT_FSIZE, (ROOM, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        sys.dont_write_bytecode = kept


def drawn():
    return picture.Picture(3, 2, "Nothing.")


def model():
    return parley.train(make_terms(200), [parley.Owner("a", regression_table(200))], seed=1).model


def pinned(path):
    pin(make_terms(200, model__public=str(public_beside(path.parent))), path)


def public_beside(folder):
    return folder.with_suffix(".csv")


WRITERS = {
    "model.json": lambda path: model().save(path),
    "terms.toml": lambda path: write_terms(make_terms(200, 300), path),
    "pinned.json": pinned,
    "figure.png": lambda path: picture.save(drawn(), path),
    "figure.svg": lambda path: picture.save(drawn(), path),
    "figure.pdf": lambda path: picture.save(drawn(), path),
    "rows.csv": lambda path: write_table(pd.DataFrame({"x": range(500)}), path),
    "rows.parquet": lambda path: write_table(pd.DataFrame({"x": range(500)}), path),
    "page.html": lambda path: write_file(path, "x" * 500),
}


@pytest.mark.parametrize("name", WRITERS)
def test_on_a_full_disk_an_earlier_file_stays_and_the_message_names_it(tmp_path, name):
    path = tmp_path / name
    path.write_text("earlier")
    regression_table(200).to_csv(public_beside(tmp_path), index=False)
    with pytest.raises(DiskError, match=f"{name}: cannot be written"), full_disk():
        WRITERS[name](path)
    assert path.read_text() == "earlier"
    assert list(tmp_path.iterdir()) == [path]
    WRITERS[name](path)
    assert path.stat().st_size > ROOM


def test_a_model_that_replaces_another_is_read_again(tmp_path):
    model().save(tmp_path / "model.json")
    model().save(tmp_path / "model.json")
    assert load_model(tmp_path / "model.json").theta_.size == 3


def test_a_file_keeps_its_permissions_and_links_and_pipes_stay_what_they_are(tmp_path):
    file, link = tmp_path / "terms.toml", tmp_path / "link.toml"
    write_file(file, "a")
    assert file.stat().st_mode & 0o400
    file.chmod(0o664)
    link.symlink_to(file)
    write_file(link, "b")
    assert link.is_symlink()
    assert (file.read_text(), file.stat().st_mode & 0o777) == ("b", 0o664)
    write_file("/dev/null", "c")
    assert not Path("/dev/null").is_file()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_file_in_a_folder_that_takes_no_new_ones_is_refused_before_work(tmp_path):
    (tmp_path / "model.json").touch()
    tmp_path.chmod(0o500)
    with pytest.raises(SettingError, match="cannot write this file"):
        require_folder(tmp_path / "model.json")
