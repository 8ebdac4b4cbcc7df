"""Peers as real processes over mutual TLS: who talks to whom, and one that is killed and started again."""

import json

import pytest
from peers import PeerConsortium

import parley


@pytest.fixture
def ring(tmp_path, request):
    names, settings = getattr(request, "param", ("abc", {}))
    consortium = PeerConsortium(tmp_path, names, **{"horizon": 40} | settings)
    yield consortium
    consortium.close()


def test_three_on_a_ring_one_killed_and_started_again(ring):
    """Every ledger ends at exactly its epsilon; all have the model that one learner would make of the same answers, to
    the bit."""
    ring.start()
    for name in "abc":
        ring.run_peer(name, "--save", str(ring.folder / f"{name}.model"))
    stood = ring.kill_peer("b", after=4)
    assert 4 < stood <= 40  # in the middle
    ring.kill("b")  # and its daemon
    ring.start("b")
    ring.run_peer("b", "--save", str(ring.folder / "b.model"))
    found = ring.results()
    assert ring.spent(ring.terms) == {"a": 1, "b": 1, "c": 1}
    model = ring.replay(ring.terms)
    for name, result in found.items():
        assert result["theta"] == model
        assert result["owner"] == name
        assert {o["name"]: o["epsilon_spent"] for o in result["owners"]} == {
            n: 1.0 if n == name else None for n in "abc"
        }
        assert parley.load_model(ring.folder / f"{name}.model").theta_.tolist() == model
    for name in "abc":  # its own daemon is asked by its own peer, and by nobody else
        assert {line["caller"] for line in ring.log(name) if line["event"] in ("answer", "standing", "stranger")} == {
            name
        }
    (ring.folder / "peer-a.out").unlink()
    for name in "abc":
        ring.kill(name)
    ring.run_peer("a")  # a run that is over needs nobody
    assert ring.results()["a"]["theta"] == model


@pytest.mark.parametrize("ring", [("abcd", {"horizon": 6})], indirect=True)
def test_nobody_talks_to_who_is_no_neighbour(ring):
    """Four on a ring, a and c far apart: every caller that a port ever saw is in its log, strangers too."""
    ring.start()
    for name in "abcd":
        ring.run_peer(name)
    found = ring.results()
    near = {"a": {"b", "d"}, "b": {"a", "c"}, "c": {"b", "d"}, "d": {"a", "c"}}
    for name in "abcd":
        seen = {line["caller"] for line in ring.events(name) if "caller" in line}
        assert seen == near[name]
        assert {line["caller"] for line in ring.log(name) if "caller" in line} == {name}
    model = ring.replay(ring.terms)
    assert all(result["theta"] == model for result in found.values())
    points = {tuple(result["point"]) for result in found.values()}
    assert len(points) == 4
    assert len({result["apart"] for result in found.values()}) == 1
    assert found["a"]["apart"] > 0
    assert ring.spent(ring.terms) == dict.fromkeys("abcd", 1)
    assert json.loads((ring.folder / "terms.a.checkpoint").read_text())["round"] == 7
