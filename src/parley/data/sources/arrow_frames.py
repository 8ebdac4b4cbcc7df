"""Arrow columns as data frames, each column of the type that it is declared to have."""

import json

import pandas as pd
import pyarrow as pa

from parley.data.arrow_cells import usual


def as_frame(table: pa.Table) -> pd.DataFrame:
    """The same columns in a data frame, each of its declared type. Dictionaries of text are categories, of anything
    else its cells."""
    table = table.cast(usual_schema(table.schema))
    for place, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            cells = table.column(place).cast(field.type.value_type)
            text = pa.types.is_string(cells.type) or pa.types.is_large_string(cells.type)
            table = table.set_column(
                place, field.name, cells.dictionary_encode() if text else cells
            )  # no entry twice, none missing
    return _to_pandas(table)


def example_of(schema: pa.Schema) -> pd.DataFrame:
    """No rows of these columns."""
    return _to_pandas(usual_schema(schema).empty_table())


def usual_schema(schema: pa.Schema) -> pa.Schema:
    """The same columns in types of which Arrow can select rows."""
    return pa.schema([pa.field(field.name, usual(field.type)) for field in schema])


def without_index(schema: pa.Schema) -> pa.Schema:
    """Without the columns in which pandas keeps a frame's index, as its own reader has it."""
    try:
        listed = json.loads((schema.metadata or {}).get(b"pandas", b"{}")).get("index_columns", [])
    except (ValueError, AttributeError):
        listed = []
    index = {name for name in listed if isinstance(name, str)}
    return pa.schema([field for field in schema if field.name not in index])


def _to_pandas(table: pa.Table) -> pd.DataFrame:
    def dtype(kind: pa.DataType) -> pd.ArrowDtype | None:
        return None if pa.types.is_dictionary(kind) else pd.ArrowDtype(kind)

    return pd.DataFrame(table.to_pandas(types_mapper=dtype, ignore_metadata=True))
