"""What a page or a notebook needs is importable, and works, where the libraries of the command line are missing."""

import json
import subprocess
import sys

from samples import make_terms, regression_table

import parley
from parley.terms import write_terms

STORY = """
import json, sys
for name in ("typer", "click", "rich"):
    sys.modules[name] = None  # to import it is an error from now on
from pathlib import Path

import parley
from parley.privacy.accounting.stable_bounds import equal_privacy
from parley.privacy.accounting.meaning import explanation, sentences
from parley.workflows.demo import learn
from parley.owner.warnings import public_digest
from parley.decisions.games.negotiate import negotiate
from parley.learning.owners import accepting_owners, open_owners
from parley.learning.outcome.guarantee import guarantee, kind_of_run
from parley.report.words import forecast, negotiation, training, verdict
from parley.report.pages.forecast_page import joined_page
from parley.privacy.accounting.stable_bounds import panel_curves
from parley.network.serving import offer, opening
from parley.terms import write_terms

folder = Path(sys.argv[1])
terms = parley.load_terms(folder / "terms.toml")
result = parley.train(terms, open_owners(terms), replicates=3, seed=1)
expected = parley.forecast(terms, resamples=2)
deal = negotiate(terms, target=1.0)
write_terms(deal.agreed_terms(), folder / "agreed.toml")
shared = terms.changed(model={"public_sha256": public_digest(terms)})
opened = opening.open_ledger(folder / "books", "a", folder / "a.csv", 3.0, 1e-5, "localhost:7443")
offered = offer.consider(shared, opened)
offered.require_room()
offered.accept()
print(json.dumps({
    "kind": kind_of_run(result),
    "guarantee": guarantee(result),
    "owners": training.owner_rows(result),
    "quality": training.quality_rows(result),
    "forecast": [forecast.headline(expected), *forecast.details(expected)],
    "forecast owners": forecast.owner_rows(expected),
    "deal": [negotiation.headline(deal), *negotiation.prices(deal), negotiation.checked(deal)],
    "deal owners": negotiation.owner_rows(deal),
    "offer": offered.to_json(),
    "meaning": sentences(explanation(1.0), 100),
}))
"""


def test_sentences_decisions_and_reports_need_no_command_line(tmp_path):
    sizes = {"a": 300, "b": 200}
    regression_table(2000, seed=9).to_csv(tmp_path / "public.csv", index=False)
    for seed, (name, rows) in enumerate(sizes.items()):
        regression_table(rows, seed=seed).to_csv(tmp_path / f"{name}.csv", index=False)
    stakes = {"value": 1000.0, "privacy_cost": {"kind": "linear", "weight": 0.01}}
    noise = {"privacy__clip": 20.0, "privacy__mechanism": "gaussian", "privacy__delta": 1e-6}
    rounds = {"learning__horizon": 60, "learning__step": 0.5}
    terms = make_terms(*sizes.values(), model__public=str(tmp_path / "public.csv"), **noise, **rounds)
    terms = terms.changed(everyone=stakes, owners={name: {"data": str(tmp_path / f"{name}.csv")} for name in sizes})
    write_terms(terms, tmp_path / "terms.toml")
    run = subprocess.run([sys.executable, "-c", STORY, str(tmp_path)], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    said = json.loads(run.stdout)
    assert "Simulation, not a release" in said["kind"]
    assert "replace-one" in said["guarantee"]
    assert [row[0] for row in said["owners"]] == ["owner", "a", "b"]
    assert said["quality"][1][0] == "relative fitness ψ"
    assert "Expected relative fitness" in said["forecast"][0]
    assert [row[0] for row in said["forecast owners"]] == ["owner", "a", "b"]
    assert "Parley checked that no owner can gain more" in said["deal"][-1]
    assert {"yes"} == {row[1] for row in said["deal owners"][1:]}
    assert "The lifetime budget is ε = 3" in said["offer"]["promise"][-1]
    assert "replace-one" in said["meaning"][-1]
    agreed = parley.load_terms(tmp_path / "agreed.toml")
    assert [part.name for part in agreed.owners] == ["a", "b"]
    books = parley.Ledger(tmp_path / "books" / "a.ledger")
    assert books.reserved[0] == 1
    books.close()
