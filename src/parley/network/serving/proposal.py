"""One proposal: terms as a certified learner sent them, who that was, and what became of them.

Formal guarantee: what is read as the proposal of a hash has a text with that hash, or none any more. Of that text the
daemon looks up two names (`parties`) and nothing else; no path in it is opened, nothing in it is run.
"""

import hashlib
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Self

from parley.durable import seen_from
from parley.errors import Malformed, SettingError, TermsError
from parley.network.serving.acceptance import accepted_terms
from parley.terms import FORMAT as TERMS_FORMAT
from parley.terms import Terms
from parley.validate import printable

FORMAT = "parley-proposal-1"
FILES = ("public", "preparation")  # that every party has a copy of, where terms name their hashes
PARTS = 8192  # lists and tables in a text: what reading it costs
LONGEST_REASON = 500  # characters

Ending = Literal["refused", "lapsed", "withdrawn"]
GONE = ("lapsed", "withdrawn")  # of these a line is kept, and no text


@dataclass(frozen=True)
class Proposal:
    """Proposed terms in their canonical form, who sent them with which key and when, and until when they wait for a
    decision. `ended` says how they ended other than by acceptance, and `reason` why; `certificate` (PEM) is the one
    that was shown, which an earlier Parley did not keep. What is `GONE` has no text, and is `called` what its text
    was."""

    terms_hash: str
    text: str
    names: tuple[str, ...]
    fingerprint: str
    received: str
    until: str | None = None
    ended: Ending | None = None
    reason: str = ""
    certificate: str | None = None
    called: str = ""

    @property
    def title(self) -> str:
        """What the text says that it is called, fit for a terminal; nothing if it says nothing."""
        title = _content(self.text).get("title") if self.text else self.called
        return printable(title, 80).strip() if isinstance(title, str) else ""

    @property
    def peers(self) -> bool:
        """Whether the terms have no centre, so that each owner's own peer asks."""
        learning = _content(self.text).get("learning")
        return isinstance(learning, dict) and learning.get("topology") is not None

    @property
    def needs(self) -> dict[str, str]:
        """The SHA-256 of each file that a party must have for these terms: `public`, the public sample, and
        `preparation`, pinned numbers."""
        model = _content(self.text).get("model")
        digests = {key: model.get(f"{key}_sha256") for key in FILES} if isinstance(model, dict) else {}
        return {key: printable(str(digest), 64) for key, digest in digests.items() if digest is not None}

    def gone(self, ended: Ending, when: str, reason: str) -> Self:
        """The line that is kept of it."""
        return replace(self, text="", certificate=None, called=self.title, ended=ended, until=when, reason=reason)

    def terms(self, public: Path | None = None, preparation: Path | None = None) -> Terms:
        """The terms, with this party's own copies of the files that they need; refused if the text is not how Parley
        writes them, or gone."""
        if self.ended in GONE:
            raise TermsError(f"these terms are {self.ended}: to decide about them, have the learner propose them again")
        content, given = _content(self.text), dict(zip(FILES, (public, preparation), strict=True))
        for key, file in given.items():
            if file is None and key in self.needs:
                raise TermsError(
                    f"model.{key}_sha256: these terms need your own copy of the file with the SHA-256 "
                    f"{self.needs[key]}: --{key} FILE"
                )
            if file is not None and key not in self.needs:
                raise SettingError(f"--{key}: these terms need no such file")
        known = content.pop("format", None) == TERMS_FORMAT
        places = [None if file is None else seen_from(Path.cwd(), str(file)) for file in given.values()]
        try:
            terms = accepted_terms(content, *places) if known else None
        except TermsError as error:
            raise TermsError(f"these are no terms that could be accepted: {printable(str(error))}") from None
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
            terms = None
        if terms is None or (terms.canonical, terms.hash) != (self.text, self.terms_hash):
            raise TermsError("these are no terms that could be accepted: not written as this Parley writes them")
        return terms

    def written(self) -> str:
        """What its file holds."""
        return json.dumps({"format": FORMAT, **vars(self)}, indent=1) + "\n"


def read_proposal_file(path: Path, expected: str) -> Proposal:
    """The proposal in a file that is named after this hash; refused unless Parley wrote it."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        known = content.pop("format") == FORMAT
        if (refused := content.pop("refused", None)) is not None:  # as an earlier Parley wrote it
            content |= {"ended": "refused", "reason": refused}
        proposal = Proposal(**{**content, "names": tuple(content["names"])})
        known = known and proposal.terms_hash == expected and proposal.ended in (None, "refused", *GONE)
        if proposal.ended in GONE:
            known = known and proposal.text == ""
        else:
            known = known and hashlib.sha256(proposal.text.encode()).hexdigest() == expected
        said = (proposal.fingerprint, proposal.received, proposal.until or "", proposal.reason)
        known = known and all(
            isinstance(each, str) for each in (*said, *proposal.names, proposal.certificate or "", proposal.called)
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        known, proposal = False, None
    if not known or proposal is None:
        raise SettingError(f"{path}: not a proposal that Parley wrote; move it away")
    return proposal


def parties(text: str) -> tuple[str, frozenset[str]]:
    """(the learner, the owners) that a proposed text names; refused if it names none, or is of so many parts that
    reading it takes long."""
    if text.count("[") + text.count("{") > PARTS:
        raise Malformed(f"proposal: expected terms of at most {PARTS:,} lists and tables")
    content = _content(text)
    try:
        learner, owners = content["learning"]["learner"], frozenset(part["name"] for part in content["owners"])
    except (KeyError, TypeError):
        raise Malformed("proposal: expected terms in their canonical form") from None
    return str(learner), owners


def said_reason(reason: str) -> str:
    """A reason as the learner will read it; refused if there is nothing to read, or too much."""
    said = printable(reason, LONGEST_REASON + 1).strip()
    if not 1 <= len(said) <= LONGEST_REASON:
        raise SettingError(f"reason: expected 1 to {LONGEST_REASON} characters; the learner reads them")
    return said


def _content(text: str) -> dict[str, Any]:
    """The text as JSON; empty if it is not an object."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}
