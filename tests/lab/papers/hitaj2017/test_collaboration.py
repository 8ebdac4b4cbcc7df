"""Hitaj's attack on shapes that are nobody's: a generator draws the victim's class as the joint network learns it."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from parley.cli.app import app

torch = pytest.importorskip("torch", reason="torch is not installed; pip install 'parley-dp[torch]'")

from parley.errors import SettingError  # noqa: E402
from parley_lab.attacks.generated_images import Generator  # noqa: E402
from parley_lab.papers.aarhus2020.digits import synthetic_digits  # noqa: E402
from parley_lab.papers.hitaj2017.collaboration import _as_one, collaborate  # noqa: E402
from parley_lab.papers.hitaj2017.parties import Parties, Protection, Settings  # noqa: E402
from parley_lab.papers.hitaj2017.recognition import Judge  # noqa: E402

torch.set_num_threads(1)
SETTINGS = Settings(rows=600, batch=48, rounds=30)
DRAWN = 200  # images


@pytest.fixture(scope="module")
def parties():
    return Parties.of(synthetic_digits(3000), SETTINGS)


@pytest.fixture(scope="module")
def judge(parties):
    made = Judge.trained(parties.others, epochs=10)
    assert np.mean(made.says(parties.test.X) == parties.test.y) > 0.95
    return made


def drawn(parties, protection, sees=True, settings=SETTINGS):
    *_, last = collaborate(parties, settings, protection, seed=0, sees=sees)
    return last.draw(DRAWN)


def test_the_victims_class_is_drawn_and_recognised(parties, judge):
    images = drawn(parties, Protection())
    assert judge.recognised(images, SETTINGS.target) > 0.5
    assert judge.nearness(images, SETTINGS.target) < 0.97


def test_a_generator_that_never_sees_the_joint_network_stays_below_chance(parties, judge):
    images = drawn(parties, Protection(), sees=False)
    assert judge.recognised(images, SETTINGS.target) <= 1 / 11  # ten digits, or none
    assert judge.nearness(images, SETTINGS.target) > 0.98


def test_where_the_owner_is_the_unit_its_class_is_not_drawn(parties, judge):
    images = drawn(parties, Protection(1.0, "owner"))
    assert judge.nearness(images, SETTINGS.target) > 0.98
    assert Protection(1.0, "owner").name == "ε = 1, the unit is an owner"


def test_no_two_answers_of_an_owner_are_farther_apart_than_twice_the_clip():
    rng = np.random.default_rng(0)
    for size in (1e-300, 1e-9, 1.0, 7.0, 1e150):
        for clip in (1e-6, 0.3, 1.0, 1e6):
            one = _as_one(size * rng.normal(size=50), clip)
            assert one.sensitivity == 2 * clip
            assert float(np.linalg.norm(one.value)) <= clip
    assert not _as_one(np.zeros(3), 1.0).value.any()


def test_images_and_targets_out_of_place_are_refused():
    with pytest.raises(SettingError, match="side = 20"):
        Generator(20, seed=0)
    with pytest.raises(SettingError, match="target = 7"):
        Settings(target=7)
    with pytest.raises(SettingError, match="rounds"):
        Settings(rounds=0)
    with pytest.raises(SettingError, match="divisor of 28"):
        Parties.of(synthetic_digits(30), Settings(side=9))


def test_the_command_prints_every_protection_and_draws_them(tmp_path, monkeypatch):
    monkeypatch.delenv("PARLEY_DATA", raising=False)
    words = ["--rounds", "1", "--rows", "40", "--batch", "8", "--epsilon", "4", "--images", "200", "--json"]
    done = CliRunner().invoke(app, ["reproduce", "hitaj2017", *words, "--out", str(tmp_path)])
    assert done.exit_code == 0, (done.output, done.exception)
    told = json.loads(done.stdout)["attacks"]
    assert [name.partition(",")[0] for name in told][:3] == ["unprotected", "ε = 4", "ε = 8"]
    assert all(0 <= look["recognised"] <= 1 for runs in told.values() for look in runs[0])
    assert (tmp_path / "digits.png").is_file()
