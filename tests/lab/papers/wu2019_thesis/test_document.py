import json

import numpy as np
from typer.testing import CliRunner

from parley.cli.app import app


def test_the_command_prints_panels_and_draws_them(tmp_path):
    run = CliRunner().invoke(app, ["reproduce", "wu2019-thesis", "--json", "--plot", str(tmp_path / "c.png")])
    panels = json.loads(run.stdout)["panels"]
    assert len(panels) == 4
    assert np.ptp(panels[0]["ends"][0]) < 1e-5
    assert all(np.allclose(panel["ends_as_printed"], 0.01) for panel in panels)  # by T's scale all give the least
    assert (tmp_path / "c.png").read_bytes().startswith(b"\x89PNG")
    assert "as printed" in CliRunner().invoke(app, ["reproduce", "wu2019-thesis", "--printed"]).output
