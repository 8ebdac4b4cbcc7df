"""The words about hosts: what each was shown to learn, and who is named when that is too much."""

from dataclasses import replace

from parley.audit import Audit
from parley.audit.served.one_host import HostVerdict
from parley.report.words.audit import headline, host_rows

SOUND = HostVerdict("h0", 1.0, 1e-6, 0.8987, 0.99, 16384, 0.25, ())


def test_a_host_that_knows_the_noise_is_named():
    knows = replace(SOUND, host="h1", lower_bound=7.8, takes_off=(("part", 1), ("zero", -1)))
    uneven = replace(SOUND, host="h2", p_value=1e-12)
    assert [row[-1] for row in host_rows([SOUND, knows, uneven])[1:]] == ["yes", "NO", "NO"]
    assert host_rows([SOUND])[1][:4] == ["h0", "1", "0.898", "p = 0.25"]
    audit = Audit("Banks", "ab12", (), (), {}, 1.0, hosts=(SOUND, knows, uneven))
    assert not audit.holds
    assert headline(audit) == "Broken: a host that works with the learner sees more than the terms allow (h1, h2)."
    assert knows.to_json()["takes_off"] == [["part", 1], ["zero", -1]]
