"""One echo-state network learned by owners behind daemons."""

from fractions import Fraction

import numpy as np
from consortium import SIZES, Consortium
from series import narma, series_terms

import parley
from parley.learning.outcome import load_model
from parley.terms import write_terms


def test_a_read_out_between_organisations(tmp_path):
    consortium = Consortium(tmp_path, names="ab", lifetime=3.0, lifetime_delta=1e-5)
    content = series_terms(2, 60, 3.0, privacy={"clip": 1.8}).model_dump(mode="json", exclude_none=True)
    content["owners"] = [{"name": name, "records": SIZES[name], "epsilon": 3.0} for name in "ab"]
    terms = parley.Terms.from_dict(content)
    write_terms(terms, tmp_path / "terms.toml")
    for place, name in enumerate("ab"):
        narma(SIZES[name], place).to_csv(tmp_path / f"{name}.csv", index=False)
    consortium.accept(terms)
    consortium.start()
    learner = consortium.learner("--save", str(tmp_path / "model.json"))
    learner.join(100)
    assert learner.exitcode == 0, consortium.said()
    assert consortium.spent(terms) == dict.fromkeys("ab", Fraction(3))
    model = load_model(tmp_path / "model.json")
    assert model.released_
    assert np.isfinite(model.predict(narma(2, 9))).all()
    consortium.close()
