"""Figures against numbers worked out by hand, on a real board."""

from __future__ import annotations

import json
import math
import time

import pytest

from spreeze.board import LOSS_CELLS, RETURNS_KEPT, Board, Section
from spreeze.metrics.figures import STEADY_KEYS, WARM_UP_S, Figures, NewEpisodes, merge_fairly
from spreeze.metrics.lines import json_line

CONTRACT_KEYS = {
    "wall_s", "env_steps", "updates", "sample_hz", "update_hz", "update_frames_hz", "replay_ratio", "transfer_hz",
    "raw_hz", "transfer_age_ms_p50", "transfer_age_ms_p95", "weights_version", "weights_age_ms_p50",
    "weights_age_ms_p95", "staleness_updates_p50", "staleness_updates_p95", "ring_full_s", "batch_size", "samplers",
    "envs_per_sampler", "cpu_pct", "gpu_pct", "rss_bytes", "gpu_bytes", "episode_return_mean", "restarts", "lost_rows",
}  # fmt: skip
BEYOND_CONTRACT = set(LOSS_CELLS)
USAGE = {"cpu_pct": 187.25, "gpu_pct": None, "rss_bytes": 730_000_000, "gpu_bytes": None}
STARTED_S = 1000.0


@pytest.fixture
def board() -> Board:
    return Board.create(samplers=2)


def figures_of(board: Board) -> Figures:
    return Figures(board, STARTED_S)


def read(figures: Figures, now_s: float) -> dict:
    return figures.read(now_s, envs_per_sampler=8, restarts={"sampler-1": 2}, usage=USAGE)


def set_learner(board: Board, **cells: int) -> None:
    for name, value in cells.items():
        board.section("learner").set(name, value)


def end_episode(section: Section, value: float) -> None:
    """As a sampler does: the entry first, then the count."""
    section.returns[section.get("episodes") % RETURNS_KEPT] = value
    section.add("episodes", 1)


def test_a_fresh_board_gives_every_name_of_the_contract(board: Board) -> None:
    record = read(figures_of(board), STARTED_S + 1)
    assert set(record) == CONTRACT_KEYS | BEYOND_CONTRACT
    unknown = {key for key, value in record.items() if value is None}
    assert unknown == {
        "replay_ratio", "transfer_age_ms_p50", "transfer_age_ms_p95", "weights_age_ms_p50", "weights_age_ms_p95",
        "staleness_updates_p50", "staleness_updates_p95", "batch_size", "gpu_pct", "gpu_bytes", "episode_return_mean",
        "raw_hz", *LOSS_CELLS,
    }  # fmt: skip


def test_one_window_by_hand(board: Board) -> None:
    figures = figures_of(board)
    board.section("supervisor").set("active_samplers", 2)
    set_learner(
        board, env_steps=10_000, updates=100, update_frames=25_600, drains=30, batch_size=256, weights_version=3
    )
    read(figures, STARTED_S + 2.0)
    set_learner(board, env_steps=15_000, updates=180, update_frames=46_080, drains=50, lost_rows=5)
    learner = board.section("learner")
    learner.set_float("transfer_age_ms_p50", 12.5)
    learner.set_float("staleness_updates_p95", 9.0)
    board.section("sampler-0").set("ring_full_ns", 250_000_000)
    board.section("sampler-1").set("ring_full_ns", 500_000_000)
    board.section("sampler-1").set("lost_rows", 7)

    record = read(figures, STARTED_S + 4.5)

    assert record["wall_s"] == 4.5
    assert (record["env_steps"], record["updates"]) == (15_000, 180)
    assert record["sample_hz"] == 2000  # 5,000 in 2.5 s
    assert record["update_hz"] == 32  # 80 in 2.5 s
    assert record["update_frames_hz"] == 8192  # 32 x 256
    assert record["replay_ratio"] == 4.096  # 80 x 256 / 5,000
    assert record["transfer_hz"] == 8  # 20 in 2.5 s
    assert record["transfer_age_ms_p50"] == 12.5
    assert record["staleness_updates_p95"] == 9
    assert record["weights_version"] == 3
    assert record["ring_full_s"] == 0.75
    assert record["lost_rows"] == 12
    assert (record["batch_size"], record["samplers"], record["envs_per_sampler"]) == (256, 2, 8)
    assert record["restarts"] == {"sampler-1": 2}
    assert (record["cpu_pct"], record["rss_bytes"]) == (187.25, 730_000_000)


def step(board: Board, index: int, env_steps: int, inside_s: float) -> None:
    """As a sampler does: the cells of all its lives go on from one another."""
    section = board.section(f"sampler-{index}")
    section.add("stepping_ns", int(inside_s * 1e9))
    section.add("env_steps", env_steps)


def test_raw_rate_by_hand(board: Board) -> None:
    figures = figures_of(board)
    board.section("supervisor").set("active_samplers", 2)
    step(board, 0, env_steps=900, inside_s=0.5)
    step(board, 1, env_steps=300, inside_s=0.25)
    assert read(figures, STARTED_S + 1)["raw_hz"] == 900 / 0.5 + 300 / 0.25
    step(board, 0, env_steps=800, inside_s=0.8)
    step(board, 1, env_steps=200, inside_s=0.1)
    assert read(figures, STARTED_S + 2)["raw_hz"] == 800 / 0.8 + 200 / 0.1  # of this window alone


def test_raw_rate_is_of_the_samplers_at_work(board: Board) -> None:
    figures, supervisor = figures_of(board), board.section("supervisor")
    step(board, 0, env_steps=100, inside_s=0.1)
    step(board, 1, env_steps=500, inside_s=0.1)
    assert read(figures, STARTED_S + 1)["raw_hz"] == 6000  # nobody was told to park
    supervisor.set("active_samplers", 1)
    step(board, 0, env_steps=100, inside_s=0.1)
    step(board, 1, env_steps=500, inside_s=0.1)  # in the window in which it parked
    assert read(figures, STARTED_S + 2)["raw_hz"] == 1000
    step(board, 0, env_steps=100, inside_s=0.1)
    assert read(figures, STARTED_S + 3)["raw_hz"] == 1000
    supervisor.set("active_samplers", 2)
    step(board, 0, env_steps=100, inside_s=0.1)
    step(board, 1, env_steps=400, inside_s=0.1)
    assert read(figures, STARTED_S + 4)["raw_hz"] == 5000


def test_raw_rate_of_a_sampler_that_waits_is_its_last_one(board: Board) -> None:
    figures = figures_of(board)
    step(board, 0, env_steps=100, inside_s=0.1)
    assert read(figures, STARTED_S + 1)["raw_hz"] == 1000  # the other one still starts
    step(board, 0, env_steps=100, inside_s=0.1)
    step(board, 1, env_steps=200, inside_s=0.1)
    assert read(figures, STARTED_S + 2)["raw_hz"] == 3000
    step(board, 0, env_steps=100, inside_s=0.05)
    assert read(figures, STARTED_S + 3)["raw_hz"] == 2000 + 2000  # sampler-1 waits, or is being replaced
    assert read(figures, STARTED_S + 4)["raw_hz"] is None  # nobody stepped
    step(board, 1, env_steps=200, inside_s=0.05)
    assert read(figures, STARTED_S + 5)["raw_hz"] == 2000 + 4000


def test_raw_rate_is_unknown_where_the_engine_steps_by_itself(board: Board) -> None:
    figures = figures_of(board)
    step(board, 0, env_steps=100, inside_s=0.0)
    assert read(figures, STARTED_S + 1)["raw_hz"] is None


def test_losses_are_those_that_the_learner_fetched_and_unknown_before_an_update(board: Board) -> None:
    figures, learner = figures_of(board), board.section("learner")
    learner.set_float("critic_loss", 0.25)
    learner.set_float("temperature", math.nan)  # TD3 has none
    assert read(figures, STARTED_S + 1)["critic_loss"] is None
    set_learner(board, updates=1)
    record = read(figures, STARTED_S + 2)
    assert (record["critic_loss"], record["temperature"]) == (0.25, None)


def test_a_window_without_env_steps_has_no_replay_ratio(board: Board) -> None:
    figures = figures_of(board)
    set_learner(board, updates=10, batch_size=256)
    record = read(figures, STARTED_S + 1)
    assert record["replay_ratio"] is None
    assert record["update_hz"] == 10


def test_a_window_without_time_has_no_rates(board: Board) -> None:
    assert read(figures_of(board), STARTED_S)["sample_hz"] is None


def test_nan_on_the_board_is_null_in_the_file(board: Board) -> None:
    figures = figures_of(board)
    set_learner(board, drains=1)
    board.section("learner").set_float("transfer_age_ms_p50", math.nan)
    board.section("learner").set_float("transfer_age_ms_p95", math.inf)
    record = json.loads(json_line(read(figures, STARTED_S + 1)))
    assert record["transfer_age_ms_p50"] is None
    assert record["transfer_age_ms_p95"] is None


def test_episode_return_is_the_mean_of_the_last_100_of_all_samplers(board: Board) -> None:
    figures = figures_of(board)
    for value in (1.0, 2.0):
        end_episode(board.section("sampler-0"), value)
    end_episode(board.section("sampler-1"), 6.0)
    assert read(figures, STARTED_S + 1)["episode_return_mean"] == 3
    assert read(figures, STARTED_S + 2)["episode_return_mean"] == 3  # nothing is counted twice
    for _ in range(100):
        end_episode(board.section("sampler-1"), 10.0)
    assert read(figures, STARTED_S + 3)["episode_return_mean"] == 10


def test_when_episodes_are_many_each_sampler_has_its_share_of_the_last_100(board: Board) -> None:
    figures = figures_of(board)
    for _ in range(120):
        end_episode(board.section("sampler-0"), 0.0)
        end_episode(board.section("sampler-1"), 1.0)
    assert read(figures, STARTED_S + 1)["episode_return_mean"] == pytest.approx(0.5, abs=0.01)


def test_a_circle_that_came_round_gives_the_entries_that_are_left(board: Board) -> None:
    section = board.section("sampler-0")
    episodes = NewEpisodes(section)
    for number in range(RETURNS_KEPT + 40):
        end_episode(section, float(number))
    values = [value for _, value in episodes.collect()]
    assert values == [float(number) for number in range(41, RETURNS_KEPT + 40)]  # 40 may be in the writing
    assert episodes.collect() == []


def test_entries_overwritten_while_they_were_copied_are_left_out() -> None:
    class WriterInBetween:
        """Ends another episode each time the count is read."""

        def __init__(self, section: Section) -> None:
            self._section = section
            self.returns = section.returns

        def get(self, name: str) -> int:
            count = self._section.get(name)
            end_episode(self._section, -1.0)
            return count

    section = Board.create(samplers=1).section("sampler-0")
    episodes = NewEpisodes(WriterInBetween(section))  # type: ignore[arg-type]
    for number in range(1, RETURNS_KEPT):  # entry 0 was written when the follower looked first
        end_episode(section, float(number))
    assert [value for _, value in episodes.collect()] == [float(number) for number in range(2, RETURNS_KEPT)]


def test_merge_fairly_orders_by_time_within_the_window() -> None:
    assert merge_fairly([[(0.0, 1.0), (0.5, 2.0)], [(0.25, 3.0), (0.75, 4.0)], []]) == [1.0, 3.0, 2.0, 4.0]


def run_windows(board: Board, figures: Figures, update_rates: list[int], start_s: float) -> float:
    now_s = start_s
    for rate in update_rates:
        now_s += 1.0
        board.section("learner").add("updates", rate)
        board.section("learner").add("update_frames", rate * board.section("learner").get("batch_size"))
        board.section("learner").add("env_steps", 1000)
        read(figures, now_s)
    return now_s


def test_steady_figures_are_medians_after_the_warm_up(board: Board) -> None:
    figures = figures_of(board)
    set_learner(board, batch_size=100)
    before_first_update, in_which_it_came, warm_up, warm = [0, 0], [5], [20] * int(WARM_UP_S), [50, 70, 60]
    now_s = run_windows(board, figures, before_first_update + in_which_it_came + warm_up + warm, STARTED_S)
    board.section("supervisor").set("stop", 1)
    run_windows(board, figures, [1, 1, 1, 1, 1], now_s)
    assert figures.steady() == {"sample_hz": 1000, "update_hz": 60, "update_frames_hz": 6000, "replay_ratio": 6}


def test_frames_are_those_of_the_updates_and_not_of_the_latest_batch_size(board: Board) -> None:
    figures = figures_of(board)
    set_learner(board, env_steps=100, updates=10, update_frames=10 * 64, batch_size=64)
    read(figures, STARTED_S + 1)
    set_learner(board, env_steps=200, updates=30, update_frames=20 * 64 + 10 * 256, batch_size=256)
    record = read(figures, STARTED_S + 2)
    assert (record["update_hz"], record["update_frames_hz"], record["batch_size"]) == (20, 10 * 64 + 10 * 256, 256)
    assert record["replay_ratio"] == 32


def test_steady_figures_are_of_the_settings_in_force_at_the_end(board: Board) -> None:
    figures = figures_of(board)
    board.section("supervisor").set("active_samplers", 2)
    set_learner(board, batch_size=100)
    now_s = run_windows(board, figures, [5] + [20] * int(WARM_UP_S) + [50, 50], STARTED_S)
    set_learner(board, batch_size=200)
    now_s = run_windows(board, figures, [1, 30, 31, 32], now_s)  # in the first of them it changed
    assert figures.steady()["update_hz"] == 31
    board.section("supervisor").set("active_samplers", 1)
    now_s = run_windows(board, figures, [1, 40], now_s)
    assert figures.steady()["update_hz"] == 40


def test_a_short_run_takes_the_windows_after_its_first_update(board: Board) -> None:
    figures = figures_of(board)
    set_learner(board, batch_size=100)
    run_windows(board, figures, [0, 5, 20, 30], STARTED_S)
    assert figures.steady()["update_hz"] == 25


def test_a_run_without_updates_has_no_steady_figures(board: Board) -> None:
    figures = figures_of(board)
    run_windows(board, figures, [0, 0, 0], STARTED_S)
    assert figures.steady() == dict.fromkeys(STEADY_KEYS)


def test_first_step_and_first_update_count_from_the_command(board: Board) -> None:
    figures = figures_of(board)
    assert (figures.first_step_s(), figures.first_update_s()) == (None, None)
    board.section("sampler-0").set("first_step_ns", int((STARTED_S + 1.75) * 1e9))
    board.section("sampler-1").set("first_step_ns", int((STARTED_S + 1.5) * 1e9))
    set_learner(board, first_update_ns=int((STARTED_S + 3.25) * 1e9))
    assert (figures.first_step_s(), figures.first_update_s()) == (1.5, 3.25)


def test_a_reading_is_cheap_with_many_samplers() -> None:
    board = Board.create(samplers=64)
    figures = figures_of(board)
    began_s = time.perf_counter()
    for second in range(1, 21):
        for section in board.sampler_sections():
            section.add("episodes", 10)
        read(figures, STARTED_S + second)
    assert (time.perf_counter() - began_s) / 20 < 0.05  # of a second, once a second; measured: 2 ms
