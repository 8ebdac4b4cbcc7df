"""`parley reproduce`: the laboratory's command, or how to install it."""

from importlib.metadata import entry_points

import typer

from parley.errors import SettingError

ENTRY_POINT_GROUP = "parley.laboratory"


def _not_installed() -> None:
    """Recompute the figures and tables of a paper or thesis, and compare the results with the published values.

    The command belongs to the laboratory, which is not installed. The extra 'lab' installs the laboratory.
    """
    raise SettingError("this command needs the extra 'lab'; install the extra: pip install 'parley-dp[lab]'")


def _reproduce_app() -> typer.Typer:
    for found in entry_points(group=ENTRY_POINT_GROUP, name="reproduce"):
        app: typer.Typer = found.load()
        return app
    app = typer.Typer(add_completion=False)
    app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(_not_installed)
    return app


reproduce_app = _reproduce_app()
