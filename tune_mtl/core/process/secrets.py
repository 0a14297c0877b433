"""Addresses may hold names and passwords: whatever is printed, logged or kept goes without them."""

import logging
import re
from typing import Any

HIDDEN = "***"
_CREDENTIALS = re.compile(r"(?<!sqlite)(?<!file)://[^\s'\"]*@")
"""Up to the last ``@``: a password may hold anything. Addresses of files have none."""
_IN_QUERY = re.compile(r"(?i)([?&;](?:[a-z_]*password|passwd|pwd|token|secret|[a-z_]*key)=)[^&;\s'\"]+")


def without_secrets(text: str) -> str:
    """Return ``text`` with ``***`` for the user names, passwords and tokens of all addresses in it."""
    return _IN_QUERY.sub(rf"\1{HIDDEN}", _CREDENTIALS.sub(f"://{HIDDEN}@", text))


def had_secrets(text: str) -> bool:
    """Return whether something was hidden in ``text``."""
    return f"//{HIDDEN}@" in text or f"={HIDDEN}" in text


class DiscreetFormatter(logging.Formatter):
    """Formats log records, tracebacks included, without secrets."""

    def format(self, record: Any) -> str:
        """Format the record as usual, then hide what is secret in it."""
        return without_secrets(super().format(record))
