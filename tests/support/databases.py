"""One table in every kind of database that tests can have, and a PostgreSQL server of their own."""

import os
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest
from consortium import free_port

WORD, NUMBER = "Zebra-Quokka", 48151623  # planted: no message may hold them


def server_binaries() -> Path | None:
    """Where PostgreSQL's programs lie, the newest version's; None if there are none."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda file: int(file.parts[-3]))
    other = shutil.which("initdb")
    return found[-1].parent if found else Path(other).parent if other else None


def require_postgres() -> Path:
    """PostgreSQL's programs; the test is skipped where they or the driver are missing."""
    pytest.importorskip("adbc_driver_postgresql", reason="the driver is not installed; pip install 'parley-dp[sql]'")
    binaries = server_binaries()
    if binaries is None:
        pytest.skip("no PostgreSQL server is installed here; apt-get install postgresql")
    return binaries


class PostgresServer:
    """A server in a folder of its own, which asks for a password on the network and for none at its socket."""

    def __init__(self, binaries: Path, folder: Path) -> None:
        self.binaries, self.folder, self.port = binaries, folder, free_port()
        self.user = "postgres" if os.geteuid() == 0 else None  # a server refuses to run as root
        if self.user is not None:
            shutil.chown(folder, self.user)
        self._run("initdb", "-D", folder / "data", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "-N")
        (folder / "data" / "pg_hba.conf").write_text("local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n")
        options = f"-k {folder} -h 127.0.0.1 -p {self.port} -c fsync=off -c shared_buffers=16MB"
        self._run("pg_ctl", "-D", folder / "data", "-l", folder / "log", "-o", options, "-w", "start")

    @property
    def uri(self) -> str:
        return f"postgresql://postgres@/postgres?host={self.folder}&port={self.port}"

    @property
    def network_uri(self) -> str:
        return f"postgresql://anna@127.0.0.1:{self.port}/postgres"

    def sql(self, script: str) -> None:
        """Run some statements."""
        connect = ("-h", self.folder, "-p", self.port, "-U", "postgres", "-q", "-v", "ON_ERROR_STOP=1", "-f", "-")
        self._run("psql", *connect, script=script)

    def stop(self) -> None:
        self._run("pg_ctl", "-D", self.folder / "data", "-m", "immediate", "-w", "stop")

    def _run(self, program: str, *arguments: object, script: str | None = None) -> None:
        command = [str(self.binaries / program), *map(str, arguments)]
        with (self.folder.parent / f"{self.folder.name}.out").open("w+") as out:
            done = subprocess.run(
                command, user=self.user, cwd="/", input=script, text=True, stdout=out, stderr=out, check=False
            )
            out.seek(0)
            assert done.returncode == 0, out.read()


@contextmanager
def postgres_server() -> Iterator[PostgresServer]:
    """A server that ends with this block."""
    binaries = require_postgres()
    above = Path(tempfile.mkdtemp(prefix="parley-postgres-"))
    above.chmod(0o755)
    folder = above / "server"
    folder.mkdir()
    try:
        server = PostgresServer(binaries, folder)
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(above)


def write_sqlite(file: Path, script: str) -> str:
    """The URI of a SQLite file that holds what the script makes."""
    with sqlite3.connect(file) as connection:
        connection.executescript(script)
    connection.close()
    return f"sqlite:{file}"


def write_duckdb(file: Path, script: str) -> str:
    """The same of a DuckDB file."""
    if find_spec("duckdb") is None or find_spec("adbc_driver_manager") is None:
        pytest.skip("DuckDB is not installed; pip install 'parley-dp[sql]'")
    import duckdb

    with duckdb.connect(str(file)) as connection:
        connection.execute(script)
    return f"duckdb:{file}"
