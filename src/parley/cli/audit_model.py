"""`parley audit MODEL`: an owner attacks a model with its own rows, on its own machine."""

from pathlib import Path

from parley.durable import require_folder, write_file
from parley.errors import SettingError
from parley.report.terminal import console, print_json, progress_bar, terminal_table
from parley.terms import Terms, load_terms


def is_model(file: Path) -> bool:
    """Whether a file is a model (JSON) and no terms (TOML)."""
    if file.suffix.lower() == ".json":
        return True
    try:
        with file.open(encoding="utf-8") as text:
            return text.read(256).lstrip().startswith("{")
    except (OSError, UnicodeDecodeError):
        return False


def audit_model_file(
    model_file: Path,
    terms_file: Path | None,
    owner: str | None,
    data: Path | None,
    population: Path | None,
    models: int,
    largest: int | None,
    seed: int | None,
    plot: Path | None,
    report: Path | None,
    as_json: bool,
) -> bool:
    """Attack a model, print what was found, and say whether every claim holds."""
    from parley.audit.attacks.trained_model import LARGEST, audit_model, own_rows
    from parley.data import read_table
    from parley.learning.outcome import load_model
    from parley.learning.owners import table_of
    from parley.report.figures import picture
    from parley.report.figures.membership_figure import own_figure
    from parley.report.pages.membership_page import membership_page
    from parley.report.words import membership as words

    for file in (plot, report):
        require_folder(file)
    if plot is not None:
        picture.require_figure_name(plot)
    model = load_model(model_file)
    terms = None if terms_file is None else load_terms(terms_file)
    if terms is not None:
        owner = _whose(terms, owner)
        members, others = own_rows(model, terms, owner, table_of(terms.owner(owner), data))
        others = others if population is None else read_table(population)
    elif data is None or population is None or owner is not None:
        raise SettingError(
            "--terms and --owner, or --data with rows that the model was trained on and --population with rows that "
            "it was not: expected one of the two"
        )
    else:
        members, others = read_table(data), read_table(population)
    with progress_bar("shadow models") as progress:
        audit = audit_model(model, members, others, terms, owner, models, seed, progress, largest or LARGEST)
    if plot is not None:
        picture.save(own_figure(audit), plot)
    if report is not None:
        write_file(report, membership_page(audit))
    if as_json:
        print_json(audit.to_json(), inside=True)
        return audit.holds
    console.print(terminal_table(words.attack_rows(audit.membership), f"Models of {audit.shadow_records:,} rows"))
    console.print()
    console.print(terminal_table(words.model_rows(audit)))
    console.print()
    for sentence in (*words.learned(audit), words.promised(audit.membership), *words.of_this_model(audit)):
        console.print(sentence, markup=False, soft_wrap=True)
    console.print(f"{words.NOT_TRIED} {words.OWN_EYES}", style="dim", markup=False, soft_wrap=True)
    console.print(f"terms {audit.terms_hash[:16]}…   {audit.seconds:.1f} s", style="dim")
    return audit.holds


def _whose(terms: Terms, owner: str | None) -> str:
    """Whose rows are looked at: the owner named, or the only one."""
    if owner is not None:
        return terms.owner(owner).name
    if len(terms.owners) > 1:
        raise SettingError("--owner NAME: expected beside terms of several owners; each audits with its own rows")
    return terms.owners[0].name
