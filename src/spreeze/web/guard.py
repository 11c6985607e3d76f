"""Who may read and who may act. In front of everything that the server answers:

1. The name in `Host` is an address, localhost, or a name that the user gave: a stranger's page whose name was bent to
   127.0.0.1 (DNS rebinding) comes with its own name and gets nothing.
2. What a browser sends on behalf of another page (`Sec-Fetch-Site`, `Origin`) reaches neither data nor actions.
3. Reading needs the token from every machine but this one; acting needs it from everywhere. A wrong token is refused
   even where none is needed. It travels in `Authorization: Bearer`, which no other page can make a browser send; links
   that a browser follows by itself (videos) carry a key made from it, good for that one path.
4. Answers may be shown by no other page, run nothing that is not in the package, and are kept in no cache.

What is in the package (the page itself) holds no data; it is given to everybody, with status 401 where the token is
still to come.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import secrets
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any
from urllib.parse import parse_qs

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

READING = ("GET", "HEAD")
DATA = "/api/"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; media-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'"
)
HEADERS = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), microphone=(), geolocation=()"),
    (b"cache-control", b"no-store"),
)


class Guard:
    """An ASGI application around another. `names`: host names, beside addresses and localhost, that are ours."""

    def __init__(self, app: App, token: str, names: Iterable[str] = ()) -> None:
        self._app = app
        self._token = token
        self._names = {"localhost", *(name.lower() for name in names)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # no web sockets here
            return

        async def send_guarded(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *HEADERS]
            await send(message)

        refused = self._refusal(scope)
        if refused is None:
            scope["state"] = {**scope.get("state", {}), "stranger": self.token_of(scope) is None and not is_here(scope)}
            await self._app(scope, receive, send_guarded)
        else:
            await _answer(send_guarded, *refused)

    def token_of(self, scope: Scope) -> str | None:
        """As the request gives it, right or wrong."""
        scheme, _, token = _header(scope, b"authorization").partition(" ")
        if scheme.lower() == "bearer":
            return token.strip()
        given = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("token")
        return given[0] if given and scope["method"] in READING else None

    def key_for(self, path: str) -> str:
        return key_for(self._token, path)

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        """-> (status, why)"""
        host = _header(scope, b"host")
        if not self._is_ours(host):
            return 421, "this name is not the dashboard's; use its address, or give the name with --host"
        token, reading, data = self.token_of(scope), scope["method"] in READING, scope["path"].startswith(DATA)
        if token is not None and not same(token, self._token):
            return 403, "wrong token; the right one is in the link that 'spreeze dashboard' printed at its start"
        if (data or not reading) and not self._is_own_page(scope, host):
            return 403, "another page asked for this"
        if not reading and token is None:
            return 401, "this needs the token that 'spreeze dashboard' printed at its start"
        if data and token is None and not is_here(scope) and not self._has_key(scope):
            return 401, "from another machine everything needs the token that 'spreeze dashboard' printed at its start"
        return None

    def _is_ours(self, host: str) -> bool:
        name = host_name(host)
        return name.lower() in self._names or _address(name) is not None

    def _is_own_page(self, scope: Scope, host: str) -> bool:
        """True too for programs that are no browser: they send none of these headers."""
        origin, site = _header(scope, b"origin"), _header(scope, b"sec-fetch-site")
        return (not origin or origin in (f"http://{host}", f"https://{host}")) and site in ("", "same-origin", "none")

    def _has_key(self, scope: Scope) -> bool:
        given = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("key", [""])[0]
        return scope["method"] in READING and same(given, self.key_for(scope["path"]))


def make_token() -> str:
    return secrets.token_urlsafe(24)


def key_for(token: str, path: str) -> str:
    return hmac.new(token.encode(), path.encode(), hashlib.sha256).hexdigest()


def same(given: str, right: str) -> bool:
    """Takes as long for any wrong text."""
    return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), right.encode())


def is_here(scope: Scope) -> bool:
    """The request came from this machine, by the address of its connection and no header's word."""
    client = scope.get("client")
    address = _address(client[0]) if client else None
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
        address = address.ipv4_mapped
    return address is not None and address.is_loopback


def host_name(host: str) -> str:
    """'127.0.0.1:8420' -> '127.0.0.1', '[::1]:8420' -> '::1'"""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.rpartition(":")[0] if ":" in host else host


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        return None


def _header(scope: Scope, name: bytes) -> str:
    return next((value.decode("latin-1") for key, value in scope["headers"] if key == name), "")


async def _answer(send: Send, status: int, why: str) -> None:
    body = why.encode()
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
