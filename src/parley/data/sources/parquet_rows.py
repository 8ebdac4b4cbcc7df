"""How Parquet files hold rows: in row groups."""

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from parley.data.sources.files import DataFile


class Parquet:
    """Parquet, as a format of columns."""

    form = "parquet"

    def schema(self, file: DataFile) -> pa.Schema:
        with file.opened() as source:
            return pq.read_schema(source)

    def groups(self, file: DataFile) -> Sequence[int]:
        with file.opened() as source:
            about = pq.read_metadata(source)
            return [about.row_group(group).num_rows for group in range(about.num_row_groups)]

    def batches(
        self, file: DataFile, groups: Sequence[int], columns: Sequence[str], most: int, each: int
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        with file.opened() as opened, pq.ParquetFile(opened, pre_buffer=False, buffer_size=each) as source:
            for group in groups:
                for batch in source.iter_batches(most, row_groups=[group], columns=columns, use_threads=False):
                    yield group, batch

    def table(self, file: DataFile, columns: Sequence[str]) -> pa.Table:
        with file.opened() as opened, pq.ParquetFile(opened) as source:
            return source.read(columns=columns, use_pandas_metadata=False)
