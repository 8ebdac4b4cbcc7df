"""A host's journal that is put back to an earlier time, copied, or whose memory is lost: nothing is opened by it that
might get a second noise from a curious other host."""

import json
import shutil
from pathlib import Path

import pytest
from curious_host import Victim
from hosted_consortium import HostedConsortium

from parley.errors import BrokenChainError, MissingMemoryError
from parley.network.hosting.journal import Journal, require_known_heads

ROOT = Path(__file__).parents[2]


@pytest.fixture
def rolled_back(tmp_path, own_state):
    """(folder, terms, what h0 opened): its journal is then the one that it had before."""
    consortium = HostedConsortium(tmp_path, hosts=("h0", "h1"))
    terms = consortium.write_terms(horizon=2, epsilon=5.0)
    consortium.accept(terms)
    shutil.copy(tmp_path / "h0.journal", tmp_path / "backup")
    victim = Victim(tmp_path, terms)
    first = victim.opening()
    assert victim.opening() == first
    victim.close()
    shutil.copy(tmp_path / "h0.journal", tmp_path / "latest")
    for left in tmp_path.glob("h0.journal*"):
        left.unlink()
    shutil.copy(tmp_path / "backup", tmp_path / "h0.journal")
    return tmp_path, terms, first


def remembered(state):
    """The files in a state folder that remember the three hosts' journals."""
    return {path: path.read_bytes() for path in (state / "journals").iterdir()}


@pytest.mark.parametrize("forgotten", [False, True])
def test_a_journal_of_an_earlier_time_is_refused_and_without_its_memory_every_one(rolled_back, own_state, forgotten):
    """Without `h0.heads` an older journal was taken up, and the same shares were opened under a second noise."""
    folder, terms, first = rolled_back
    known = remembered(own_state)
    if forgotten:
        for path in known:
            path.unlink()
        (folder / "h0.heads").unlink(missing_ok=True)
    for latest in (False, True):
        if latest:
            shutil.copy(folder / "latest", folder / "h0.journal")
        if latest and not forgotten:
            break
        with pytest.raises(MissingMemoryError if forgotten else BrokenChainError, match="agree on new terms"):
            Victim(folder, terms)
    for path, content in known.items():
        path.write_bytes(content)
    victim = Victim(folder, terms)
    assert victim.opening() == first
    victim.close()


def test_of_two_copies_of_a_journal_one_is_opened_by(tmp_path, own_state):
    """A folder that is copied, and served from in both places at once: who opens first goes on."""
    (tmp_path / "one").mkdir()
    consortium = HostedConsortium(tmp_path / "one", hosts=("h0", "h1"))
    terms = consortium.write_terms(horizon=2, epsilon=5.0)
    consortium.accept(terms)
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    one, two = (Victim(tmp_path / name, terms) for name in ("one", "two"))
    first = one.opening()
    with pytest.raises(BrokenChainError, match="another copy was used"):
        two.opening()
    assert one.opening() == first
    one.close()
    two.close()


def test_a_journal_that_an_earlier_version_wrote_opens_and_is_remembered_from_then_on(tmp_path, own_state):
    before, path, terms = ROOT / "fixtures" / "written_before", tmp_path / "host.journal", "a" * 64
    shutil.copy(before / "host.journal", path)
    journal = Journal(path)
    require_known_heads(before / "host.heads", {terms: journal})
    assert journal.entry(terms, 1).sums == b"sums one"
    journal.propose(terms, 2, "held")
    assert journal.counts(terms) == {"begin": 1, "proposal": 2, "record": 1, "opened": 1}
    journal.close()
    Journal(path).close()
    shutil.copy(path, tmp_path / "latest")
    shutil.copy(before / "host.journal", path)  # it knows of no memory
    with pytest.raises(BrokenChainError, match="rolled back"):
        Journal(path)
    with pytest.raises(BrokenChainError, match="rolled back"):
        Journal(path, writes=False)
    shutil.copy(tmp_path / "latest", path)
    Journal(path, writes=False).close()
    Journal(path).close()


def test_what_an_earlier_version_noted_beside_a_journal_holds(tmp_path):
    path, known, other = tmp_path / "h0.heads", Journal(), Journal()
    known.begin("old")
    require_known_heads(path, {"old": other})
    path.write_text(json.dumps({"old": vars(known.head)}))
    require_known_heads(path, {"old": known, "new": other})  # new terms may begin in another journal
    with pytest.raises(BrokenChainError, match="put the latest journal back"):
        require_known_heads(path, {"old": other})
    for damaged in ("", "[1]"):
        path.write_text(damaged)
        with pytest.raises(BrokenChainError, match="does not record where the journals ended"):
            require_known_heads(path, {"new": other})
