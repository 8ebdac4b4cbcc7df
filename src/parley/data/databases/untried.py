"""Databases whose ADBC drivers fit here, and which nobody has tried here: Snowflake, BigQuery, Flight SQL.

All rows come from one statement, which these servers answer as of one moment.
"""

from importlib import import_module
from typing import ClassVar

from parley.data.databases.adbc import AdbcDatabase
from parley.data.databases.database import discreet
from parley.data.databases.uri import Address
from parley.errors import SettingError

# By the beginning of a URI.
DRIVERS = {"snowflake": "snowflake", "bigquery": "bigquery", "grpc": "flightsql", "grpc+tls": "flightsql"}


class Untried(AdbcDatabase):
    """A database behind one of these drivers, if that is installed."""

    tried: ClassVar[bool] = False

    def __init__(self, address: Address, password: str | None = None) -> None:
        name = f"adbc_driver_{DRIVERS[address.scheme]}"
        try:
            dbapi = import_module(f"{name}.dbapi")
        except ModuleNotFoundError:
            raise SettingError(f"--uri: needs the driver {name}: pip install {name.replace('_', '-')}") from None
        server = f"{address.scheme}://{address.host}"
        options = {} if password is None else {"password": password}
        with discreet(server, "it cannot be reached, or lets nobody in"):
            connection = dbapi.connect(address.uri, db_kwargs=options, autocommit=False)
        super().__init__(server, connection)
