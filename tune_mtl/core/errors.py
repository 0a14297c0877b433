"""The one exception for mistakes that a user can put right."""

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """A mistake in what the user gave: the message is one line with the bad value, the rule and the way out.

    The command line prints it after ``error:`` and exits with code 2; no traceback.
    """


class StoreLostError(UserError):
    """The tracking store does not answer; what it should be told is kept."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a closing sentence for an error about an unknown name: the nearest known one, else all of them."""
    known = sorted(known)
    folded = {candidate.lower(): candidate for candidate in known}
    near = difflib.get_close_matches(name.lower(), folded, n=1, cutoff=0.5)
    if near:
        return f"Did you mean '{folded[near[0]]}'?"
    return f"Known: {', '.join(known)}." if known else "There are none."
