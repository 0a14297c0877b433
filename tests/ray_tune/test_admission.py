"""A cluster lets us in, wants a token, or is none: known at once, and told in a line."""

import os
import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from tune_mtl.core.errors import UserError
from tune_mtl.ray_tune import compat
from tune_mtl.ray_tune.admission import MODE, check_admission, locate, token_mode

SETTINGS = bytes.fromhex("000000040100000000")
REFUSED = b"\x88@\x0ccontent-type\x10application/grpc\x00\x0bgrpc-status\x0216\x00\x0cgrpc-message\x10InvalidAuthToken"
OTHER = b"\x88@\x0ccontent-type\x10application/grpc\x00\x0bgrpc-status\x0212"
TOKEN = "a1" * 100
"""Longer than what one byte of HTTP/2 can count."""


@pytest.fixture(autouse=True)
def reread():
    """Have Ray know the environment that is left when a test has put it back."""
    yield
    compat.reread_environment()


def frame(kind: int, flags: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + (1).to_bytes(4, "big") + payload


Reply = Callable[[bytes], bytes]


@pytest.fixture
def serve() -> Iterator[Callable[[Reply], str]]:
    """Start a head that answers each call with what ``reply`` makes of it; returns its address."""
    servers: list[socket.socket] = []

    def start(reply: Reply) -> str:
        server = socket.create_server(("127.0.0.1", 0))
        servers.append(server)

        def answer() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    connection.sendall(reply(connection.recv(4096)))

        threading.Thread(target=answer, daemon=True).start()
        return f"127.0.0.1:{server.getsockname()[1]}"

    yield start
    for server in servers:
        server.shutdown(socket.SHUT_RDWR)
        server.close()


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """A user without a token."""
    for name in (MODE, "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH", "RAY_ADDRESS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


def demanding(call: bytes) -> bytes:
    """As a cluster with ``TOKEN`` does."""
    let_in = TOKEN.encode() in call
    return SETTINGS + (frame(0, 0, b"12345") if let_in else frame(1, 5, REFUSED))


def test_a_cluster_without_authentication_is_not_shown_a_token(serve, monkeypatch):
    seen: list[bytes] = []
    monkeypatch.setenv("RAY_AUTH_TOKEN", TOKEN)
    assert not check_admission(serve(lambda call: seen.append(call) or SETTINGS + frame(0, 0, b"12345")))
    assert len(seen) == 1
    assert TOKEN.encode() not in seen[0]


def test_the_token_of_the_users_folder_is_found(serve, tmp_path):
    (tmp_path / ".ray").mkdir()
    (tmp_path / ".ray" / "auth_token").write_text(TOKEN)
    assert check_admission(serve(demanding))


def test_no_token_another_token_or_an_unreadable_one_is_a_line(serve, monkeypatch, tmp_path):
    address = serve(demanding)
    with pytest.raises(UserError, match=f"{address} demands a token, and there is none here: copy"):
        check_admission(address)
    monkeypatch.setenv("RAY_AUTH_TOKEN", "another")
    with pytest.raises(UserError, match=f"{address} wants another token than the one in RAY_AUTH_TOKEN"):
        check_admission(address)
    monkeypatch.delenv("RAY_AUTH_TOKEN")
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(tmp_path / "nowhere"))
    with pytest.raises(UserError, match=r"token cannot be read.*nowhere"):
        check_admission(address)


def test_nobody_there_or_nobody_who_answers_is_a_line(serve, monkeypatch):
    monkeypatch.setattr("tune_mtl.ray_tune.admission._ANSWER_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(UserError, match="does not answer"):
            check_admission(address)
    with pytest.raises(UserError, match="does not answer"):
        check_admission(address)
    assert not check_admission(serve(lambda _: SETTINGS + frame(1, 5, OTHER))), "Ray says itself what is wrong"
    assert not check_admission("ray://nowhere:1")


def test_auto_without_a_cluster_is_a_line(monkeypatch):
    def found(_: str) -> None:
        raise ConnectionError

    monkeypatch.setattr(compat.services, "canonicalize_bootstrap_address", found)
    with pytest.raises(UserError, match="auto finds no cluster on this machine"):
        locate("auto")


def test_the_environment_is_as_before_afterwards(monkeypatch):
    with token_mode(demanded=True):
        assert os.environ[MODE] == "token"
    assert MODE not in os.environ
    with token_mode(demanded=False):
        os.environ[MODE] = "token"  # as Ray does for a cluster of our own
    assert MODE not in os.environ
    monkeypatch.setenv(MODE, "disabled")
    with token_mode(demanded=True):
        pass
    assert os.environ[MODE] == "disabled"
