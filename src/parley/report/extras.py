"""Error messages that name the missing extra."""

from collections.abc import Iterator
from contextlib import contextmanager

from parley.errors import SettingError

_EXTRAS = {
    "grpc": "deploy",
    "grpc_health": "deploy",
    "prometheus_client": "deploy",
    "google": "deploy",
    "adbc_driver_duckdb": "sql",
    "adbc_driver_manager": "sql",
    "adbc_driver_postgresql": "sql",
    "flwr": "flower",
    "jinja2": "studio",
    "numba": "ratings",
    "safetensors": "torch",
    "starlette": "studio",
    "torch": "torch",
    "uvicorn": "studio",
}


@contextmanager
def extras() -> Iterator[None]:
    """Name the missing extra if an import in this block fails."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in _EXTRAS:
            raise
        extra = _EXTRAS[package]
        raise SettingError(
            f"this command needs the extra {extra!r}; install the extra: pip install 'parley-dp[{extra}]'"
        ) from None
