"""When states are shown and which are drawn, with time in the test's hand."""

from __future__ import annotations

import pytest

from spreeze.watching.pace import LATE_S, MOST_HZ, Pace


def play(step_s: float, seconds: float, step_costs_s: float, picture_costs_s: float) -> tuple[Pace, float, int]:
    """States until so many seconds have passed. -> the pace, the seconds of the episode, pictures"""
    now = 100.0
    pace, states, pictures = Pace(step_s, now), 0, 0
    while now < 100.0 + seconds:
        now += step_costs_s
        pace.advance(now)
        states += 1
        drawn = pace.draws(now)
        now += picture_costs_s if drawn else 0.0
        now = max(now, pace.due_s)  # shown when its moment has come
        if drawn:
            pace.shown(now)
            pictures += 1
    return pace, states * step_s, pictures


@pytest.mark.parametrize(("step_s", "pictures_hz"), [(0.05, 20), (1 / 30, 30), (0.008, 30), (0.002, 30), (0.2, 5)])
def test_the_speed_of_life_and_at_most_thirty_pictures_a_second(step_s: float, pictures_hz: float) -> None:
    pace, episode_s, pictures = play(step_s, 10.0, step_costs_s=1e-4, picture_costs_s=1e-3)
    assert episode_s == pytest.approx(10.0, abs=0.3)
    assert pictures == pytest.approx(10 * pictures_hz, rel=0.02)
    assert pace.rates()[0] == pytest.approx(pictures_hz, rel=0.1)
    assert pace.rates()[1] == pytest.approx(1.0, abs=0.01)


def test_slow_pictures_are_left_out_before_the_episode_slows_down() -> None:
    pace, episode_s, pictures = play(0.05, 20.0, step_costs_s=1e-3, picture_costs_s=0.15)
    assert episode_s == pytest.approx(20.0, abs=0.5)
    assert 4 * 20 <= pictures <= 20 / 0.15
    assert pace.rates()[1] > 0.9


def test_where_pictures_are_too_slow_for_life_the_episode_slows_down() -> None:
    pace, episode_s, pictures = play(0.05, 30.0, step_costs_s=1e-3, picture_costs_s=1.0)
    assert pictures == pytest.approx(30, abs=2)
    assert 0.2 * 30 <= episode_s <= 0.3 * 30  # at least a picture each quarter of a second of the episode
    assert pace.rates()[1] == pytest.approx(episode_s / 30.0, abs=0.05)


def test_lost_time_is_not_caught_up() -> None:
    pace = Pace(0.05, 0.0)
    pace.advance(0.0)
    assert pace.due_s == 0.0
    pace.advance(60.0)  # the process was stopped for a minute
    assert pace.due_s == 60.0 - LATE_S
    pace.advance(60.0)
    assert pace.due_s == pytest.approx(60.05 - LATE_S)


def test_episodes_of_one_step_do_not_make_more_pictures() -> None:
    pace, _, pictures = play(1e-3, 5.0, step_costs_s=1e-5, picture_costs_s=0.0)
    assert pictures <= 5 * MOST_HZ + 3
    assert pace.rates()[0] <= MOST_HZ * 1.05
