"""What stands before the page: who may ask for it, and what a browser may do with it.

The page is for the browsers of those who started it. Against pages of other sites, which the same browser may have
open, requests are refused that the browser itself says come from elsewhere (Sec-Fetch-Site, Origin), and on loopback
those for any other host name, so that no foreign name that resolves to 127.0.0.1 gets in (DNS rebinding). What changes
something needs a header with a secret that only the page knows. Beyond loopback everything needs the token, which the
first address carries and a cookie keeps.
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

#: Scripts come from here only. Plotly adds styles of its own, and heat maps are pictures at data: addresses.
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
    """Refuses what must not reach ``app``. ``hosts``: the only Host headers that are answered; None: any."""

    def __init__(self, app: ASGIApp, hosts: frozenset[str] | None, token: str | None) -> None:
        self.secret = secrets.token_urlsafe(24)
        self._app = app
        self._hosts = hosts
        self._token = token
        # Not the token itself: cookies end up in more files than addresses that are typed.
        self._pass = hashlib.sha256(f"{self.secret}{token}".encode()).hexdigest()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or have the application answer it."""
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
            return _refusal(f"this page is not at {host!r}; use one of: {', '.join(sorted(self._hosts))}")
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            return _refusal("requests from other sites are refused; type the address, or open it from a bookmark")
        origin = headers.get("origin")
        if origin is not None and origin != f"{scope['scheme']}://{host}":
            return _refusal(f"requests from other sites are refused, and this one comes from {origin!r}")
        if self._token is not None:
            refused = self._without_token(scope, headers)
            if refused is not None:
                return refused
        if scope["method"] not in ("GET", "HEAD") and not _same(headers.get(SECRET_HEADER, ""), self.secret):
            return _refusal("only the page itself may change something; reload it, it may be of an earlier command")
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
        return _refusal("this page needs its token: open its address with /?token=... at the end", 401)


def _refusal(why: str, status: int = 403) -> Response:
    return PlainTextResponse(why + "\n", status_code=status)


def _same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode(), expected.encode())
