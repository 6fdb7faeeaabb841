"""Who may talk to the studio: one browser on this machine, by a secret that only the terminal has shown.

The one rule: a request is refused before anything looks at it. In this order:
1. `Host` is 127.0.0.1 or localhost with the port, so that no other name can be made to point here.
2. The address that was printed holds a random token. It is exchanged for a cookie that scripts cannot read and that no
   other site's request carries; without one of the two there is no answer. Both end with the process.
3. Whatever changes something must come from a page of this origin (`Origin`) and carry a token that only such a page
   knows (`changing` checks it in the form).
4. A body is no longer than its page allows.
Every answer forbids inline scripts and styles, framing, sniffing, and anything from elsewhere.
"""

import dataclasses
import hmac
import secrets
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MOST_UPLOADED = 2**29
"""Bytes of a table that may be dropped on the page; larger ones are opened by their path, which copies nothing."""
MOST_POSTED = 2**22
"""Bytes of any other form."""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "frame-src 'self'; frame-ancestors 'none'; base-uri 'none'"
)
"""For pages of the studio: nothing inline, nothing from elsewhere."""
REPORT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'self'; base-uri 'none'; sandbox"
"""For reports, which bring their own style and run nothing; a page of the studio may frame them."""
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # "no-referrer" would make browsers hide the Origin of our own forms
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
    "Cache-Control": "no-store",
}
_UNSAFE = ("POST", "PUT", "PATCH", "DELETE")
_OPENED = """<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>understudy studio</title>
<link rel="icon" href="/static/icon.svg">
<meta http-equiv="refresh" content="0;url=/"></head><body><p><a href="/">Open the studio</a></p></body></html>"""


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class Session:
    """The secrets of one process.

    Attributes:
        token: In the first address.
        cookie: In the browser, from then on.
        csrf: In every form.
        port: Where the studio answers.
    """

    token: str
    cookie: str
    csrf: str
    port: int

    @classmethod
    def new(cls, port: int) -> "Session":
        token, cookie, csrf = (secrets.token_urlsafe(32) for _ in range(3))
        return cls(token=token, cookie=cookie, csrf=csrf, port=port)

    @property
    def hosts(self) -> tuple[str, str]:
        return f"127.0.0.1:{self.port}", f"localhost:{self.port}"

    @property
    def cookie_name(self) -> str:
        """Cookies are shared by all ports of a host, so the port is in the name."""
        return f"understudy-{self.port}"

    @property
    def address(self) -> str:
        """What to open first."""
        return f"http://127.0.0.1:{self.port}/?token={self.token}"

    def allows_change(self, given: object) -> bool:
        """Whether a form carries the token that only our pages know."""
        return isinstance(given, str) and same(given, self.csrf)


def same(given: str, secret: str) -> bool:
    """Whether two texts are equal, in a time that does not tell where they differ."""
    return hmac.compare_digest(given.encode("utf-8", "replace"), secret.encode())


class Gate:
    """The one door: every request passes it or is refused."""

    def __init__(self, app: ASGIApp, *, session: Session):
        self.app, self.session = app, session

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":  # there are no web sockets
            await send({"type": "websocket.close", "code": 1008})
            return
        answer = self._answer(scope)
        app = self.app if answer is None else answer
        await app(scope, _limited(receive, scope), _with_headers(send))

    def _answer(self, scope: Scope) -> Response | None:
        """The answer to a request that may not pass; None lets it pass."""
        headers = Headers(scope=scope)
        if headers.get("host", "") not in self.session.hosts or len(headers.getlist("host")) != 1:
            return PlainTextResponse("This is not the address of the studio.", 421)
        if scope["method"] not in ("GET", "HEAD", *_UNSAFE):
            return PlainTextResponse("The studio does not know this method.", 405)
        if scope["method"] in _UNSAFE and headers.get("origin") != f"http://{headers['host']}":
            return PlainTextResponse("Changes are made from the studio's own pages alone.", 403)
        if not self._knows(headers):
            return self._exchanged(scope)
        length = headers.get("content-length", "0")
        if not length.isdigit() or int(length) > most_bytes(scope):
            return PlainTextResponse(too_large(scope), 413)
        return None

    def _knows(self, headers: Headers) -> bool:
        """Whether a request carries the cookie."""
        try:
            found = SimpleCookie(headers.get("cookie", "")).get(self.session.cookie_name)
        except CookieError:
            return False
        return found is not None and same(found.value, self.session.cookie)

    def _exchanged(self, scope: Scope) -> Response:
        """The cookie for the token of the first address.

        The answer is a page that leads on and no redirection: a browser that came from elsewhere would not send a
        strict cookie along with one.
        """
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        if scope["method"] != "GET" or scope["path"] != "/" or not same(given, self.session.token):
            return PlainTextResponse("Open the studio by the address that it printed when it was started.", 403)
        answer = HTMLResponse(_OPENED)
        answer.set_cookie(self.session.cookie_name, self.session.cookie, httponly=True, samesite="strict", path="/")
        return answer


def most_bytes(scope: Scope) -> int:
    """How long the body of a request may be; paths that take a file end in /upload."""
    return MOST_UPLOADED + MOST_POSTED if scope["path"].endswith("/upload") else MOST_POSTED


def too_large(scope: Scope) -> str:
    """Why a body is refused."""
    if scope["path"].endswith("/upload"):
        return (
            f"A file of at most {MOST_UPLOADED >> 20} MiB can be dropped here. "
            "Put it into the studio's folder and open it by its path."
        )
    return f"A form of at most {MOST_POSTED >> 20} MiB is read."


def _limited(receive: Receive, scope: Scope) -> Receive:
    """The body, cut off with an error where it is longer than its page allows, whatever its header says."""
    most, seen = most_bytes(scope), 0

    async def counted() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > most:
            raise HTTPException(413, too_large(scope))
        return message

    return counted


def _with_headers(send: Send) -> Send:
    """Adds what every answer says, unless a page says it itself."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return sending
