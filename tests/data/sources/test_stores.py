from contextlib import ExitStack
from pathlib import Path

import numpy as np
import object_store
import pytest
from samples import make_terms, regression_table

import parley
from parley.data.sketch import digested_table
from parley.data.sources import find_source, open_table, same_table
from parley.data.table import numbers
from parley.decisions.from_files.known_columns import Wishes
from parley.decisions.from_files.terms_from_files import draft
from parley.errors import DataError, SettingError
from parley.network.serving.opening import open_ledger
from parley.owner.ledger import Ledger
from parley.protocol.queries import GradientQuery
from parley.terms import load_terms, write_terms

SERVERS = {"small server": object_store.small_server, "moto": object_store.moto_server}


@pytest.fixture(scope="module", params=SERVERS)
def store(request):
    if request.param == "moto" and object_store.moto_command() is None:
        pytest.skip("moto_server is not installed: pip install 'moto[server]'")
    with ExitStack() as stack:
        try:
            opened = stack.enter_context(SERVERS[request.param]())
        except OSError as error:
            pytest.skip(str(error))
        yield opened


@pytest.fixture(scope="module")
def tables(store, tmp_path_factory):
    """(the rows, addresses by kind of table, where the same tables lie here)."""
    folder, rows = tmp_path_factory.mktemp("lake"), regression_table(400)
    rows.to_csv(folder / "t.csv", index=False)
    rows.to_csv(folder / "t.csv.gz", index=False)
    rows.to_parquet(folder / "t.parquet", row_group_size=90, index=False)
    rows.to_feather(folder / "t.arrow")
    for name, start in (("one", 0), ("two", 200)):
        (folder / "parts" / name).mkdir(parents=True)
        rows[start : start + 200].to_parquet(folder / "parts" / name / "0.parquet", index=False)
    store.put_folder("lake/tables", folder)
    names = ("t.csv", "t.csv.gz", "t.parquet", "t.arrow", "parts")
    return rows, {name: f"s3://lake/tables/{name}" for name in names}, folder


def test_a_table_in_a_store_is_the_table_here(tables):
    rows, addresses, folder = tables
    for name, address in addresses.items():
        there, digest = digested_table(address)
        here, same = digested_table(folder / name)
        assert digest == same
        assert there.schema == here.schema
        assert there.unchanged()
        assert there.files == ()
        read = np.concatenate([numbers(batch, "y", "t") for batch in there.batches(["y"])])
        np.testing.assert_array_equal(read, rows["y"])


def test_models_and_releases_come_from_a_store_as_from_a_file(tables, tmp_path):
    rows, addresses, _ = tables
    terms = make_terms(400)
    models = {
        name: parley.train(terms, [parley.Owner("a", place)], seed=1).theta.tolist()
        for name, place in {**addresses, "rows": rows}.items()
        if name != "parts"
    }
    assert len({*map(str, models.values())}) == 1
    owner = parley.Owner("a", addresses["parts"], ledger=Ledger(tmp_path / "a.ledger", lifetime=1.0))
    owner.accept(terms)
    owner.answer(GradientQuery.ask(terms.hash, "learner", 1, np.zeros(3)))
    assert owner.ledger.account(terms.hash).answers == 1
    owner.ledger.close()


@pytest.mark.parametrize("change", ["other bytes", "added", "truncated"])
def test_objects_that_change_are_noticed_by_their_etags(store, tmp_path, change):
    for name in ("a", "b"):
        regression_table(50, seed=1).to_parquet(tmp_path / f"{name}.parquet", index=False)
    store.put_folder(f"changed/{change}", tmp_path)
    table = open_table(f"s3://changed/{change}")
    content = (tmp_path / "a.parquet").read_bytes()
    assert len(table) == 100
    other = {"other bytes": content[:-9] + bytes([content[-9] ^ 1]) + content[-8:], "truncated": content[:-1]}
    store.put(f"changed/{change}/{'c' if change == 'added' else 'b'}.parquet", other.get(change, content))
    assert not table.unchanged()
    with pytest.raises(DataError, match="changed since the table was opened"):
        table.frame()


def test_a_copy_in_a_store_is_found_and_so_is_a_public_sample_of_it(store, tables, tmp_path):
    _, addresses, folder = tables
    store.put("elsewhere/copy.csv", (folder / "t.csv").read_bytes())
    one, two = open_table(addresses["t.csv"]), open_table("s3://elsewhere/copy.csv")
    assert same_table({"one": one, "two": two}) == ("one", "two")
    assert same_table({"one": one, "other": open_table(addresses["t.parquet"])}) is None
    assert one.holds(folder / "t.csv")
    (tmp_path / "public.csv").write_text("x\n1\n")
    assert not one.holds(tmp_path / "public.csv")


@pytest.mark.parametrize(
    "address",
    [
        "s3://KEY:SECRET@lake/t.parquet",
        "s3://KEY@lake/t.parquet",
        "s3://KEY:SEC/RET@lake/t.parquet",
        "s3://lake/t.parquet?access_key=KEY&secret_key=SECRET",
        "gs://KEY@lake/t.parquet",
        "abfs://:SECRET@account.dfs.core.windows.net/lake/t.parquet",
        "abfs://lake@account/t.parquet?sas_token=SECRET",
    ],
)
def test_an_address_with_a_key_is_refused_and_not_repeated(address, tmp_path):
    with pytest.raises(DataError, match="pass credentials in environment") as caught:
        open_table(address)
    assert not any(word in str(caught.value) for word in ("KEY", "SECRET", "SEC/", "RET"))
    with pytest.raises(DataError, match="pass credentials in environment"):
        open_ledger(tmp_path / "a", "a", Path(address), 1.0, 0.0, "127.0.0.1:0")
    assert not (tmp_path / "a").exists()


def test_what_goes_wrong_is_said_without_keys_and_cells(store, tables, monkeypatch):
    addresses = tables[1]
    store.put("lake/broken.parquet", b"Jane Doe 1969")
    store.put("lake/broken.csv", b'a,b\n1,2\n"Jane Doe 1969,3,4\n5')
    store.put("lake/broken.csv.gz", b"Jane Doe 1969")
    store.put("lake/broken.arrow", b"ARROW1\0\0Jane Doe 1969")
    said = []
    for name in ("broken.parquet", "broken.csv", "broken.csv.gz", "broken.arrow", "none.parquet", "t.xlsx", "none"):
        with pytest.raises(DataError) as caught:
            open_table(f"s3://lake/{name}")
        said.append(str(caught.value))
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")  # nobody there
    with pytest.raises(DataError) as caught:
        open_table(addresses["t.csv"])
    said.append(str(caught.value))
    assert all(text.startswith("s3://lake/") and "\n" not in text for text in said)
    assert not any(word in text for text in said for word in ("Jane", object_store.SECRET, "testing"))


def test_settings_and_terms_keep_an_address_as_it_is(store, tables, tmp_path):
    address = tables[1]["t.parquet"]
    settings = open_ledger(tmp_path / "bank", "a", Path(address), 1.0, 0.0, "127.0.0.1:0")
    assert f'table = "{address}"' in (tmp_path / "bank" / "owner.toml").read_text()
    assert len(open_table(settings.table)) == 400
    terms = make_terms(400).changed(owners={"a": {"data": address}})
    write_terms(terms, tmp_path / "terms.toml")
    assert load_terms(tmp_path / "terms.toml").owners[0].data == address
    with pytest.raises(SettingError, match="already has a ledger"):
        open_ledger(tmp_path / "again", "a", Path(address), 1.0, 0.0, "127.0.0.1:0")


def test_init_reads_a_table_in_a_store(tables, tmp_path):
    regression_table(400, seed=3).to_csv(tmp_path / "public.csv", index=False)
    address = tables[1]["t.parquet"]
    made = draft([Path(address)], Wishes(target="y", public=tmp_path / "public.csv"))  # as a command line has it
    assert [(part.name, part.records, part.data) for part in made.terms.owners] == [("t", 400, address)]


@pytest.mark.parametrize("address", ["gs://bucket/t.parquet", "abfs://container@account/t.parquet"])
def test_of_a_store_that_nobody_has_tried_messages_say_so(address, monkeypatch):
    def store(address):
        raise OSError("no answer")

    monkeypatch.setattr("parley.data.sources.files._store", store)
    with pytest.raises(DataError, match=r"cannot be read \(OSError\); Parley is tested with S3 only"):
        open_table(address)
    monkeypatch.setattr("parley.data.sources.files.StoredFile.is_folder", lambda file: False)
    (remark,) = find_source(address).remarks
    assert remark.startswith(f"The table is at {address}; Parley is tested with S3 only")
    assert find_source("s3://bucket/t.parquet").remarks == ()
