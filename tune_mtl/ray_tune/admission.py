"""Whether a Ray cluster lets this process in: asked directly, in milliseconds, before Ray itself is asked to connect.

Ray's own client tries for 20 to 40 seconds, in many lines, and can abort the process. So one call of its protocol
(gRPC, which is HTTP/2) is made by hand: a cluster answers it with data, or says that it wants a token.
"""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import ray
from ray.exceptions import AuthenticationError

from tune_mtl.core.errors import UserError
from tune_mtl.ray_tune import compat

MODE = "RAY_AUTH_MODE"
_ANSWER_SECONDS = 4.0
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _GOODBYE = 0, 1, 7
_SETTINGS = 4
_END_STREAM, _END_HEADERS = 1, 4
_CALL = b"/ray.rpc.NodeInfoGcsService/GetClusterId"
_REFUSAL = b"InvalidAuthToken"

Answer = Literal["welcome", "refused", "unclear"]


def check_address(address: str | None) -> None:
    """Refuse, in a line and at once, a cluster that does not answer or wants another token; None asks for no cluster.

    Raises:
        UserError: with the way out.
    """
    if address is not None and not ray.is_initialized():
        check_admission(locate(address))


def locate(address: str) -> str:
    """Return ``address`` as ``HOST:PORT``: ``auto`` is the cluster that runs on this machine, or ``RAY_ADDRESS``.

    Raises:
        UserError: if ``auto`` finds no cluster.
    """
    if address != "auto":
        return address
    found = compat.find_cluster()
    if found is None:
        raise UserError(
            "Ray address auto finds no cluster on this machine: ray start --head starts one,"
            " or give --address HOST:PORT."
        )
    return found


def check_admission(address: str) -> bool:
    """Return whether the cluster at ``address`` demands a token, which this process then has.

    An address that is not ``HOST:PORT`` is left to Ray, and so is a cluster that uses TLS.

    Raises:
        UserError: within seconds, if nobody answers there, or the cluster wants another token than there is here.
    """
    host, _, port = address.rpartition(":")
    if "://" in address or not port.isdigit() or os.environ.get("RAY_USE_TLS", "0").lower() in ("1", "true"):
        return False
    place = (host.strip("[]"), int(port))
    if _asked(place, None, address) != "refused":
        return False
    token = _token()
    if token is None:
        raise UserError(
            f"the Ray cluster at {address} demands a token, and there is none here: copy ~/.ray/auth_token from its"
            " head node to this machine, or set RAY_AUTH_TOKEN_PATH to a file with it."
        )
    if _asked(place, token, address) == "refused":
        raise UserError(
            f"the Ray cluster at {address} wants another token than the one in {_source()}: copy ~/.ray/auth_token"
            " from its head node, or set RAY_AUTH_TOKEN_PATH to a file with it."
        )
    return True


@contextmanager
def token_mode(*, demanded: bool) -> Iterator[None]:
    """Have Ray show the token to the cluster that ``demanded`` it, and afterwards do as the user's environment says.

    Ray switches its token on by itself for a cluster of our own, and would then keep it on in this process.
    """
    before = os.environ.get(MODE)
    try:
        if demanded:
            os.environ[MODE] = "token"
        compat.reread_environment()  # whoever changed the variables since Ray read them
        yield
    finally:
        _set_mode(before)


def _set_mode(mode: str | None) -> None:
    """Set the variable, and have Ray read it again: it does so once otherwise."""
    if os.environ.get(MODE) == mode:
        return
    if mode is None:
        del os.environ[MODE]
    else:
        os.environ[MODE] = mode
    compat.reread_environment()


def _token() -> str | None:
    """Return the token that Ray finds here: in the environment, in the file that it names, or in the user's folder."""
    try:
        return compat.authentication_token()
    except AuthenticationError as error:
        raise UserError(f"Ray's token cannot be read: {' '.join(str(error).split())}.") from None


def _source() -> str:
    """Return where Ray finds the token."""
    if os.environ.get("RAY_AUTH_TOKEN"):
        return "RAY_AUTH_TOKEN"
    return os.environ.get("RAY_AUTH_TOKEN_PATH") or "~/.ray/auth_token"


def _asked(place: tuple[str, int], token: str | None, address: str) -> Answer:
    """Make the call, with ``token`` or without."""
    try:
        with socket.create_connection(place, timeout=_ANSWER_SECONDS) as connection:
            connection.sendall(_call(address, token))
            return _read_answer(connection)
    except OSError as error:
        raise UserError(f"Ray address {address} does not answer ({error}). Is the cluster running?") from None


def _read_answer(connection: socket.socket) -> Answer:
    """Return what the cluster answers: a message is a welcome, an end without one says why."""
    with connection.makefile("rb") as frames:
        while len(head := frames.read(9)) == 9:
            body, kind, flags = frames.read(int.from_bytes(head[:3], "big")), head[3], head[4]
            if kind == _DATA:
                return "welcome"
            if kind == _HEADERS and flags & _END_STREAM:
                return "refused" if _REFUSAL in body else "unclear"
            if kind == _GOODBYE:
                return "unclear"
    return "unclear"


def _call(address: str, token: str | None) -> bytes:
    """Return all bytes of a call without arguments."""
    fields = {
        b":method": b"POST",
        b":scheme": b"http",
        b":path": _CALL,
        b":authority": address.encode(),
        b"te": b"trailers",
        b"content-type": b"application/grpc",
    }
    if token is not None:
        fields[b"authorization"] = b"Bearer " + token.encode()
    headers = b"".join(b"\0" + _string(name) + _string(value) for name, value in fields.items())
    frames = (
        _frame(_SETTINGS, 0, 0, b""),
        _frame(_HEADERS, _END_HEADERS, 1, headers),
        _frame(_DATA, _END_STREAM, 1, bytes(5)),  # not compressed, no bytes
    )
    return _PREFACE + b"".join(frames)


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def _string(text: bytes) -> bytes:
    """Return a string as header fields have it: its length in seven bits and as many more as it takes, then itself."""
    length = len(text)
    if length < 127:
        return bytes([length]) + text
    digits, rest = [127], length - 127
    while rest >= 128:
        digits.append(rest % 128 + 128)
        rest //= 128
    return bytes([*digits, rest]) + text
