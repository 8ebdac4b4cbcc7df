"""The task "trees": boosted trees as the rest of the package sees them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pandas as pd

from parley.data import Design, Preparation
from parley.data.headers import ranges
from parley.data.holdout import counted_rows
from parley.losses import Objective
from parley.numerals import number
from parley.owner.owner import Agreement, Owner
from parley.owner.warnings import agreed_ranges, budget_warning, name_warnings, range_warning, target_warnings
from parley.protocol.setup import Setup
from parley.protocol.task import RunSettings, Task, register
from parley.tasks.trees.question import LeafSumsQuestion, TreePreparation, make_structure, tree_preparation
from parley.tasks.trees.terms import TreesModel, error_limit
from parley.terms import Model, Terms
from parley.terms.file import TermsWarning
from parley.validate import Floats, printable


@dataclass(frozen=True)
class LeafValues(Objective):
    """Leaf values theta [P] as parameters, the level first: in the target's own units, or as log odds for classes."""

    def parameters(self, preparation: Preparation) -> int:
        return make_structure(preparation).parameters

    def start(self, preparation: Preparation) -> Floats:
        """Return 0 for all leaves, and the middle of the target's bounds for the level."""
        theta = super().start(preparation)
        if not preparation.model.classifies:
            low, high = preparation.target_bounds
            theta[0] = low / 2 + high / 2
        return theta


class Trees(Task):
    """Owners fill the leaves of trees that the terms fix; the result predicts a column."""

    name = "trees"
    predicts = True
    refusal = (
        "model.kind: boosted trees cannot be forecast, planned, negotiated, refined or learned without a centre yet; "
        "instead simulate them (parley train without --ledgers, on made-up or public tables), or forecast a linear "
        "kind with a public sample and model.columns = 'bins', which also adds up one effect per column"
    )
    questions: ClassVar = {"leaf-sums": LeafSumsQuestion}
    commands: ClassVar[Mapping[str, str]] = {"score": "parley.tasks.trees.model:score_trees"}
    usual_commands = ("train", "learner run")

    def preparation(
        self, terms: Terms, example: pd.DataFrame | None = None, redraw: int | None = None
    ) -> tuple[TreePreparation, Design | None]:
        return tree_preparation(terms), None

    def objective(self, model: Model) -> LeafValues:
        return LeafValues()

    def purpose(self, agreement: Agreement) -> list[str]:
        """Say which columns predict what, who decided where they are cut, and what gaps do."""
        preparation, model = agreement.setup.preparation, agreement.setup.terms.model
        columns = ", ".join(map(printable, (*preparation.features, model.target)))
        pairs = ", and coarser ones of two columns together" if TreesModel.expect(model).depth == 2 else ""
        gaps = ", ".join(printable(encoding.column, 40) for encoding in preparation.encodings if encoding.fills)
        return [
            f"Model: {model.kind} from the columns {columns}.",
            *([] if preparation.target_words is None else [preparation.target_words]),
            f"A round is one tree, with a leaf for each of {model.bins} equal steps within the bounds of a column, or "
            f"for each of its listed names{pairs}. The terms define these steps, and no row influences them."
            + (f" A missing cell of {gaps} has a leaf of its own." if gaps else ""),
            "A row without a target counts as a record and contributes nothing.",
        ]

    def figures(self, agreement: Agreement) -> dict[str, Any]:
        """Return the error limit, and how far a person moves an answer."""
        mechanism, question = agreement.part.training.series.mechanism, agreement.part.training.question
        return {
            "error_limit": error_limit(agreement.setup.terms),
            "norm": question.norm,
            "sensitivity": mechanism.sensitivity,
            "noise_scale": mechanism.noise_scale,
            "bounds": {column: list(ends) for column, ends in agreement.setup.terms.model.bounds.items()},
            "categories": {column: len(names) for column, names in agreement.setup.preparation.categories.items()},
        }

    def limits(self, agreement: Agreement) -> list[str]:
        """Return the figures in sentences."""
        facts, model = self.figures(agreement), agreement.setup.terms.model
        limit = "1, as a probability" if model.classifies else f"{number(facts['error_limit'])} in the target's units"
        ranges = "; ".join(
            f"{printable(column)} {number(low)} to {number(high)}" for column, (low, high) in model.bounds.items()
        )
        return [
            f"An error counts at most {limit}. A person moves an answer by at most "
            f"{number(facts['sensitivity'], side='above')} in {facts['norm'].upper()}; the noise has scale "
            f"{number(facts['noise_scale'])}.",
            *([f"Values are clipped to these ranges: {ranges}."] if ranges else []),
        ]

    def warnings(self, owner: Owner, agreement: Agreement) -> list[TermsWarning]:
        """Warn of ranges and names that do not fit the table, and of a budget that is no promise."""
        names = agreement.setup.preparation.categories
        wanted = {c: ends for c, ends in agreed_ranges(agreement).items() if c not in names}
        kept = counted_rows(owner.table, agreement.setup.terms.privacy, owner.name)
        seen = ranges(owner.table, wanted, owner.name, kept, agreement.setup.terms.model.dates)
        every = [range_warning(column, *wanted[column], found) for column, found in seen.items()]
        every.append(budget_warning(agreement.setup.terms, [owner.name]))
        found = [warning for warning in every if warning is not None]
        return [*found, *name_warnings(owner, agreement), *target_warnings(owner, agreement)]

    def model(self, preparation: Preparation, theta: Floats, terms_hash: str, released: bool) -> Any:
        from parley.tasks.trees.model import boosted_model

        return boosted_model(preparation, theta, terms_hash, released)

    def algorithm(self, setup: Setup) -> Any:
        from parley.tasks.trees.algorithm import BoostedTrees

        return BoostedTrees.make(setup)

    def expected_cost(self, terms: Terms, public: pd.DataFrame) -> float:
        from parley.tasks.trees.model import expected_cost

        return expected_cost(terms, public)

    def run(self, terms: Terms, owners: Sequence[Owner], settings: RunSettings) -> Any:
        from parley.learning.prediction import learn_model  # an owner that serves learns nothing
        from parley.tasks.trees.model import measured

        result = learn_model(terms, owners, replace(settings, measure=False))
        if result.released or not settings.measure:
            return result
        return replace(result, quality=measured([owner.prepare(terms) for owner in owners], result.theta))

    def figure(self, result: Any) -> Any:
        from parley.report.figures.shape_functions import shape_functions  # a library that is slow to load

        return shape_functions(result.model, result.theta)


register(Trees())
