"""Who gets an answer: requests as browsers send them, from the page itself, from other sites, and from nowhere."""

from __future__ import annotations

import re
from typing import Any

import pytest
import trio

from testbed.present.dash.app import application
from testbed.present.dash.board import Board
from testbed.present.dash.guard import Guard

HOST = "127.0.0.1:8000"
TOKEN = "a token that nobody guesses"
Answer = tuple[int, dict[str, str], str]


async def ask(app: Guard, path: str = "/", method: str = "GET", body: bytes = b"", **headers: str) -> Answer:
    """Send one request; headers with _ for -."""
    sent: list[Any] = []
    requests = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Any:
        if requests:
            return requests.pop()
        return await trio.sleep_forever()

    async def send(message: Any) -> None:
        sent.append(message)

    given = {"host": HOST, **{name.replace("_", "-"): value for name, value in headers.items()}}
    path, _, query = path.partition("?")
    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": query.encode(),
        "headers": [(name.encode(), value.encode()) for name, value in given.items()],
    }
    await app(scope, receive, send)  # type: ignore[arg-type]
    start, *rest = sent
    answered = {name.decode().lower(): value.decode() for name, value in start["headers"]}
    return start["status"], answered, b"".join(message.get("body", b"") for message in rest).decode()


@pytest.fixture
def page() -> Guard:
    async def change(key: str, value: object) -> str:
        if value == "nonsense":
            raise ValueError(f"{key} can't be {value}")
        return f"{key} is {value}"

    return application(Board("tiny"), hosts=frozenset({HOST, "localhost:8000"}), change=change)


@pytest.mark.parametrize("path", ["/", "/page.js", "/page.css", "/charts.js", "/icon.svg", "/plotly.js"])
async def test_every_part_is_served_with_what_a_browser_may_do_with_it(page: Guard, path: str) -> None:
    status, headers, body = await ask(page, path, sec_fetch_site="same-origin")
    assert status == 200
    assert body
    assert "default-src 'none'; script-src 'self'" in headers["content-security-policy"]
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert headers["x-content-type-options"] == "nosniff"


async def test_the_page_names_nothing_from_elsewhere(page: Guard) -> None:
    for path in ("/", "/page.js", "/page.css", "/charts.js"):
        _, _, body = await ask(page, path)
        assert not re.search(r"(?:src|href|url|import|fetch)\W{1,3}(?:https?:)?//", body)


@pytest.mark.parametrize("path", ["/../app.py", "/index.html.bak", "/__init__.py", "/index.html", "/page", "/%2e%2e"])
async def test_nothing_else_is_served(page: Guard, path: str) -> None:
    assert (await ask(page, path))[0] == 404


@pytest.mark.parametrize(
    "headers",
    [
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:9000"},
        {"host": "evil.example:8000"},
        {"host": "127.0.0.1:9000"},
        {"host": ""},
    ],
)
@pytest.mark.parametrize("path", ["/", "/updates", "/page.js"])
async def test_requests_from_other_sites_are_refused(page: Guard, path: str, headers: dict[str, str]) -> None:
    status, answered, body = await ask(page, path, **headers)
    assert status == 403
    assert page.secret not in body
    assert "access-control-allow-origin" not in answered


async def test_only_the_page_itself_changes_something(page: Guard) -> None:
    body = b'{"key": "workload.load", "value": 0.7}'
    assert (await ask(page, "/set", "POST", body, origin=f"http://{HOST}"))[0] == 403
    assert (await ask(page, "/set", "POST", body, x_testbed_secret="guessed"))[0] == 403
    _, _, html = await ask(page)
    (secret,) = re.findall(r'name="testbed-secret" content="([^"]+)"', html)
    for refused in ({"sec_fetch_site": "cross-site"}, {"origin": "http://evil.example"}):
        assert (await ask(page, "/set", "POST", body, x_testbed_secret=secret, **refused))[0] == 403
    status, _, said = await ask(page, "/set", "POST", body, x_testbed_secret=secret, origin=f"http://{HOST}")
    assert (status, said) == (200, '{"changed":true,"message":"workload.load is 0.7"}')
    assert (await ask(page, "/set", x_testbed_secret=secret))[0] == 404


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        (b"", 400, "truncated"),
        (b'{"key": "workload.load"}', 400, "value"),
        (b'{"key": "run.seed", "value": 1}', 200, '"changed":false,"message":"run.seed can'),
        (b'{"key": "dispatch.policy", "value": "nonsense"}', 200, "can't be nonsense"),
        (b'{"key": "dispatch.policy", "value": "%s"}' % (b"x" * 20_000), 413, "longer than"),
    ],
)
async def test_bad_settings_are_answered_with_the_reason(page: Guard, body: bytes, status: int, said: str) -> None:
    answered, _, text = await ask(page, "/set", "POST", body, x_testbed_secret=page.secret)
    assert answered == status
    assert said in text


async def test_a_run_has_nothing_to_set() -> None:
    page = application(Board("tiny"))
    assert (await ask(page, "/set", "POST", b"{}", x_testbed_secret=page.secret))[0] == 409


async def test_beyond_loopback_everything_needs_the_token() -> None:
    page = application(Board("tiny"), token=TOKEN)
    for path in ("/", "/updates", "/plotly.js", "/?token=wrong", "/updates?token=" + TOKEN.replace(" ", "+")):
        status, headers, body = await ask(page, path, host="lab.example:8000")
        assert status == 401
        assert "set-cookie" not in headers
        assert "token" in body
    status, headers, _ = await ask(page, "/?token=" + TOKEN.replace(" ", "+"), host="lab.example:8000")
    assert (status, headers["location"]) == (303, "/")
    cookie = headers["set-cookie"]
    assert "httponly" in cookie.lower()
    assert "samesite=strict" in cookie.lower()
    assert TOKEN not in cookie
    status, _, html = await ask(page, host="lab.example:8000", cookie=cookie.partition(";")[0])
    assert status == 200
    assert page.secret in html
    assert (await ask(page, host="lab.example:8000", cookie="testbed_page=wrong"))[0] == 401
    assert (await ask(page, cookie=cookie.partition(";")[0], sec_fetch_site="cross-site"))[0] == 403
