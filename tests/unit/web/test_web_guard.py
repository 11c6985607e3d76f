"""Who may read and who may act, by every rule of web/guard.py, against the real application."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="the dashboard's tests need the extra 'web'")
pytest.importorskip("httpx", reason="starlette's test client needs httpx")

from starlette.testclient import TestClient
from web_run_folders import make_run

from spreeze.web.app import make_app
from spreeze.web.folder import find_places

TOKEN = "the-right-one"
GOOD = {"authorization": f"Bearer {TOKEN}"}
HERE, ELSEWHERE = ("127.0.0.1", 5000), ("192.168.1.7", 5000)


@pytest.fixture
def served(tmp_path: Path) -> Path:
    video = make_run(tmp_path / "runs" / "run") / "video"
    video.mkdir()
    (video / "film.mp4").write_bytes(bytes(range(256)))
    return tmp_path / "runs"


def client_from(served: Path, address: tuple[str, int] = HERE, base: str = "http://127.0.0.1:8420") -> TestClient:
    return TestClient(make_app(served, TOKEN, ("desk.example",)), base, client=address)


def action(served: Path) -> str:
    return f"/api/runs/{find_places(served)[0].id}/ask"


def test_this_machine_reads_without_the_token(served: Path) -> None:
    for address in (HERE, ("::1", 5000), ("::ffff:127.0.0.1", 5000)):
        client = client_from(served, address)
        assert client.get("/").status_code == 200
        assert client.get("/api/runs").status_code == 200


def test_every_action_needs_the_right_token(served: Path) -> None:
    client, path = client_from(served), action(served)
    request = served / "run" / "requests" / "stop"
    wrong = ("", "x", TOKEN[:-1], TOKEN + "x", "\udcff", TOKEN.upper())
    assert client.post(path, json={"what": "stop"}).status_code == 401
    for token in wrong:
        headers = {"authorization": f"Bearer {token}".encode("utf-8", "surrogateescape")}
        assert client.post(path, json={"what": "stop"}, headers=headers).status_code == 403, token
    assert client.post(f"{path}?token={TOKEN}", json={"what": "stop"}).status_code == 401, "a link must not act"
    assert not request.exists()
    assert client.post(path, json={"what": "stop"}, headers=GOOD).status_code == 200
    assert request.read_text() == "the dashboard"


def test_a_wrong_token_is_refused_where_none_is_needed(served: Path) -> None:
    client = client_from(served)
    assert client.get("/api/runs", headers={"authorization": "Bearer no"}).status_code == 403
    assert client.get("/api/token", headers={"authorization": "Bearer no"}).status_code == 403
    assert client.get("/api/token").status_code == 401
    assert client.get("/api/token", headers=GOOD).status_code == 204


def test_from_elsewhere_everything_needs_the_token(served: Path) -> None:
    client = client_from(served, ELSEWHERE)
    run = find_places(served)[0].id
    for path in ("/", "/api/runs", f"/api/runs/{run}", f"/api/runs/{run}/documents", f"/api/runs/{run}/frame"):
        assert client.get(path).status_code == 401, path
        assert "run" not in client.get(path).headers.get("x-frame-stamp", "")
        assert client.get(path, headers={**GOOD, "x-forwarded-for": "127.0.0.1"}).status_code < 400, path
        assert client.get(path, headers={"x-forwarded-for": "127.0.0.1"}).status_code == 401, path
    assert client.get(f"/api/runs?token={TOKEN}").status_code == 200
    assert client.get("/api/runs?token=x").status_code == 403


def test_a_video_comes_by_its_own_key_alone(served: Path) -> None:
    client, run = client_from(served, ELSEWHERE), find_places(served)[0].id
    video = client.get(f"/api/runs/{run}", headers=GOOD).json()["videos"][0]
    assert client.get(video["url"]).content == bytes(range(256))
    assert client.get(video["url"].partition("?")[0]).status_code == 401
    assert client.get(video["url"][:-1] + "x").status_code == 401
    key = video["url"].partition("?")[2]
    assert client.get(f"/api/runs?{key}").status_code == 401
    assert client.get(video["url"], headers={"range": "bytes=10-19"}).content == bytes(range(10, 20))


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "", "localhost.evil.example:8420", "[evil"])
def test_a_name_bent_to_this_machine_gets_nothing(served: Path, host: str) -> None:
    client = client_from(served)
    for path in ("/", "/static/app.js", "/api/runs"):
        assert client.get(path, headers={"host": host}).status_code == 421
    assert client.post(action(served), json={"what": "stop"}, headers={**GOOD, "host": host}).status_code == 421


@pytest.mark.parametrize("host", ["localhost:1", "127.0.0.1", "[::1]:8420", "192.168.1.7:8420", "DESK.example:8420"])
def test_own_names_and_addresses_are_fine(served: Path, host: str) -> None:
    assert client_from(served).get("/api/runs", headers={"host": host}).status_code == 200


def test_another_page_reaches_neither_data_nor_actions(served: Path) -> None:
    client, path = client_from(served), action(served)
    for headers in ({"origin": "http://evil.example"}, {"origin": "http://127.0.0.1:9999"}, {"origin": "null"},
                    {"sec-fetch-site": "cross-site"}, {"sec-fetch-site": "same-site"}):  # fmt: skip
        assert client.get("/api/runs", headers=headers).status_code == 403
        assert client.post(path, json={"what": "stop"}, headers={**GOOD, **headers}).status_code == 403
    own = {"origin": "http://127.0.0.1:8420", "sec-fetch-site": "same-origin"}
    assert client.post(path, json={"what": "checkpoint"}, headers={**GOOD, **own}).status_code == 200
    assert client.get("/", headers={"sec-fetch-site": "cross-site"}).status_code == 200, "a link to the page is fine"


def test_every_answer_forbids_strange_code(served: Path) -> None:
    client = client_from(served)
    for path in ("/", "/static/app.js", "/api/runs", "/nowhere", "/api/runs/none"):
        headers = client.get(path).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert "access-control-allow-origin" not in headers
