"""What is kept of a run's evaluations."""

from spreeze.metrics.evaluations import Evaluations


def test_a_short_run_keeps_every_point() -> None:
    kept = Evaluations()
    for at, mean in enumerate((-3.0, -1.0, None, -2.0)):
        kept.add({"wall_s": at, "return_mean": mean, "episodes": 10})
    assert (kept.count, kept.best_return, kept.final_return) == (4, -1.0, -2.0)
    assert [point["return_mean"] for point in kept.curve] == [-3.0, -1.0, None, -2.0]


def test_a_long_run_keeps_as_much_as_a_short_one_and_the_newest() -> None:
    kept = Evaluations(curve_points=100)
    for at in range(10_000):
        kept.add({"wall_s": at, "return_mean": float(at)})
        assert kept.curve[-1]["wall_s"] == at
        assert len(kept.curve) <= 100
    assert kept.count == 10_000
    moments = [point["wall_s"] for point in kept.curve]
    assert moments == sorted(moments)
    assert moments[0] < 1_000  # it still begins where the run began


def test_a_run_without_evaluations() -> None:
    kept = Evaluations()
    assert (kept.count, kept.best_return, kept.final_return, kept.curve) == (0, None, None, [])
