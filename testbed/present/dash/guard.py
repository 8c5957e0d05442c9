"""Access control of the page: which requests are answered, and what a browser may do with the page.

Only the user who started the command should use the page. The same browser may have pages of other sites open, so
requests that it marks as coming from another site (Sec-Fetch-Site, Origin) are refused. On loopback, requests for any
other host name are refused too, so that a foreign name that resolves to 127.0.0.1 gets no access (DNS rebinding). A
request that changes something needs a header with a secret that only the page knows. Beyond loopback every request
needs the token: the first address carries it, and a cookie keeps it.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE = "testbed_page"
SECRET_HEADER = "X-Testbed-Secret"

#: Scripts come from this server only. Plotly adds its own styles, and draws heat maps as images at data: addresses.
CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


class Guard:
    """Refuses requests that must not reach ``app``. ``hosts``: the Host headers that are accepted; None: any."""

    def __init__(self, app: ASGIApp, hosts: frozenset[str] | None, token: str | None) -> None:
        self.secret = secrets.token_urlsafe(24)
        self._app = app
        self._hosts = hosts
        self._token = token
        # Not the token itself: browsers store cookies in more files than addresses that a user types.
        self._pass = hashlib.sha256(f"{self.secret}{token}".encode()).hexdigest()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a request, or pass it on to the application."""
        if scope["type"] != "http":
            if scope["type"] == "websocket":
                await send({"type": "websocket.close"})
                return
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
            await send(message)

        refused = self._refused(scope)
        await (refused or self._app)(scope, receive, send_with_headers)

    def _refused(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if self._hosts is not None and host not in self._hosts:
            return _refusal(f"this page has no address {host!r}; use one of: {', '.join(sorted(self._hosts))}")
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            return _refusal("requests from other sites are refused; type the address, or use a bookmark")
        origin = headers.get("origin")
        if origin is not None and origin != f"{scope['scheme']}://{host}":
            return _refusal(f"requests from other sites are refused; this one comes from {origin!r}")
        if self._token is not None:
            refused = self._without_token(scope, headers)
            if refused is not None:
                return refused
        if scope["method"] not in ("GET", "HEAD") and not _same(headers.get(SECRET_HEADER, ""), self.secret):
            return _refusal("only the page itself may change settings; reload it: it may belong to an earlier command")
        return None

    def _without_token(self, scope: Scope, headers: Headers) -> Response | None:
        assert self._token is not None
        cookie = cookie_parser(headers.get("cookie", "")).get(COOKIE, "")
        if _same(cookie, self._pass):
            return None
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        if scope["path"] == "/" and scope["method"] == "GET" and _same(given, self._token):
            answer = RedirectResponse("/", status_code=303)  # so that the token is not left in the address
            answer.set_cookie(COOKIE, self._pass, httponly=True, samesite="strict")
            return answer
        return _refusal("this page needs its token: add /?token=... to its address", 401)


def _refusal(why: str, status: int = 403) -> Response:
    return PlainTextResponse(why + "\n", status_code=status)


def _same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode(), expected.encode())
