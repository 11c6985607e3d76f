"""What the server tells of runs: right figures, increments, and patience with whatever lies in a folder."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="the dashboard's tests need the extra 'web'")
pytest.importorskip("httpx", reason="starlette's test client needs httpx")

from starlette.testclient import TestClient
from web_run_folders import append, evaluation_line, make_run, metrics_line, write

from spreeze.watching.live import LiveFiles
from spreeze.web.app import make_app, parse_range
from spreeze.web.run import SILENT_AFTER_S

GOOD = {"authorization": "Bearer right"}


class Served:
    """The server over one folder, asked as the page asks it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.client = TestClient(make_app(folder, "right"), "http://localhost", client=("127.0.0.1", 1))

    def runs(self) -> dict[str, dict[str, Any]]:
        answer = self.client.get("/api/runs")
        assert answer.status_code == 200
        return {run["name"]: run for run in answer.json()["runs"]}

    def id(self, name: str) -> str:
        return self.runs()[name]["id"]

    def detail(self, name: str, **cursors: Any) -> dict[str, Any]:
        answer = self.client.get(f"/api/runs/{self.id(name)}", params=cursors)
        assert answer.status_code == 200
        return answer.json()


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Served:
    monkeypatch.setattr("spreeze.web.app.READ_FOR_S", 60.0)  # a busy machine's pause must not cut an answer
    return Served(tmp_path / "runs")


def test_the_list(served: Served) -> None:
    run = make_run(served.folder / "one", env="HalfCheetah-v5", algo="td3", seed=3, until_return=9000.0)
    found = served.runs()["one"]
    assert (found["env"], found["algo"], found["seed"], found["target"]) == ("HalfCheetah-v5", "td3", 3, 9000.0)
    assert found["state"] == "running"
    assert found["figures"]["env_steps"] == 500
    write(run / "summary.json", {"status": "solved", "reason": "an evaluation reached it", "sample_hz": 7.5})
    found = served.runs()["one"]
    assert (found["state"], found["reason"]) == ("solved", "an evaluation reached it")
    assert found["steady"] == {"sample_hz": 7.5}


def test_a_run_without_figures_for_a_while_is_silent(served: Served) -> None:
    run = make_run(served.folder / "one")
    old = time.time() - SILENT_AFTER_S - 60
    for name in ("metrics.jsonl", "config.json"):
        os.utime(run / name, (old, old))
    assert served.runs()["one"]["state"] == "silent"
    append(run / "metrics.jsonl", metrics_line(6))
    assert served.runs()["one"]["state"] == "running"


def test_a_run_that_was_resumed_after_its_end_is_running(served: Served) -> None:
    run = make_run(served.folder / "one")
    write(run / "summary.json", {"status": "stopped", "reason": "SIGINT was received"})
    past = time.time() - 100
    os.utime(run / "summary.json", (past, past))
    assert served.runs()["one"]["state"] == "running"


def test_a_run_in_detail(served: Served) -> None:
    run = make_run(served.folder / "one")
    events = [{"wall_s": 1.0, "kind": "start", "reason": "process 7", "role": "learner"},
              {"wall_s": 2.0, "kind": "restart", "reason": "it was silent", "role": "sampler-0"}]  # fmt: skip
    append(run / "events.jsonl", *events)
    found = served.detail("one")
    assert found["complete"]
    assert found["metrics"]["points"]["sample_hz"] == [101.0, 102.0, 103.0, 104.0, 105.0]
    assert found["metrics"]["points"]["raw_hz"] == [None, None, None, None, None]  # a run of an older version
    assert found["evaluations"]["points"]["return_mean"] == [-999.0, -998.0, -997.0, -996.0, -995.0]
    assert found["best_return"] == -995.0
    assert found["roles"] == [
        {"name": "learner", "state": "ok", "restarts": 0, "event": events[0]},
        {"name": "sampler-0", "state": "silent", "restarts": 2, "event": events[1]},
    ]
    assert [event["number"] for event in found["events"]] == [1, 2]


def test_the_raw_rate_is_a_curve(served: Served) -> None:
    run = make_run(served.folder / "one", lines=1)
    append(run / "metrics.jsonl", {**metrics_line(2), "raw_hz": 250.0}, {**metrics_line(3), "raw_hz": None})
    assert served.detail("one")["metrics"]["points"]["raw_hz"] == [None, 250.0, None]


def test_increments(served: Served) -> None:
    run = make_run(served.folder / "one")
    first = served.detail("one")
    append(run / "metrics.jsonl", metrics_line(6))
    append(run / "eval.jsonl", evaluation_line(6), evaluation_line(7))
    cursors = {"metrics": first["metrics"]["cursor"], "evaluations": first["evaluations"]["cursor"], "events": 0}
    second = served.detail("one", **cursors)
    assert second["metrics"]["keep"] == 5
    assert second["metrics"]["points"]["env_steps"] == [600]
    assert second["evaluations"]["points"]["return_mean"] == [-994.0, -993.0]
    returns = served.client.get("/api/returns", params={"run": f"{served.id('one')}:{cursors['evaluations']}"}).json()
    assert returns[0]["points"]["return_mean"] == [-994.0, -993.0]


def test_the_list_goes_on_while_nobody_looks_at_the_run(served: Served) -> None:
    run = make_run(served.folder / "one")
    assert served.detail("one")["run"]["figures"]["env_steps"] == 500
    append(run / "metrics.jsonl", metrics_line(6))
    assert served.runs()["one"]["figures"]["env_steps"] == 600


def test_a_file_that_was_cut_is_read_anew(served: Served) -> None:
    run = make_run(served.folder / "one")
    cursor = served.detail("one")["metrics"]["cursor"]
    (run / "metrics.jsonl").write_text(json.dumps(metrics_line(1)) + "\n")
    found = served.detail("one", metrics=cursor)["metrics"]
    assert (found["keep"], found["points"]["env_steps"]) == (0, [100])


def test_seconds_that_begin_anew_go_on_in_the_curve(served: Served) -> None:
    run = make_run(served.folder / "one", lines=20)
    append(run / "metrics.jsonl", metrics_line(1), metrics_line(2))
    assert served.detail("one")["metrics"]["points"]["wall_s"][-3:] == [20.0, 21.0, 22.0]


def test_broken_lines_and_half_lines(served: Served) -> None:
    run = make_run(served.folder / "one", lines=1)
    with open(run / "metrics.jsonl", "ab") as file:
        file.write(b'\x00\xff{"wall_s": \n[1]\n{"wall_s": NaN, "sample_hz": 1e999, "roles": [1], "restarts": 3}\n')
        file.write(b'{"wall_s": 9')
    found = served.detail("one")
    assert found["lines_broken"] == 2
    assert found["metrics"]["points"]["wall_s"] == [1.0, None]
    assert found["roles"] == []


HOSTILE = [
    b"\x00\xff\xfe", b"[]", b"7", b'"text"', b"{", b"[" * 100_000,
    b'{"env": {"a": 1}, "algo": [], "seed": 1e999, "auto": 7, "spec": []}',
    b'{"env": "<img src=x onerror=alert(1)>", "algo": "\\ud800", "auto": {"a": {"value": NaN}}, "plan": {"places": 3}}',
    b'{"env": ' + b'{"a":' * 500 + b"1" + b"}" * 500 + b"}", b'{"env": "' + b"x" * 900_000 + b'"}',
    b'{"seed": ' + b"9" * 5000 + b"}", b'{"seed": ' + b"9" * 4000 + b"}",
]  # fmt: skip


@pytest.mark.parametrize("content", HOSTILE, ids=range(len(HOSTILE)))
def test_whatever_lies_in_a_folder_is_shown_or_left_out(served: Served, content: bytes) -> None:
    documents, lines = ("config.json", "machine.json", "summary.json", "live/state.json"), ("metrics", "eval", "events")
    for name in (*documents, *(f"{name}.jsonl" for name in lines)):
        path = served.folder / "bad" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content + b"\n")
    make_run(served.folder / "good")
    assert served.detail("good")["metrics"]["points"]["env_steps"][-1] == 500
    run = served.id("bad")
    for path in (f"/api/runs/{run}", f"/api/runs/{run}/documents", f"/api/returns?run={run}:"):
        answer = served.client.get(path)
        assert answer.status_code == 200
        assert len(answer.content) < 200_000
        answer.json()


def test_hostile_names_are_names(served: Served) -> None:
    names = ["<script>alert(1)</script>", "a\nb", "'\"&", "x..%2f..%2fetc", "\u202egpj.exe", "x" * 200]
    for name in names:
        make_run(served.folder / name, lines=1)
    os.mkdir(os.fsencode(served.folder) + b"/\xff\xfe")
    (Path(os.fsdecode(os.fsencode(served.folder) + b"/\xff\xfe")) / "config.json").write_text("{}")
    found = served.runs()
    assert found.keys() >= {name for name in names if "\u202e" not in name}
    assert len(found) == len(names) + 1
    assert len({run["id"] for run in found.values()}) == len(found)


@pytest.mark.parametrize("path", [
    "/static/../app.py", "/static/..%2f..%2fapp.py", "/static//etc/passwd", "/api/runs/..", "/api/runs/..%2f..%2fetc",
    "/api/runs/{id}/videos/..%2f..%2fconfig.json", "/api/runs/{id}/videos/config.json", "/api/runs/one",
    "/%2e%2e/etc/passwd",
])  # fmt: skip
def test_no_path_of_a_request_reaches_the_disk(served: Served, path: str) -> None:
    make_run(served.folder / "one")
    answer = served.client.get(path.format(id=served.id("one")))
    assert answer.status_code == 404
    assert b"spreeze" not in answer.content


def test_videos(served: Served, tmp_path: Path) -> None:
    run = make_run(served.folder / "one")
    (run / "video").mkdir()
    (tmp_path / "secret.mp4").write_bytes(b"secret")
    (run / "video" / "stolen.mp4").symlink_to(tmp_path / "secret.mp4")
    for name in ("a.mp4", "b.gif", "c.txt", "d.writing.mp4", ".e.mp4"):
        (run / "video" / name).write_bytes(b"0123456789")
    videos = {video["name"]: video for video in served.detail("one")["videos"]}
    assert videos.keys() == {"a.mp4", "b.gif"}
    answer = served.client.get(videos["a.mp4"]["url"], headers={"range": "bytes=2-4"})
    assert (answer.status_code, answer.content, answer.headers["content-range"]) == (206, b"234", "bytes 2-4/10")
    assert served.client.get(videos["a.mp4"]["url"], headers={"range": "bytes=50-"}).status_code == 416
    assert served.client.get(videos["b.gif"]["url"]).headers["content-type"] == "image/gif"


@pytest.mark.parametrize(
    ("asked", "part"),
    [("", (0, 10)), ("bytes=0-", (0, 10)), ("bytes=3-5", (3, 6)), ("bytes=-4", (6, 10)), ("bytes=-99", (0, 10)),
     ("bytes=8-99", (8, 10)), ("bytes=-", (0, 10)), ("bytes=1-2,5-6", (0, 10)), ("lines=1-2", (0, 10)),
     ("bytes=-0", (10, 10))],
)  # fmt: skip
def test_ranges(asked: str, part: tuple[int, int]) -> None:
    assert parse_range(asked, 10) == part


def test_the_live_picture(served: Served) -> None:
    run = make_run(served.folder / "one")
    assert served.detail("one")["live"] == {"drawn": False, "stamp": 0, "state": {}}
    live = LiveFiles(run)
    live.write(b"first", {"state": "playing", "episode": 1})
    path = f"/api/runs/{served.id('one')}/frame"
    first = served.client.get(path)
    assert (first.content, first.headers["content-type"]) == (b"first", "image/jpeg")
    shown = served.detail("one")["live"]
    assert shown["drawn"]
    assert shown["state"]["episode"] == 1
    live.write(b"second", {"state": "playing", "episode": 2})
    assert served.client.get(path, params={"after": first.headers["x-frame-stamp"]}).content == b"second"


def test_what_a_run_may_be_asked(served: Served, tmp_path: Path) -> None:
    run = make_run(served.folder / "one")
    path = f"/api/runs/{served.id('one')}/ask"

    def asked(body: Any) -> int:
        return served.client.post(path, content=body, headers=GOOD).status_code

    for what in ("checkpoint", "stop", "picture-on", "picture-off"):
        assert asked(json.dumps({"what": what})) == 200
        assert (run / "requests" / what).read_text() == "the dashboard"
    for bad in (b"", b"[]", b"{}", b'{"what": 7}', b'{"what": "../../x"}', b'{"what": "st"}', b"x" * 2000, b"[" * 900):
        assert asked(bad) == 400, bad
    assert served.client.get(path, headers=GOOD).status_code == 405
    for file in (run / "requests").iterdir():
        file.unlink()
    (run / "requests").rmdir()
    (run / "requests").symlink_to(tmp_path)
    assert asked(b'{"what": "stop"}') == 400
    assert not (tmp_path / "stop").exists(), "a link in a run's folder led out of it"


def test_reading_a_long_run_is_cut_into_pieces(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    make_run(served.folder / "one", lines=3000)
    monkeypatch.setattr("spreeze.web.app.READ_FOR_S", -1.0)
    found = served.detail("one")
    assert not found["complete"]
    turns = 0
    while not found["complete"] and turns < 100:
        found, turns = served.detail("one"), turns + 1
    assert found["metrics"]["points"]["env_steps"][-1] == 300_000
    assert len(found["metrics"]["points"]["env_steps"]) <= 1000
