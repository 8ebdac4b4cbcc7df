"""A data frame as a table. It declares its columns' dtypes."""

import hashlib

import numpy as np
import pandas as pd

from parley.data.sources.source import HeldTable


class FrameTable(HeldTable):
    """The rows of a data frame, counted from its first one, under names that are text."""

    def __init__(self, frame: pd.DataFrame) -> None:
        super().__init__()
        self._held = frame.reset_index(drop=True)
        if not all(type(name) is str for name in frame.columns):  # once a run in studies: pandas takes long
            self._held.columns = frame.columns.map(str)

    @property
    def held(self) -> pd.DataFrame:
        return self._held

    def digest(self) -> bytes:
        """Of the cells, and of the columns' names and types."""
        frame = self._held
        names = "\n".join(f"{column!r} {kind}" for column, kind in zip(frame.columns, frame.dtypes, strict=True))
        rows = pd.util.hash_pandas_object(frame, index=False).to_numpy(dtype=np.uint64)
        return hashlib.sha256(b"frame" + names.encode() + b"\n" + rows.astype("<u8").tobytes()).digest()
