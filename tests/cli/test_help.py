"""Help of options is short: what an option needs beside that stands in what its command says of itself."""

from parley.cli.app import PART_BY_COMMAND

MAX_WORDS = 12


def long_helps(words, command):
    for param in command.params:
        said = getattr(param, "help", None) or ""
        if len(said.split()) > MAX_WORDS:
            yield words, param.opts[-1], said
    for name, inner in getattr(command, "commands", {}).items():
        yield from long_helps(f"{words} {name}", inner)


def test_an_option_is_explained_in_few_words():
    assert [found for name, part in PART_BY_COMMAND.items() for found in long_helps(name, part.load())] == []
