"""The gate of the studio: every way in that is not its own page on this machine is refused."""

import socket

import pytest
from starlette.routing import Route

from browsing import CANARY, HOME, PORT, Visitor, words, write_people
from understudy.studio.app import ROUTES, make
from understudy.studio.folders import Folders
from understudy.studio.pages import reading
from understudy.studio.security import MOST_POSTED, MOST_UPLOADED, POLICY, Session
from understudy.studio.server import StudioError, bound

POSTS = [route.path for route in ROUTES if isinstance(route, Route) and "POST" in (route.methods or ())]


@pytest.fixture
def visitor(tmp_path):
    write_people(tmp_path / "people.csv")
    return Visitor(tmp_path)


@pytest.fixture
def stranger(tmp_path):
    return Visitor(tmp_path, known=False)


def test_it_is_bound_to_this_machine_alone():
    with bound(0) as listening:
        assert listening.getsockname()[0] == "127.0.0.1"
        assert listening.family == socket.AF_INET


def test_a_port_that_is_taken_is_refused_in_one_sentence():
    with bound(0) as listening:
        listening.listen()
        with pytest.raises(StudioError, match="--port"):
            bound(listening.getsockname()[1])


HOSTS = ("evil.example", f"evil.example:{PORT}", "127.0.0.1", f"127.0.0.1:{PORT + 1}", f"[::1]:{PORT}")
HOSTS += (f"localhost.evil.example:{PORT}", f"127.0.0.1:{PORT}.evil.example", f"0.0.0.0:{PORT}", "")


@pytest.mark.parametrize("host", HOSTS)
def test_another_host_is_refused_even_with_the_cookie(visitor, host):
    assert visitor.get("/", headers={"host": host}).status_code == 421


def test_both_names_of_this_machine_are_answered(visitor):
    assert [
        visitor.get("/", headers={"host": f"{name}:{PORT}"}).status_code for name in ("127.0.0.1", "localhost")
    ] == [
        200,
        200,
    ]


@pytest.mark.parametrize("path", ["/", "/open", "/compare", "/static/studio.css", "/p/people/plan", "/nowhere"])
def test_without_the_cookie_there_is_no_answer(stranger, path):
    answer = stranger.get(path)
    assert (answer.status_code, answer.headers["content-type"]) == (403, "text/plain; charset=utf-8")


@pytest.mark.parametrize("token", ["", "x", "token", "é", "a" * 5000])
def test_a_wrong_token_is_refused(stranger, token):
    assert stranger.get("/", params={"token": token}).status_code == 403


def test_the_token_opens_the_first_page_alone(stranger):
    token = {"token": stranger.session.token}
    assert stranger.get("/open", params=token).status_code == 403
    assert stranger.ask("POST", "/open", params=token).status_code == 403
    assert stranger.get("/", params=token).status_code == 200


def test_the_cookie_is_hidden_from_scripts_and_from_other_sites(stranger):
    given = stranger.get("/", params={"token": stranger.session.token}).headers["set-cookie"]
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= {part.strip() for part in given.split(";")}
    assert (
        "Expires" not in given and "Max-Age" not in given
    )  # it ends with the browser, and the secret with the process
    assert stranger.session.token not in given


@pytest.mark.parametrize("cookie", ["", "x", "understudy-8000", 'understudy-8000="', "understudy-8000=" + "a" * 43])
def test_a_wrong_cookie_is_refused(stranger, cookie):
    assert stranger.get("/", headers={"cookie": cookie}).status_code == 403


def test_a_session_ends_with_its_process(tmp_path):
    before, after = Visitor(tmp_path), Visitor(tmp_path)
    after.cookies = before.cookies
    assert before.get("/").status_code == 200
    assert after.get("/").status_code == 403
    assert len({Session.new(PORT).token for _ in range(50)}) == 50


@pytest.mark.parametrize(
    "origin",
    [None, "null", "http://evil.example", f"https://127.0.0.1:{PORT}", "http://127.0.0.1", f"{HOME}.evil.example"],
)
@pytest.mark.parametrize("path", ["/open", "/open/upload"])
def test_a_change_from_another_origin_is_refused(visitor, origin, path):
    data = {"csrf": visitor.session.csrf, "path": "people.csv"}
    assert visitor.ask("POST", path, data=data, headers={"origin": origin}).status_code == 403
    assert not visitor.studio.projects.all()


@pytest.mark.parametrize("path", POSTS)
@pytest.mark.parametrize("token", [None, "", "x"])
def test_every_change_needs_the_token_of_our_own_pages(visitor, path, token):
    address = path.format(project="people", fit="a-fit")
    data = {"path": "people.csv", "confirmed": "yes"} | ({} if token is None else {"csrf": token})
    answer = visitor.ask("POST", address, data=data)
    assert answer.status_code == 403 and "Load the page again" in words(answer)
    assert not visitor.studio.projects.all()


def test_there_is_something_to_check():
    assert len(POSTS) >= 12


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"])
def test_other_methods_change_nothing(visitor, method):
    assert visitor.ask(method, "/open", headers={"origin": HOME}).status_code == 405


def test_a_page_that_changes_nothing_cannot_be_posted_to_and_the_other_way_round(visitor):
    assert visitor.post("/compare").status_code == 405
    assert visitor.get("/open/upload").status_code == 405


@pytest.mark.parametrize("path", ["/", "/open", "/compare", "/nowhere", "/static/studio.css", "/open?in=nowhere"])
def test_every_answer_forbids_what_is_inline_or_from_elsewhere(visitor, path):
    headers = visitor.get(path).headers
    assert headers["content-security-policy"] == POLICY
    assert "unsafe" not in POLICY and "default-src 'none'" in POLICY and "frame-ancestors 'none'" in POLICY
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"
    assert headers["referrer-policy"] == "same-origin"
    assert "access-control-allow-origin" not in headers


def test_a_refusal_has_the_same_headers(stranger):
    assert stranger.get("/").headers["content-security-policy"] == POLICY


def test_a_form_that_is_too_long_is_refused_by_what_it_says_and_by_what_it_is(visitor):
    said = {"origin": HOME, "content-length": str(MOST_POSTED + 1)}
    assert visitor.ask("POST", "/open", headers=said, content=b"x").status_code == 413

    async def endless():
        yield b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.csv"\r\n\r\n'
        for _ in range(MOST_POSTED // 2**20 + 2):
            yield b"x" * 2**20

    kind = {"origin": HOME, "content-type": "multipart/form-data; boundary=x"}
    assert visitor.ask("POST", "/open", headers=kind, content=endless()).status_code == 413


def test_a_file_that_is_too_large_is_refused_before_it_is_received(visitor):
    said = {"origin": HOME, "content-length": str(MOST_UPLOADED + MOST_POSTED + 1)}
    answer = visitor.ask("POST", "/open/upload", headers=said, content=b"x")
    assert answer.status_code == 413 and "by its path" in answer.text


@pytest.mark.parametrize("length", ["-1", "x", "1e9", "٣"])
def test_a_length_that_is_none_is_refused(visitor, length):
    answer = visitor.ask("POST", "/open", headers=[("origin", HOME), ("content-length", length.encode())], content=b"")
    assert answer.status_code == 413


def test_an_unknown_error_shows_its_type_and_nothing_else(tmp_path):
    visitor = Visitor(tmp_path)

    def broken(request):
        raise KeyError(CANARY)

    visitor.app.router.routes.append(Route("/broken", reading(broken)))
    answer = visitor.get("/broken")
    assert answer.status_code == 500 and "unexpected KeyError".lower() in words(answer).lower()
    assert CANARY not in answer.text


def test_web_sockets_are_closed(tmp_path):
    import asyncio

    session, sent = Session.new(PORT), []

    async def send(message):
        sent.append(message)

    async def receive():
        return {"type": "websocket.connect"}

    scope = {"type": "websocket", "path": "/", "headers": [], "query_string": b""}
    asyncio.run(make(Folders.of(tmp_path), session)(scope, receive, send))
    assert [each["type"] for each in sent] == ["websocket.close"]
