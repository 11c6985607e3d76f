"""A report against figures worked out by hand, and over folders in every state that a run can leave."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from folders import RETURNS, make_run, write

from spreeze import cli
from spreeze.errors import ConfigError, SpreezeError
from spreeze.report.document import write_report
from spreeze.report.groups import group_runs
from spreeze.report.page import TITLES, plain
from spreeze.report.runs import NOT_ENDED, read_run
from spreeze.report.solving import solved_at_s
from spreeze.report.spread import spread_of
from spreeze.thresholds import parse_thresholds

SUMMARY = {
    "status": "solved", "wall_s": 8.0, "env_steps": 800, "updates": 80, "sample_hz": 111.0, "update_hz": 11.0,
    "update_frames_hz": 704.0, "replay_ratio": 6.3, "restarts": {"learner": 0, "sampler-0": 2}, "lost_rows": 0,
}  # fmt: skip


def report(tmp_path: Path, *runs: Path, **more: Any) -> dict[str, Any]:
    asked: dict[str, Any] = {"title": None, "thresholds": [], "plots": False, **more}
    return write_report([str(run) for run in runs], str(tmp_path / "report"), **asked)


def test_a_run_s_figures_are_those_of_its_files(tmp_path: Path) -> None:
    run = read_run(str(make_run(tmp_path / "a", summary=SUMMARY)))
    assert (run.env, run.algo, run.seed, run.status, run.until_return) == ("Pendulum-v1", "sac", "0", "solved", -200.0)
    assert (run.best_return, run.final_return, run.env_steps, run.restarts) == (-150.0, -150.0, 800, 2)
    assert run.steady == {"sample_hz": 111.0, "update_hz": 11.0, "update_frames_hz": 704.0, "replay_ratio": 6.3}
    assert run.settings == {"batch_size": "auto", "gamma": "0.99", "hidden": "256,256", "replay_ratio": "free"}
    assert run.machine == "AMD EPYC, 2 cores"
    assert solved_at_s(run, -200.0) == 6.5  # when the third evaluation had ended
    assert solved_at_s(run, -100.0) is None


def test_seeds_make_a_group_and_settings_tell_groups_apart(tmp_path: Path) -> None:
    runs = [
        make_run(tmp_path / "a", seed=0),
        make_run(tmp_path / "b", seed=1, until_return=None, run_dir="elsewhere"),
        make_run(tmp_path / "c", gamma=0.9),
        make_run(tmp_path / "d", algo="td3"),
        make_run(tmp_path / "e", env="Hopper-v5", batch_size=256, auto={}),
    ]
    groups = group_runs([read_run(str(run)) for run in runs])
    assert [(group.env, group.label, len(group.runs)) for group in groups] == [
        ("Pendulum-v1", "sac, gamma 0.99", 2),
        ("Pendulum-v1", "sac, gamma 0.9", 1),
        ("Pendulum-v1", "td3, gamma 0.99", 1),
        ("Hopper-v5", "sac", 1),
    ]


def test_runs_of_two_machines_are_two_groups(tmp_path: Path) -> None:
    runs = [make_run(tmp_path / name) for name in "ab"]
    write(runs[1] / "machine.json", {"cpu_model": "Xeon", "cores": 16, "gpus": [{"name": "NVIDIA H200"}]})
    labels = [group.label for group in group_runs([read_run(str(run)) for run in runs])]
    assert labels == ["sac, AMD EPYC, 2 cores", "sac, NVIDIA H200, Xeon, 16 cores"]


def test_the_spread_of_two_curves_by_hand() -> None:
    rising = (np.array([0.5, 3.5]), np.array([0.0, 3.0]))  # 0, 1, 2, 3 in four cells of 1 s
    short = (np.array([0.5, 1.2, 1.8]), np.array([10.0, 20.0, 22.0]))  # 10, 21, then it has ended
    spread = spread_of([rising, short], quartiles=False, hold=False, cells=4)
    assert spread is not None
    width = 3.5 / 4
    assert spread.x.tolist() == [width * 0.5, width * 1.5, width * 2.5, width * 3.5]
    assert spread.runs.tolist() == [2, 2, 2, 1]
    np.testing.assert_array_equal(spread.low, spread_of([rising], False, False, 4).low)  # type: ignore[union-attr]
    assert spread.high[0] == 10.0
    held = spread_of([rising, short], quartiles=False, hold=True, cells=4)
    assert held is not None
    assert held.high[3] == 22.0  # its last value
    assert held.runs.tolist() == [2, 2, 2, 1]
    assert held.median[3] == (3.0 + 22.0) / 2


def test_a_spread_of_nothing_and_of_one_point() -> None:
    empty = (np.zeros(0), np.zeros(0))
    assert spread_of([empty], quartiles=False, hold=True) is None
    one = spread_of([(np.array([0.0]), np.array([5.0])), empty], quartiles=False, hold=True, cells=3)
    assert one is not None
    assert one.median.tolist() == [5.0, 5.0, 5.0]
    assert one.runs.tolist() == [1, 0, 0]


def test_five_runs_have_quartiles() -> None:
    curves = [(np.array([1.0, 2.0]), np.array([value, value])) for value in (0.0, 10.0, 20.0, 30.0, 100.0)]
    spread = spread_of(curves, quartiles=True, hold=True, cells=1)
    assert spread is not None
    assert (spread.low[0], spread.median[0], spread.high[0]) == (10.0, 20.0, 30.0)


def test_thresholds() -> None:
    envs = ["Pendulum-v1", "Hopper-v5"]
    assert parse_thresholds(["-200"], envs) == {"Pendulum-v1": -200.0, "Hopper-v5": -200.0}
    assert parse_thresholds(["-1", "Hopper-v5=2500"], envs) == {"Pendulum-v1": -1.0, "Hopper-v5": 2500.0}
    for wrong in ("high", "Hopper-v5=", "nan"):
        with pytest.raises(ConfigError, match="expected a return such as -200"):
            parse_thresholds([wrong], envs)
    with pytest.raises(ConfigError, match="Did you mean 'Hopper-v5'"):
        parse_thresholds(["Hoper-v5=1"], envs)


def test_the_document_and_the_page_carry_the_same_figures(tmp_path: Path) -> None:
    runs = [make_run(tmp_path / "a", seed=0, summary=SUMMARY), make_run(tmp_path / "b", (-900.0, -800.0), seed=1)]
    document = report(tmp_path, *runs, title="Two | seeds")
    (group,) = document["groups"]
    assert (group["solved"], group["threshold"]) == (1, -200.0)
    assert group["time_to_solve_s"] == (6.5, 6.5, 6.5)
    assert group["best_return"] == (-475.0, -800.0, -150.0)
    assert group["sample_hz"] == (105.5, 100.0, 111.0)  # of the run without a summary: the median of its lines
    assert [run["status"] for run in document["runs"]] == ["solved", NOT_ENDED]
    page = (tmp_path / "report" / "report.md").read_text(encoding="utf-8")
    assert page.startswith("# Two \\| seeds\n\n2 runs;")
    assert "| Pendulum-v1 | sac | 2 | 1 of 2 at -200.0 | 6.5 | -475.0 (-800.0 to -150.0) |" in page
    assert json.loads((tmp_path / "report" / "report.json").read_text(encoding="utf-8"))["groups"][0]["solved"] == 1


def test_a_threshold_that_is_given_wins(tmp_path: Path) -> None:
    document = report(tmp_path, make_run(tmp_path / "a"), thresholds=["Pendulum-v1=-800"])
    assert document["groups"][0]["time_to_solve_s"] == (4.5, 4.5, 4.5)


def test_every_plot_is_drawn_and_looks_like_a_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    image = pytest.importorskip("PIL.Image")
    runs = [
        make_run(tmp_path / "a", seed=0, summary=SUMMARY),
        make_run(tmp_path / "b", (-900.0, -800.0), seed=1),
        make_run(tmp_path / "c", (0.0,), env="Hopper-v5"),
        make_run(tmp_path / "_$x^{\u4e2d", algo="td3"),  # a name that matplotlib would hide, or read as a formula
    ]
    document = report(tmp_path, *runs, plots=True)
    assert document["plots"] == [f"{name}.png" for name in TITLES]
    for name in TITLES:
        with image.open(tmp_path / "report" / f"{name}.png") as picture:
            assert picture.width >= 900
            colours = picture.convert("RGB").getcolors(1 << 24)
            assert len(colours) > 20, name
        assert (tmp_path / "report" / f"{name}.pdf").read_bytes().startswith(b"%PDF")


@pytest.mark.parametrize("plots", [True, False])
def test_runs_that_failed_early_have_a_report(tmp_path: Path, plots: bool) -> None:
    if plots:
        pytest.importorskip("matplotlib")
    bare = make_run(tmp_path / "bare", (), seconds=0, until_return=None)
    for name in ("eval.jsonl", "metrics.jsonl", "machine.json"):
        (bare / name).unlink()
    document = report(tmp_path, bare, plots=plots)
    assert document["plots"] == []
    assert document["runs"][0]["best_return"] is None
    assert "| bare | Pendulum-v1 | sac | 0 | not ended | - | - |" in Path(document["page"]).read_text(encoding="utf-8")


def test_half_a_last_line_and_broken_lines_are_left_out(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a")
    with open(run / "eval.jsonl", "ab") as file:
        file.write(b'not json\n[1]\n{"wall_s": 7}\n{"wall_s": "7", "env_steps": 1, "return_mean": 1}\n')
        file.write(b'{"wall_s": 9, "env_steps": 900, "return_mean": NaN}\n{"wall_s": 9, "env_steps": 9')
    assert read_run(str(run)).evaluations["return_mean"].tolist() == list(RETURNS)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("config.json", b"[1, 2]"),
        ("config.json", b"\x00\xff"),
        ("summary.json", b'{"status": '),
        ("summary.json", b"[" * 100_000),
        ("machine.json", b"7"),
    ],
)
def test_what_is_no_document_is_refused_in_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, content: bytes
) -> None:
    run = make_run(tmp_path / "a")
    (run / name).write_bytes(content)
    assert cli.main(["report", str(run), "--no-plots", "--out", str(tmp_path / "report")]) == 2
    printed = capsys.readouterr()
    assert name in printed.err
    assert printed.err.count("\n") == 1
    assert not (tmp_path / "report").exists()


def test_pipes_in_a_folder_hold_nobody_up(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a")
    for name in ("eval.jsonl", "metrics.jsonl"):
        (run / name).unlink()
        os.mkfifo(run / name)
    assert report(tmp_path, run)["runs"][0]["evaluations"] == 0
    os.mkfifo(run / "summary.json")
    with pytest.raises(ConfigError, match="not a regular file"):
        report(tmp_path, run)


@pytest.mark.parametrize("plots", [True, False])
def test_hostile_values_show_as_text(tmp_path: Path, plots: bool) -> None:
    if plots:
        pytest.importorskip("matplotlib")
    evil = "<script>alert(1)</script>|[x](javascript:1)\x1b[2J\n# gotcha $\\frac{"
    run = make_run(
        tmp_path / "a",
        (1e300, -1.0),
        env=evil,
        algo=[evil],
        seed={"a": 1},
        auto=7,
        adjusted=[1],
        until_return="x",
        gamma=10**400,
    )
    write(run / "machine.json", {"cpu_model": evil, "gpus": [7], "versions": {"torch": evil}})
    write(run / "summary.json", {"status": [evil], "restarts": {"a": evil}, "wall_s": 10**400, "sample_hz": True})
    page = Path(report(tmp_path, run, plots=plots)["page"]).read_text(encoding="utf-8")
    assert "<script" not in page
    assert "\x1b" not in page
    assert "\n# gotcha" not in page
    assert plain("[x](y)") == "\\[x\\](y)"


def test_the_command_prints_where_the_page_lies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    make_run(tmp_path / "runs" / "a")
    assert cli.main(["report", "latest", "runs/a", "--no-plots"]) == 0
    first = capsys.readouterr().out.strip()
    assert Path(first).is_file()
    assert cli.main(["report", "latest", "--no-plots", "--json", "--threshold", "-200"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["page"] != first  # a report never takes another's folder unasked
    assert len(document["runs"]) == 1


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "report").write_text("a file")
    with pytest.raises(SpreezeError, match="cannot be made"):
        report(tmp_path, make_run(tmp_path / "a"))
