"""The studio's tabs: a slider moves the forecast, terms are saved, jobs run, stop and outlive the studio, books are
shown."""

import json
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("starlette", reason="the extra parley-dp[studio] is not installed")
pytest.importorskip("httpx", reason="httpx is not installed")
from clinics import clinic_terms, write_tables
from samples import regression_table
from studio_client import PROOF, enter, stranger_at, studio_at
from typer.testing import CliRunner

from parley.cli.app import app as parley
from parley.decisions.outlook.forecast import forecast, what_if
from parley.errors import SettingError
from parley.report.words.negotiation import VALUES_SHARED_NOTE
from parley.studio.claims import claimed, is_claimed, lock_of
from parley.studio.jobs import JobFolder
from parley.studio.playground import Playground
from parley.terms import load_terms

DEAL = 'value = 100.0\nprivacy_cost = { kind = "linear", weight = 0.01 }\n'
TERMS = clinic_terms(public=True, horizon=5, clip=1000.0, more=DEAL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("studio")
    write_tables(place, north=400, south=300, public=200)
    (place / "terms.toml").write_text(TERMS)
    (place / "tight.toml").write_text(TERMS.replace("clip = 1000.0", "clip = 0.5"))
    return place


@pytest.fixture(scope="module")
def base(folder):
    return forecast(load_terms(folder / "terms.toml"))


@pytest.fixture(scope="module")
def client(folder):
    play = Playground()
    play.load(folder / "terms.toml")
    return enter(stranger_at(studio_at(folder, play)))


def changed(client, **fields):
    form = {"noise": "each_owner", "personal": "on", "records.0": "400", "epsilon.0": "1.0", **fields}
    return client.post("/play/change", data=form, headers=PROOF)


def fitness(text):
    return float(re.search(r"ψ = ([0-9.e-]+)", text).group(1))


def test_a_forecast_by_moments_is_carried_over_exactly(base):
    assert base.method == "exact-moments"
    numbers = {"north": {"records": 900, "epsilon": 0.7}, "south": {"records": 80, "epsilon": 3.0}}
    terms = base.terms.changed(owners=numbers)
    carried, whole = what_if(base, terms), forecast(terms)
    assert carried.relative_fitness.mean == pytest.approx(whole.relative_fitness.mean, rel=1e-9)
    assert carried.best_coalition == whole.best_coalition
    for quick, slow in zip(carried.outlook.owners, whole.owners, strict=True):
        assert (quick.name, quick.verdict) == (slow.name, slow.verdict)
        assert quick.alone == pytest.approx(slow.alone, rel=1e-9)
        assert quick.personal == pytest.approx(slow.personal, rel=1e-3)  # its interval was resampled at other numbers


def test_at_its_own_terms_a_forecast_is_carried_over_to_itself(folder):
    """By a pilot run, too, whose clip binds."""
    found = forecast(load_terms(folder / "tight.toml"))
    assert found.method == "pilot-run"
    carried = what_if(found, found.terms)
    assert vars(carried.relative_fitness) == pytest.approx(vars(found.relative_fitness))
    both = ([each.gain.mean for each in owners] for owners in (carried.outlook.owners, found.owners))
    assert next(both) == pytest.approx(next(both))
    joint = what_if(found, found.terms, personal=False)
    for own, shared in zip(carried.outlook.owners, joint.outlook.owners, strict=True):
        assert shared.gain.mean <= own.gain.mean


def test_a_slider_moves_the_forecast_at_once_and_a_whole_one_follows(client, folder):
    page = client.get("/play").text
    assert "Two clinics" in page
    assert 'name="epsilon.1"' in page
    loud, quiet = changed(client, **{"epsilon.0": "0.1"}).text, changed(client, **{"epsilon.0": "5"}).text
    assert fitness(loud) > fitness(quiet)
    assert 'id="gain-0"' in quiet
    assert "can rise to at most" in quiet
    whole = client.get(re.search(r"/play/whole\?turn=\d+", quiet).group(0)).text
    assert fitness(whole) == pytest.approx(fitness(quiet), rel=1e-3)
    assert "The full forecast" in whole
    deal = client.get(re.search(r"/play/deal\?turn=\d+", whole).group(0)).text
    assert "Which budgets would the owners choose?" in deal
    assert "north" in deal
    assert client.get("/play/whole?turn=1").status_code == 204  # the sliders moved on


def test_what_was_sent_earlier_changes_nothing_when_it_comes_later(client):
    late = changed(client, sent="2000", **{"epsilon.0": "2"}).text
    assert fitness(changed(client, sent="1000", **{"epsilon.0": "0.1"}).text) == fitness(late)


def test_a_whole_forecast_that_nobody_waits_for_is_given_up(folder, monkeypatch):
    play = Playground()
    play.load(folder / "terms.toml")
    play.at_once()
    turn = play.change({"north": {"epsilon": 0.3}}).turn
    began = []

    def moved_meanwhile(terms, progress, **_):
        began.append(terms)
        play.change({"north": {"epsilon": 0.4}})
        progress(1, 2)
        raise AssertionError("it went on")

    monkeypatch.setattr("parley.workflows.forecast.forecast", moved_meanwhile)
    assert play.whole(turn) is None
    assert len(began) == 1


def test_one_noise_for_all_is_a_switch(client):
    shared = changed(client, noise="shared", **{"epsilon.0": "0.5"}).text
    own = changed(client, noise="each_owner", **{"epsilon.0": "0.5"}).text
    assert fitness(shared) != fitness(own)
    assert "this is the range of 2ε" in shared  # hosts need a delta, so the same epsilon bounds beliefs less
    assert "2ε" not in own


def worthwhile(folder):
    """Terms by which large budgets help both owners, who have stated nothing."""
    noisy = regression_table(200, seed=3)
    noisy.assign(y=noisy["y"] + np.random.default_rng(1).normal(0, 1, 200)).to_csv(folder / "noisy.csv", index=False)
    text = re.sub(r"(value|privacy_cost|algorithm) = .*\n", "", TERMS.replace("clip = 1000.0", "clip = 5.0"))
    text = text.replace("horizon = 5\nstep = 0.3", "horizon = 60\nstep = 0.5").replace("public.csv", "noisy.csv")
    text = re.sub("records = .*", "records = 100", text.replace('"laplace"', '"gaussian"\ndelta = 1e-6'))
    (folder / "silent.toml").write_text(text)
    play = Playground()
    play.load(folder / "silent.toml")
    return play


def test_one_noise_for_all_is_saved_with_hosts_that_were_named_or_says_that_they_are_placeholders(client, folder):
    changed(client, noise="shared")
    assert "host-1,host-2,host-3" in client.get("/play").text
    saved = client.post("/play/save", data={"save_as": "unnamed", "hosts": ""}, headers=PROOF).text
    assert "host-1, host-2, host-3 are placeholders" in saved
    assert "δ = 1e-09" in saved or "δ = 1e-9" in saved
    named = client.post("/play/save", data={"save_as": "named", "hosts": "a, b,c"}, headers=PROOF).text
    assert "nobody" not in named
    assert [host.name for host in load_terms(folder / "named.toml").hosts] == ["a", "b", "c"]
    client.post("/play/save", data={"save_as": "wrong", "hosts": "a,a,b"}, headers=PROOF)
    assert not (folder / "wrong.toml").exists()
    changed(client, noise="each_owner")


def test_where_nobody_is_expected_to_gain_the_page_says_so_first_and_no_more_of_whom_to_ask(folder):
    visitor = enter(stranger_at(studio_at(folder, worthwhile(folder))))
    many = {"records.0": "9000", "records.1": "9000"}
    poor = changed(visitor, **{**many, "epsilon.0": "0.001", "epsilon.1": "0.001"}).text
    assert poor.startswith('<p class="verdict">Stay: ')
    assert "the joint model is better with this owner" not in poor
    assert "best with all owners" not in poor
    assert "<strong>2</strong> stay: not worthwhile" in poor
    rich = changed(visitor, **{"records.0": "50", "records.1": "50", "epsilon.0": "100", "epsilon.1": "100"}).text
    assert "Unsure: no owner gains for sure" in rich.splitlines()[0]
    assert "<strong>2</strong> unsure" in rich
    assert "the joint model is better with this owner" in rich
    assert "whether or not each owner gains" in rich
    whole = visitor.get(re.search(r"/play/whole\?turn=\d+", rich).group(0)).text
    assert whole.index('class="verdict"') < whole.index('class="headline"')


@pytest.mark.parametrize("fields", [{"epsilon.0": "x"}, {"records.0": "1.5"}, {"records.9": "5"}, {"epsilon.0": "-1"}])
def test_a_wrong_number_is_one_sentence(client, fields):
    answer = changed(client, **fields)
    assert answer.status_code == 200
    assert "refused" in answer.text or "failed" in answer.text
    assert "Traceback" not in answer.text


def test_terms_are_saved_to_a_new_file_and_nothing_is_overwritten(client, folder):
    changed(client, **{"epsilon.0": "0.75"})
    answer = client.post("/play/save", data={"save_as": "agreed"}, headers=PROOF)
    assert "Saved as agreed.toml. Next, open the Train tab." in answer.text
    assert float(load_terms(folder / "agreed.toml").owners[0].epsilon) == 0.75
    before = (folder / "terms.toml").read_bytes()
    for name in ("terms.toml", "agreed"):
        assert "exists" in client.post("/play/save", data={"save_as": name}, headers=PROOF).text
    assert (folder / "terms.toml").read_bytes() == before


def test_what_owners_state_changes_the_deal_and_not_the_forecast_and_is_saved(folder):
    play = worthwhile(folder)
    silent = enter(stranger_at(studio_at(folder, play)))
    whole = silent.get(f"/play/whole?turn={play.require().turn}").text
    deal = re.compile(r"/play/deal\?turn=\d+")
    assert "value that pays" in silent.get(deal.search(whole).group(0)).text
    said = {f"{key}.{n}": number for n in (0, 1) for key, number in (("value", "1000"), ("cost", "0.01"))}
    said["records.0"] = "100"
    told = changed(silent, **said).text
    assert "The full forecast" in told  # nothing is forecast anew
    joined = silent.get(deal.search(told).group(0)).text
    assert joined.count("<td>yes</td>") == 2
    dear = changed(silent, **said | {"cost.0": "1e6", "cost.1": "1e6"}).text
    assert "No owner joins" in silent.get(deal.search(dear).group(0)).text
    silent.post("/play/everyone", data={"all_value": "7", "all_cost": "0.5"}, headers=PROOF)
    saved = silent.post("/play/save", data={"save_as": "stated"}, headers=PROOF).text
    assert VALUES_SHARED_NOTE in saved
    assert VALUES_SHARED_NOTE in (Path(__file__).parents[2] / "docs" / "studio.md").read_text()
    assert load_terms(folder / "stated.toml").hash != load_terms(folder / "silent.toml").hash
    owners = load_terms(folder / "stated.toml").owners
    assert [(part.value, part.privacy_cost.kind, part.privacy_cost.weight) for part in owners] == [
        (7, "linear", 0.5)
    ] * 2
    assert [part.records for part in owners] == [100, 100]
    changed(silent, **{"value.0": ""})
    assert [part.value for part in play.require().terms.owners] == [None, 7]


def test_saved_terms_say_what_comes_first_and_nothing_of_stakes_that_nobody_stated(folder):
    text = re.sub(r"(value|privacy_cost|public) = .*\n", "", TERMS)
    text = re.sub("mechanism = .*", 'mechanism = "gaussian"\ndelta = 1e-6\nscale_epsilon = 0.1', text)
    (folder / "unscaled.toml").write_text(text)
    play = Playground()
    play.load(folder / "unscaled.toml")
    saved = (
        enter(stranger_at(studio_at(folder, play))).post("/play/save", data={"save_as": "later"}, headers=PROOF).text
    )
    assert "Next, ask for column scales on the Train tab" in saved
    assert VALUES_SHARED_NOTE not in saved


def test_a_thousand_owners_are_shown_some_at_a_time(folder, base):
    text = TERMS.split("[[owners]]")[0]
    text += "".join(f'[[owners]]\nname = "o{n}"\nrecords = {100 + n}\nepsilon = 1.0\n' for n in range(1000))
    (folder / "many.toml").write_text(text)
    play = Playground()
    play.load(folder / "many.toml")
    many = enter(stranger_at(studio_at(folder, play)))
    page = many.get("/play?page=2").text
    assert page.count('class="owner"') == 20
    assert many.get("/play?name=o99").text.count('class="owner"') == 11
    first = many.get("/play/now?page=2").text
    assert first.count('id="gain-') == 20
    assert many.post("/play/everyone", data={"all_epsilon": "0.2"}, headers=PROOF).status_code == 204
    assert fitness(many.get("/play/now").text) > fitness(first)
    (folder / "many.toml").unlink()


def finished(job, seconds=60):
    until = time.monotonic() + seconds
    while job.state == "running" and time.monotonic() < until:
        time.sleep(0.05)
    return job


def test_a_training_is_a_job_whose_outcome_lies_over_the_forecast(client, folder):
    (folder / "held.toml").write_text(TERMS.replace("[learning]", "holdout = 0.2\n[learning]"))
    answer = client.post("/train/start", data={"file": "held.toml", "replicates": "5", "seed": "1"}, headers=PROOF)
    address = answer.headers["hx-redirect"]
    jobs = JobFolder(folder / ".jobs", folder)  # as after a restart
    job = finished(jobs.find(address.rpartition("/")[2]))
    assert job.state == "done", job.log
    assert job.result["replicates"] == 5
    page = client.get(address).text
    assert "The relative fitness is" in page
    assert re.search(r"Held-out r2 [-0-9.]+ \(0[.0-9]+ without privacy\)", page)
    assert "Held-out r2" in client.get(f"/jobs/{job.id}").text
    chart = json.loads(re.search(r'data-chart="([^"]+)"', page).group(1).replace("&#34;", '"'))
    assert len(chart["forecast"]) == 5
    assert chart["outcome"][1] <= chart["outcome"][0] <= chart["outcome"][2]
    report = client.get(f"/jobs/{job.id}/report")
    assert "sandbox" in report.headers["content-security-policy"]
    assert "script" not in report.text
    events = client.get(f"/jobs/{job.id}/events").text
    assert "event: end" in events
    assert job.title in client.get("/jobs").text


def test_a_name_that_a_job_writes_is_taken_from_its_start_on(client, folder):
    jobs, file = JobFolder(folder / ".jobs", folder), folder / "wanted.toml"
    with claimed([file]):
        for option in ("--write", "--save", "--out"):
            with pytest.raises(SettingError, match="a running job is writing wanted"):
                jobs.start(["train", option, str(file)], "Release")
        taken = client.post("/play/save", data={"save_as": "wanted"}, headers=PROOF).text
        assert "a running job is writing wanted.toml" in taken
        assert not [job for job in jobs.listed("train") if str(file) in job.command]
    assert not is_claimed(file)  # the job was killed, wrote nothing, and left its lock behind
    assert lock_of(file).exists()
    file.touch()
    with pytest.raises(SettingError, match="exists"):
        jobs.start(["plan", "--write", str(file)], "Plan")
    assert not lock_of(file).exists()
    file.unlink()


def test_a_job_can_be_stopped(client, folder):
    form = {"file": "tight.toml", "replicates": "10000"}
    address = client.post("/train/start", data=form, headers=PROOF).headers["hx-redirect"]
    job = JobFolder(folder / ".jobs", folder).find(address.rpartition("/")[2])
    assert job.state == "running"
    assert "Stop it" in client.get(address).text
    client.post(f"/jobs/{job.id}/stop", headers=PROOF)
    assert finished(job, 10).state == "stopped"
    job.stop()  # nothing is left to end
    assert "stopped" in client.get(f"/jobs/{job.id}").text


def test_books_are_shown_with_their_chain_and_nothing_of_the_table(client, folder):
    assert "This folder has no ledger yet" in client.get("/owner").text
    words = ["owner", "init", str(folder / "books"), "--name", "north", "--table", str(folder / "north.csv")]
    done = CliRunner().invoke(parley, [*words, "--lifetime", "3"])
    assert done.exit_code == 0, done.output
    page = client.get("/owner").text
    assert "Ledger of north" in page
    assert "chain unbroken" in page
    assert "Lifetime budget: ε = 3" in page
    first = (folder / "north.csv").read_text().splitlines()[1].split(",")
    assert not [cell for cell in first if len(cell) > 5 and cell in page]


def test_every_tab_opens_without_anything_in_the_folder(tmp_path):
    empty = enter(stranger_at(studio_at(tmp_path)))
    for tab in ("/play", "/files", "/train", "/owner", "/audit", "/jobs"):
        answer = empty.get(tab)
        assert answer.status_code == 200
        assert 'aria-current="page"' in answer.text


def test_the_page_opens_before_what_forecasts_need_is_loaded():
    code = "import sys, parley.studio.server; print({'sklearn', 'pandas', 'scipy', 'grpc'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"
