"""No name, password or token of an address gets out; everything else stays."""

import io
import logging

import pytest
from hypothesis import given
from hypothesis.strategies import characters, text

from tune_mtl.core.process.secrets import DiscreetFormatter, had_secrets, without_secrets

passwords = text(characters(exclude_categories=("C", "Z"), exclude_characters="'\""), min_size=1)


@given(password=passwords)
def test_whatever_the_password_holds(password):
    hidden = without_secrets(f"cannot reach postgresql://me:secret{password}@host:5432/db now")
    assert hidden == "cannot reach postgresql://***@host:5432/db now"
    assert had_secrets(hidden)


@pytest.mark.parametrize(
    "plain", ["http://host:5000/api", "sqlite:////home/me@work/mlflow.db", "file:///a@b/c", "me@host", "no address"]
)
def test_what_holds_no_secret_stays(plain):
    assert without_secrets(plain) == plain
    assert not had_secrets(plain)


def test_secrets_in_a_query():
    hidden = without_secrets("postgresql://host/db?sslmode=on&password=word&sslkey=k")
    assert hidden == "postgresql://host/db?sslmode=on&password=***&sslkey=***"
    assert had_secrets(hidden)


def test_tracebacks_in_logs_are_cleaned():
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(DiscreetFormatter())
    logger = logging.getLogger("discreet")
    logger.addHandler(handler)
    logger.propagate = False
    try:
        raise ConnectionError("API request to http://me:word@host/api failed")
    except ConnectionError:
        logger.exception("lost http://me:word@host")
    assert "word" not in stream.getvalue()
    assert stream.getvalue().count("http://***@host") >= 2
