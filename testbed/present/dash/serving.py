"""Where the page is served, and to whom."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import trio
from hypercorn.config import Config
from hypercorn.trio import serve as serve_application

from testbed.present.dash.app import Change, application
from testbed.present.dash.board import Board

SHORTEST_TOKEN = 16
GRACE_SECONDS = 1.0  # for open requests when serving ends
LAST_UPDATE_SECONDS = 5.0  # for pages to get the last update


class ServingError(Exception):
    """The page can't be served there."""


@dataclass
class Place:
    """A listening socket, and the token that clients must give, if any. Make one with ``Place.open``."""

    sock: socket.socket
    host: str
    token: str | None

    @classmethod
    def open(cls, host: str = "127.0.0.1", port: int = 0, token: str | None = None) -> Place:
        """Listen at a host's address; port 0: one that the operating system chooses. Raises ServingError."""
        if token is not None and len(token) < SHORTEST_TOKEN:
            raise ServingError(
                f"--token has {len(token)} characters, which can be guessed; give {SHORTEST_TOKEN} or more, "
                'such as "$(openssl rand -hex 16)"'
            )
        if not _is_loopback(host) and token is None:
            raise ServingError(
                f"--host {host} can be reached from other machines, whose users could watch and change the cluster; "
                'add --token "$(openssl rand -hex 16)", or keep 127.0.0.1 and connect through `ssh -L`'
            )
        try:
            family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
            sock = socket.create_server(address[:2], family=family)
        except OSError as error:
            raise ServingError(
                f"cannot listen at {host}:{port}: {error.strerror or error}; choose another --host or --port"
            ) from None
        return cls(sock, host, token)

    @property
    def port(self) -> int:
        """The port."""
        return int(self.sock.getsockname()[1])

    @property
    def address(self) -> str:
        """The address to type into a browser."""
        return self.address_without_token + ("" if self.token is None else f"?token={self.token}")

    @property
    def address_without_token(self) -> str:
        """The address as far as it is no secret."""
        name = self.host
        if ipaddress_or_none(name) is not None and ipaddress.ip_address(name).is_unspecified:
            name = socket.gethostname()
        return f"http://{f'[{name}]' if ':' in name else name}:{self.port}/"

    @property
    def hosts(self) -> frozenset[str] | None:
        """The Host headers that are accepted; None for any, since the token's cookie is bound to one host name."""
        if self.token is not None:
            return None
        return frozenset(f"{name}:{self.port}" for name in ("localhost", "127.0.0.1", "[::1]"))


async def serve(
    board: Board,
    place: Place,
    *,
    change: Change | None = None,
    until: Callable[[], Awaitable[object]] = trio.sleep_forever,
) -> None:
    """Serve the page of ``board`` at ``place`` until ``until()`` returns and its viewers have the last update."""

    async def shutdown() -> None:
        await until()
        with trio.move_on_after(LAST_UPDATE_SECONDS):
            while board.viewers and board.ended is not None:
                await trio.sleep(0.05)

    app = application(board, hosts=place.hosts, token=place.token, change=change)
    config = Config()
    config.bind = [f"fd://{place.sock.detach()}"]
    config.accesslog = None
    config.errorlog = None
    config.graceful_timeout = GRACE_SECONDS
    config.include_server_header = False
    # hypercorn has its own types for ASGI messages, which mypy does not match with Starlette's.
    await serve_application(app, config, shutdown_trigger=shutdown)  # type: ignore[arg-type]


def ipaddress_or_none(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return a numeric address; None for a host name."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _is_loopback(host: str) -> bool:
    address = ipaddress_or_none(host)
    return host == "localhost" if address is None else address.is_loopback
