"""Where the page is served, and where it refuses to be."""

from __future__ import annotations

import socket

import pytest

from testbed.present.dash.serving import Place, ServingError


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "localhost", "::1"])
def test_loopback_needs_no_token(host: str) -> None:
    place = Place.open(host)
    with place.sock:
        assert place.address.startswith("http://")
        assert str(place.port) in place.address
        assert place.hosts is not None


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "192.0.2.1", "somewhere.example"])
def test_beyond_loopback_a_token_is_asked_for_before_anything_listens(host: str) -> None:
    with pytest.raises(ServingError, match=r"--token .*openssl"):
        Place.open(host)


def test_a_token_that_can_be_guessed_is_refused() -> None:
    with pytest.raises(ServingError, match="16 or more"):
        Place.open("0.0.0.0", token="short")


def test_with_a_token_the_page_listens_everywhere_and_says_where() -> None:
    place = Place.open("0.0.0.0", token="0123456789abcdef")
    with place.sock:
        assert place.address.endswith("/?token=0123456789abcdef")
        assert "0.0.0.0" not in place.address


def test_a_port_that_is_taken_is_an_error_with_a_remedy() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(ServingError, match="another --host or --port"):
        Place.open(port=taken.getsockname()[1])
