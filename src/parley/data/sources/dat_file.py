"""MovieLens' .dat files: user::item::rating::..., without a line of names."""

from typing import ClassVar

import pandas as pd

from parley.data.sources.text_file import TextFile

COLUMNS = ("user", "item", "rating")


class DatFile(TextFile):
    """The first three cells of every line."""

    form: ClassVar[str] = "dat"
    named: ClassVar[bool] = False

    def parsed(self) -> pd.DataFrame:
        lines = self.path.read_text(encoding="latin-1").split("\n")
        cells = [line.split("::")[: len(COLUMNS)] for line in lines if line]
        if not cells or any(len(line) < len(COLUMNS) for line in cells):
            raise ValueError("expected user::item::rating in every line")
        return pd.DataFrame(cells, columns=list(COLUMNS), dtype=str)
