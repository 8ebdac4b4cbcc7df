"""One Arrow (IPC) file as a table; Feather files are the same format."""

from collections.abc import Iterator, Sequence
from typing import ClassVar

import pyarrow as pa

from parley.data.sources.columnar import ColumnarTable, Format
from parley.data.sources.files import DataFile


class Arrow:
    """Arrow's own format. Its groups are record batches."""

    form = "Arrow"

    def schema(self, file: DataFile) -> pa.Schema:
        with file.opened() as source, pa.ipc.open_file(source) as batches:
            return batches.schema

    def groups(self, file: DataFile) -> Sequence[int]:
        with file.opened() as source, pa.ipc.open_file(source) as batches:
            return [len(batches.get_batch(group)) for group in range(batches.num_record_batches)]

    def batches(
        self, file: DataFile, groups: Sequence[int], columns: Sequence[str], most: int, each: int
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        with file.opened() as source, pa.ipc.open_file(source) as batches:
            for group in groups:
                batch = batches.get_batch(group).select(list(columns))
                batch.validate(full=True)  # a broken file may say anything of its buffers
                for start in range(0, len(batch), most):
                    yield group, batch.slice(start, most)

    def table(self, file: DataFile, columns: Sequence[str]) -> pa.Table:
        found = [batch for _, batch in self.batches(file, range(len(self.groups(file))), columns, 1 << 62, 0)]
        declared = self.schema(file)
        return pa.Table.from_batches(found, pa.schema([declared.field(column) for column in columns]))


class ArrowFile(ColumnarTable):
    """A table that is one .arrow or .feather file."""

    kind: ClassVar[bytes] = b"file"
    form: ClassVar[Format] = Arrow()

    def found(self) -> tuple[DataFile, ...]:
        return (self.place,)
