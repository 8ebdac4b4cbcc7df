"""What each column adds: with the level it is the model itself, and without noise what scikit-learn finds on the same
bins."""

import json

import numpy as np
import pandas as pd
import pytest
from samples import make_terms
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import OneHotEncoder
from typer.testing import CliRunner

import parley
from parley.cli.app import app
from parley.errors import ModelError, SettingError
from parley.learning.outcome.model import make_model
from parley.learning.outcome.shapes import OVER_BINS, OVER_PUBLIC
from parley.protocol.setup import resolve
from parley.report.figures.shape_functions import shape_functions
from parley.terms import write_terms

JOBS = ("baker", "clerk", "nurse")


def table(rows, seed=0):
    """Numbers, a skew one with gaps, names with gaps, one constant; targets of every kind."""
    rng = np.random.default_rng(seed)
    x, z = rng.normal(size=rows), np.exp(rng.normal(size=rows))
    job = rng.choice(JOBS, rows)
    raw = np.sin(2 * x) + 0.5 * np.log(z) + (job == "baker")
    y = (raw + rng.logistic(size=rows) > 0.5).astype(int)
    frame = pd.DataFrame({"x": x, "z": z, "job": job, "same": 1.0, "y": y})
    frame["amount"], frame["kind"] = raw + rng.normal(size=rows), np.array(["a", "b", "c"])[rng.integers(0, 3, rows)]
    frame["count"], frame["days"], frame["event"] = rng.poisson(np.exp(raw / 3)), rng.uniform(0, 4, rows), y
    frame.loc[::13, "z"] = np.nan
    frame.loc[::17, "job"] = None
    return frame


def terms_of(folder, public=True, **model):
    path = folder / "public.csv"
    table(300, 1).to_csv(path, index=False)
    known = (
        {"public": str(path)}
        if public
        else {"bounds": {"x": [-4, 4], "z": [0, 50], "same": [0, 2]}, "categories": {"job": list(JOBS)}}
    )
    content = {
        "model": {
            "kind": "logistic-regression",
            "target": "y",
            "features": ["x", "z", "job", "same"],
            "missing": "fill",
            "coding": "one-hot",
            "columns": "bins",
            "bins": 8,
            "radius": 20.0,
            **known,
            **model,
        },
        "learning": {"horizon": 5, "step": 0.1},
        "privacy": {"clip": 2.0},
        "owners": [{"name": "a", "records": 400, "epsilon": 5.0}],
    }
    return parley.Terms.from_dict(content)


def added(shape, cells):
    """What a column adds to rows with these cells, looked up as a person would: [..., n]."""
    found = []
    for cell in cells:
        if pd.isna(cell):
            found.append(shape.of_names[..., shape.names.index("missing")])
        elif len(shape.cuts):
            found.append(shape.steps[..., int(np.searchsorted(shape.cuts[1:-1], cell))])
        else:
            name = cell if cell in shape.names else "others"
            found.append(shape.of_names[..., shape.names.index(name)])
    return np.stack(found, axis=-1)


KINDS = [
    {},
    {"public": False},
    {"coding": "integer"},
    {"transforms": {"z": "log1p"}},
    {"kind": "linear-regression", "target": "amount", "intercept": True},
    {"kind": "linear-regression", "target": "amount"},
    {"kind": "linear-svm"},
    {"kind": "softmax-regression", "target": "kind"},
    {"kind": "poisson-regression", "target": "count", "bounds": {"count": [0, 20]}},
    {"kind": "survival", "target": "days", "event": "event", "periods": [1.0, 2.0, 4.0]},
]


@pytest.mark.parametrize("changed", KINDS, ids=str)
def test_the_level_and_what_columns_add_are_the_models_scores(tmp_path, changed):
    setup = resolve(terms_of(tmp_path, **changed))
    theta = np.random.default_rng(3).normal(size=setup.parameters)
    model = make_model(setup.preparation, theta, "0" * 64, released=False)
    rows = table(200, 5)
    rows.loc[0, "job"], rows.loc[1:3, "x"] = "nobody has it", [1e300, -1e300, 4.0]
    shapes = model.shapes()
    total = sum(added(shape, rows[shape.column]) for shape in shapes)
    scores = model.predict(rows) if changed.get("kind") == "linear-regression" else model._scores(rows)
    told = shapes.level[..., None] + (total if total.ndim > 1 or not shapes.level.ndim else total[None])
    np.testing.assert_allclose(told.T, scores, atol=1e-12)
    assert shapes.centred == (OVER_BINS if changed.get("public") is False else OVER_PUBLIC)
    for shape in shapes:
        assert shape.shares.sum() == pytest.approx(1.0)
        np.testing.assert_allclose(shape.values @ shape.shares, 0.0, atol=1e-12)
        assert (np.diff(shape.cuts) > 0).all() or shape.column == "same"


def test_zero_is_what_public_rows_get_on_average(tmp_path):
    setup = resolve(terms_of(tmp_path))
    theta = np.random.default_rng(3).normal(size=setup.parameters)
    model = make_model(setup.preparation, theta, "0" * 64, released=False)
    public = pd.read_csv(tmp_path / "public.csv")
    assert float(model.shapes().level) == pytest.approx(model.decision_function(public).mean())
    for shape in model.shapes():
        assert added(shape, public[shape.column]).mean() == pytest.approx(0.0, abs=1e-12)


def test_without_noise_it_is_scikit_learns_model_of_the_same_bins(tmp_path):
    setup = resolve(terms_of(tmp_path, regularisation=0.02))
    rows = table(400)
    design = setup.preparation.design(rows, "rows")
    best = setup.risk.optimum([design], None)
    shapes = {s.column: s for s in make_model(setup.preparation, best, "0" * 64, released=False).shapes()}
    # bins by pandas, columns and optimum by scikit-learn; a constant that is penalised as Parley's is
    binned = pd.DataFrame({name: pd.cut(rows[name], [-np.inf, *shapes[name].cuts[1:-1], np.inf]).cat.codes
                           for name in ("x", "z")}).assign(job=rows["job"].fillna("missing"))  # fmt: skip
    encoder = OneHotEncoder(sparse_output=False).fit(binned)
    X = np.column_stack([encoder.transform(binned), np.ones((len(rows), 2))])  # the bin of "same", and the constant
    fit = LogisticRegression(C=1 / (0.02 * len(rows)), fit_intercept=False, tol=1e-10, max_iter=5000).fit(X, rows["y"])
    ends = np.cumsum([len(names) for names in encoder.categories_])
    for name, theirs, bins in zip(
        ("x", "z", "job"), np.split(fit.coef_[0], ends)[:3], encoder.categories_, strict=True
    ):
        if name == "job":
            ours = np.array([shapes[name].of_names[shapes[name].names.index(each)] for each in bins])
        else:
            ours = np.array([shapes[name].values[int(code)] for code in bins])  # a gap is -1, and the last
        np.testing.assert_allclose(ours - ours.mean(), theirs - theirs.mean(), atol=1e-5)


def test_bands_are_what_several_runs_say(tmp_path):
    owners = [parley.Owner("a", table(400))]
    once, often = (parley.train(terms_of(tmp_path), owners, seed=0, replicates=r).shapes for r in (1, 40))
    assert once.about is None
    assert all(shape.band is None for shape in once)
    assert "40 runs" in often.about
    result = parley.train(terms_of(tmp_path), owners, seed=0, replicates=40)
    models = [make_model(result.model.preparation_, theta, "0" * 64, released=False) for theta in result.theta]
    for place, shape in enumerate(often):
        each = np.array([model.shapes().columns[place].values for model in models])
        np.testing.assert_allclose(shape.band, np.quantile(each, [0.05, 0.95], axis=0), atol=1e-12)


def test_bands_of_a_posterior_are_those_of_models_drawn_from_it(tmp_path):
    terms = terms_of(tmp_path, kind="linear-regression", target="amount", regularisation=0.1).changed(
        learning={"algorithm": "fedinfer", "horizon": 1, "step": "auto"}, privacy={"clip": 40.0}
    )
    model = parley.train(terms, [parley.Owner("a", table(400))], seed=0).model
    sure, rng = model.posterior_, np.random.default_rng(1)
    runs = rng.multivariate_normal(sure.theta[0], sure.covariance[0], size=20_000, check_valid="ignore")
    exact, drawn = model.shapes(), model.shapes(runs)
    assert "draw of the records" in exact.about
    for one, other in zip(exact, drawn, strict=True):
        width = np.maximum(one.band[1] - one.band[0], 1e-9)
        assert (np.abs(one.band - other.band) < 0.05 * width + 1e-9).all()  # 0.05 widths: eight standard errors


def test_trees_of_several_columns_have_no_shapes_and_stumps_have(tmp_path):
    crossing = terms_of(tmp_path, columns="trees", bins=None, trees={"count": 10, "leaves": 8})
    setup = resolve(crossing)
    model = make_model(setup.preparation, setup.preparation.origin, "0" * 64, released=False)
    assert model.shapes() is None
    with pytest.raises(SettingError, match="use a model of bins"):
        shape_functions(model)
    setup = resolve(crossing.changed(model={"trees": {"count": 30, "leaves": 2}}))
    model = make_model(setup.preparation, setup.preparation.origin, "0" * 64, released=False)
    rows = table(200, 5)
    total = sum(added(shape, rows[shape.column]) for shape in model.shapes())
    np.testing.assert_allclose(float(model.shapes().level) + total, model.decision_function(rows), atol=1e-12)
    plain = parley.train(make_terms(50), [parley.Owner("a", lines(50))], seed=0)
    assert plain.shapes is None
    assert plain.to_json()["shapes"] is None


def lines(rows):
    rng = np.random.default_rng(0)
    return pd.DataFrame(rng.uniform(-1, 1, (rows, 4)), columns=["x0", "x1", "x2", "y"])


def test_a_saved_model_knows_them_and_other_shares_are_refused(tmp_path):
    model = parley.train(terms_of(tmp_path), [parley.Owner("a", table(400))], seed=0).model
    model.save(tmp_path / "model.json")
    again = parley.load_model(tmp_path / "model.json").shapes()
    assert again.to_json() == model.shapes().to_json()
    content = json.loads((tmp_path / "model.json").read_text())
    for wrong in (content["shares"][:-1], [-1.0, *content["shares"][1:]]):
        (tmp_path / "wrong.json").write_text(json.dumps(content | {"shares": wrong}))
        with pytest.raises(ModelError, match="not a model"):
            parley.load_model(tmp_path / "wrong.json")
    del content["shares"]  # as earlier versions wrote it
    (tmp_path / "earlier.json").write_text(json.dumps(content))
    assert parley.load_model(tmp_path / "earlier.json").shapes().centred == OVER_BINS


def test_commands_draw_them(tmp_path):
    table(400).to_csv(tmp_path / "a.csv", index=False)
    table(50, 3).to_csv(tmp_path / "new.csv", index=False)
    file = tmp_path / "terms.toml"
    write_terms(terms_of(tmp_path), file)
    file.write_text(file.read_text().replace('name = "a"', f'name = "a"\ndata = "{tmp_path / "a.csv"}"'))
    options = ["--seed", "1", "--replicates", "3", "--save", tmp_path / "model.json"]
    drawn = ["--shapes", tmp_path / "shapes.png", "--report", tmp_path / "page.html", "--json"]
    done = CliRunner().invoke(app, ["train", *map(str, [file, *options, *drawn])])
    assert done.exit_code == 0, (done.output, done.exception)
    said = json.loads(done.stdout)["shapes"]
    assert [each["column"] for each in said["columns"]] == ["x", "z", "job", "same"]
    assert (tmp_path / "shapes.png").read_bytes().startswith(b"\x89PNG")
    assert "What does each column add to the prediction?" in (tmp_path / "page.html").read_text()
    asked = [tmp_path / "model.json", tmp_path / "new.csv", "--out", tmp_path / "out.csv", "--plot", tmp_path / "p.png"]
    done = CliRunner().invoke(app, ["predict", *map(str, asked)])
    assert done.exit_code == 0, (done.output, done.exception)
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")
    write_terms(terms_of(tmp_path, columns=None, bins=None), file)
    refused = CliRunner().invoke(app, ["train", str(file), "--shapes", str(tmp_path / "no.png")])
    assert isinstance(refused.exception, SettingError)
    assert "model.columns = 'bins'" in str(refused.exception)


def test_a_panel_for_each_column_those_that_matter_first(tmp_path):
    setup = resolve(terms_of(tmp_path, kind="softmax-regression", target="kind"))
    theta = np.random.default_rng(3).normal(size=setup.parameters)
    model = make_model(setup.preparation, theta, "0" * 64, released=False)
    figure = shape_functions(model)
    spreads = {shape.column: shape.spread for shape in model.shapes()}
    titles = [panel.get_title(loc="left") for panel in figure.axes]
    assert titles == sorted(spreads, key=lambda column: -spreads[column])
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["a", "b", "c"]
