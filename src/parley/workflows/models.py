"""An owner's use of a trained model, on its own rows and for its own eyes: score, refine, predict."""

from pathlib import Path

from parley.durable import write_file
from parley.errors import SettingError
from parley.learning.outcome import load_model, refine, score
from parley.learning.outcome.guarantee import KEEP_INSIDE_NOTE
from parley.learning.outcome.predicted_table import predictions, require_table_name, summary, target_range, write_table
from parley.learning.owners import open_owners, table_of
from parley.numerals import counted, number
from parley.owner.owner import Owner
from parley.protocol.task import task_of
from parley.report.sheet import BLANK_LINE, Grid, Line, Report, Sheet, lines
from parley.report.words import verdict as words
from parley.terms import load_terms
from parley.workflows.person import Person


def score_model(
    model_file: Path,
    terms_file: Path,
    person: Person,
    owner: str | None = None,
    data: Path | None = None,
    report: Path | None = None,
) -> Report:
    """Judge the joint model on held-out rows of one owner, or of all that have a table on this machine."""
    terms = load_terms(terms_file)
    if (own := task_of(terms).command("score")) is not None:
        if report is not None:
            raise SettingError(f"--report: not available for the task {terms.task}; --json prints the figures")
        wings: Report = own(terms, model_file, owner, data)
        return wings
    from parley.report.pages.run_page import owners_page, verdict_page  # a library that is slow to load

    model = load_model(model_file)
    if owner is None:
        owners, verdicts = open_owners(terms), []
        with person.progress("owners") as progress:
            for place, one in enumerate(owners):
                progress(place, len(owners))
                verdicts.append(score(terms, one, model))
        page = None if report is None else owners_page(verdicts, terms)
        content = {"owners": [verdict.row_to_json() for verdict in verdicts], "terms_hash": terms.hash}
        shown = [Grid(words.owners_rows(verdicts)), BLANK_LINE, Line(words.owners_sentence(verdicts), "bold")]
    else:
        with person.progress("scoring own, joint and personal models on held-out rows"):
            verdict = score(terms, Owner(owner, table_of(terms.owner(owner), data)), model)
        page, content = None if report is None else verdict_page(verdict, terms), verdict.to_json()
        shown = [Grid(words.verdict_rows(verdict)), BLANK_LINE, Line(words.headline(verdict), "bold")]
        shown += [*lines(words.explained(verdict)), *lines([verdict.target_words], "dim", folded=True)]
    if report is not None and page is not None:
        write_file(report, page)
    return Sheet(content, [*shown, Line(KEEP_INSIDE_NOTE, "dim", folded=True)], inside=True)


def refine_model(
    model_file: Path, terms_file: Path, owner: str, save: Path, person: Person, data: Path | None = None
) -> Report:
    """Personalise the joint model for an owner, and save it."""
    terms = load_terms(terms_file)
    if (own := task_of(terms).command("refine")) is not None:
        wings: Report = own(terms, model_file, owner, data, save)
        return wings
    model, part = load_model(model_file), terms.owner(owner)
    with person.progress("choosing the best correction on the owner's rows"):
        personal, how = refine(model, terms, Owner(owner, table_of(part, data)))
    personal.save(save)
    unit = personal.preparation_.target_scale**2  # so that costs are those of `parley score`
    shown = [
        Grid(words.way_rows(how, unit)),
        Line(words.personal_sentence(owner, how, unit)),
        Line(f"Saved: {save}"),
        Line(KEEP_INSIDE_NOTE, "dim", folded=True),
    ]
    content = {"owner": owner, "saved": str(save), "terms_hash": terms.hash, **how.to_json()}
    return Sheet(content, shown, inside=True)


def predict_rows(model_file: Path, rows: Path, out: Path, person: Person, plot: Path | None = None) -> Report:
    """Write the rows of a table with the model's predictions."""
    require_table_name(out, rows, model_file)
    model = load_model(model_file)
    if plot is not None:
        from parley.report.figures.shape_functions import draw, require_drawing  # a library that is slow to load

        require_drawing(model, plot)
    with person.progress("predicting") as progress:
        frame = predictions(model, rows)
        progress.says("writing")
        write_table(frame, out)
        if plot is not None:
            draw(model, frame, plot)
    content = summary(model, frame)
    if "classes" in content:
        summary_words = ", ".join(f"{count:,} {name}" for name, count in content["classes"].items())
    else:
        summary_words = (
            f"mean {number(content['mean'])}, from {number(content['least'])} to {number(content['largest'])}"
        )
    shown = [Line(f"{out}  {counted(len(frame), 'row')}, predicted {content['target']}: {summary_words}")]
    if (ends := target_range(model)) is not None:
        low, high = (number(end) for end in ends)
        cut = f"Predictions are clipped to the declared range of the target, {low} to {high}."
        shown.append(Line(cut, "dim", folded=True))
    if not content["released"]:
        free = (
            "This simulated or personal model is not a release and protects nobody. Keep this model inside the "
            "organisation."
        )
        shown.append(Line(free, "dim", folded=True))
    return Sheet(content | {"out": str(out)}, [*shown, Line(KEEP_INSIDE_NOTE, "dim", folded=True)], inside=True)
