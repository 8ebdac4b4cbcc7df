"""Commands, options and exported names that were there stay: `tests/fixtures/surface.json` lists them."""

import json
from pathlib import Path

import parley
from parley.cli.app import OLD_NAMES, PART_BY_COMMAND

LISTED = json.loads((Path(__file__).parents[1] / "fixtures" / "surface.json").read_text(encoding="utf-8"))


def surface():
    """Each command with its options and arguments, as they are typed."""
    found = {}
    for name, part in {**PART_BY_COMMAND, **{old: PART_BY_COMMAND[new] for old, new in OLD_NAMES.items()}}.items():
        command = part.load()
        parts = getattr(command, "commands", None)
        each = {name: command} if parts is None else {f"{name} {inner}": within for inner, within in parts.items()}
        for words, one in each.items():
            found[words] = sorted(word for param in one.params for word in (*param.opts, *param.secondary_opts))
    return found


def test_no_command_and_no_option_is_lost():
    now = surface()
    lost = {
        words: sorted(set(options) - set(now.get(words, ())))
        for words, options in LISTED["commands"].items()
        if not set(options) <= set(now.get(words, ())) or words not in now
    }
    assert lost == {}


def test_no_exported_name_is_lost():
    assert set(LISTED["exports"]) <= set(parley.__all__)
    assert all(hasattr(parley, name) for name in LISTED["exports"])
