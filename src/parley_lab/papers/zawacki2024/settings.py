"""How often Z's methods are tried, and what every exhibit of Z says of that."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from parley.errors import SettingError
from parley_lab.papers.document import Parts, Shown


@dataclass(frozen=True)
class NetworkTrials:
    """How networks of tables are trained: so many trials of each row (None: nothing is trained), on so many images and
    for so many epochs (None: as published), on a device (None: a GPU where there is one)."""

    trials: int | None = None
    images: int | None = None
    epochs: float | None = None
    device: str | None = None
    folder: Path | None = None


@dataclass(frozen=True)
class Trials:
    """Trials of each method, shared evenly among so many draws of the data; `totals`: also at equal total budgets."""

    trials: int = 100
    splits: int = 4
    totals: bool = True
    seed: int = 0
    networks: NetworkTrials = field(default_factory=NetworkTrials)

    def __post_init__(self) -> None:
        if not (self.splits >= 2 and self.trials >= self.splits and self.trials % self.splits == 0):
            found = f"--trials {self.trials} --splits {self.splits}"
            raise SettingError(f"{found}: expected at least 2 splits, and a multiple of them as trials")

    def shown(self, word: str, content: dict[str, Any], parts: Parts, drawn: tuple[Any, ...] = ()) -> Shown:
        """What one figure shows, as an entry of the list of figures."""
        figure = {"figure": word, **content}
        return Shown({"figures": [figure], "trials": self.trials, "splits": self.splits}, parts, drawn)
