"""Tasks whose answers are sums of records bounded one by one: what limits a record, in numbers and in words."""

from typing import Any

from parley.owner.owner import Agreement
from parley.owner.warnings import record_figures, record_sentences
from parley.protocol.task import Task
from parley.validate import printable


class BoundedRecords(Task):
    """A task in which a clip, or the bounds of columns, limit what one record adds to an answer."""

    def purpose(self, agreement: Agreement) -> list[str]:
        return [f"Model: {self.about(agreement)}."]

    def about(self, agreement: Agreement) -> str:
        """The kind of the model, and the columns that it is learned from."""
        model = agreement.setup.terms.model
        columns = map(printable, (*agreement.setup.preparation.features, *self.columns(model)))
        return f"{model.kind} from the columns {', '.join(columns)}"

    def figures(self, agreement: Agreement) -> dict[str, Any]:
        return record_figures(agreement)

    def limits(self, agreement: Agreement) -> list[str]:
        return record_sentences(agreement)
