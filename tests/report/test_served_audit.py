"""The words about a served owner: what was seen beside what is claimed, and what few coins do not prove."""

from dataclasses import replace

from samples import make_terms

from parley.audit.planted import Guesses
from parley.audit.served.noise_law import NoiseVerdict, RepeatVerdict, ServedVerdict
from parley.report.pages.audit_page import served_page
from parley.report.words.audit import served_rows, served_sentences

NOISE = NoiseVerdict(250, 2.0, 1.5, 2.25, 0.67, 0.4)
SELDOM = RepeatVerdict(0, 100, 3, 250, 0.5)
SOUND = ServedVerdict("a", 1.0, 0.0, Guesses(300, 150, 113), 0.99, 2, 100, 0, 0, NOISE, SELDOM, 9.0)


def test_what_holds_says_so_and_what_would_have_been_noticed():
    assert [row[-1] for row in served_rows(SOUND)[1:]] == ["yes"] * 7
    said = " ".join(served_sentences(SOUND))
    assert said.startswith("No finding contradicts the daemon's claims.")
    assert "below 67% of the claimed scale" in said
    assert "to prove anything" not in said
    assert "started once" not in said
    assert "The daemon started once" in " ".join(served_sentences(replace(SOUND, tables=1)))
    few = " ".join(served_sentences(replace(SOUND, guesses=Guesses(4, 2, 2), noise=None, repeats=None)))
    assert "to prove anything; use more audit tables" in few
    assert "the records in 2 tables" in few
    assert "the audit could not check the noise distribution" in few
    assert "the audit could not check whether noise repeats" in few
    assert [row[0] for row in served_rows(replace(SOUND, noise=None, repeats=None))[1:]] == [
        "ε (replace-one)",
        "asked again",
        "debits",
    ]


def test_every_fault_is_named():
    broken = replace(
        SOUND,
        guesses=Guesses(300, 150, 149),
        changed=3,
        charged=2,
        noise=replace(NOISE, lowest=0.8, highest=1.1),
        repeats=replace(SELDOM, p_value=1e-9),
    )
    assert not broken.holds
    assert len(broken.faults) == 5
    assert [row[-1] for row in served_rows(broken)[1:]] == ["NO", "NO", "yes", "NO", "NO", "NO", "NO"]
    page = served_page(broken, make_terms(100))
    assert "Broken: the answers reveal more than is claimed" in page
    assert "no real record" in page
    assert replace(SOUND, noise=replace(NOISE, p_value=1e-9)).faults == ("the noise is not of the claimed law",)
    louder = replace(SOUND, noise=replace(NOISE, lowest=2.5, highest=3.0))
    assert louder.faults == ("the noise is not of the claimed law",)
