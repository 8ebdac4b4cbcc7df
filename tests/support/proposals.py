"""Terms that somebody proposes, and their hashes."""

import hashlib

from consortium import toml_terms

import parley


def terms_of(learner="learner", epsilon=1.0, **settings):
    """Terms of the owner a."""
    return parley.Terms.from_toml(toml_terms(learner=learner, epsilon=epsilon, names="a", **settings))


def hashed(text):
    """The hash of a text, which is that of the terms if it is how Parley writes them."""
    return hashlib.sha256(text.encode()).hexdigest()
