"""How many samplers are active and how large a batch is, decided from measured windows. Pure: ask and tell.

What is sought, and why, stands in docs/decisions/0011-what-the-tuner-seeks.md:

    batch size   the largest of the ladder that draws a row at most 400 times before newer ones take its place, and of
                 which at least a third of an update's time is fixed. With an update's seconds a + b B, a and b from
                 two neighbours on the ladder: the largest B with a / (a + b B) >= 1/3.
    samplers     the number with the least time for an update and the fresh rows that are due to it, one for each 256
                 that it draws: 1/update_hz + batch/256/sample_hz.

First it searches, where there is something to try: nothing is tried that what is known speaks against. A change has to
be worth its place, and no batch size is measured twice, so a search ends, and soon. Then it watches: another program's
cores are left to it and taken again, and where the rates fall for another reason it tries fewer samplers; rarely, and
the more rarely the more often it happened.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable
from dataclasses import dataclass, replace
from statistics import median
from typing import Any, NamedTuple

WINDOW_S = 0.5
TRY, FOUND, WATCH, ADAPTED = "try", "found", "watch", "adapted"
_WINDOWS_A_TRY = 3
_MOST_RUNGS_TRIED = 3  # with the start and the samplers' tries at most 8 settings, 12 s of windows
_MOST_COUNTS_TRIED = 4
LEAST_FIXED_SHARE = 1 / 3
STAY_FIXED_SHARE = 0.8 * LEAST_FIXED_SHARE  # down to this the batch that is in force is left alone
REUSE = 256.0  # how often a row is drawn by those who do one update of 256 rows an env step
MOST_REUSE = 400.0  # HalfCheetah-v5 on an H200 has 260 to 340 with the batch that is best there
_REUSE_POWER = 0.6  # a smaller batch has more updates a second: how often a row is drawn falls about so with its size
WORTH = 0.05  # what another number of samplers has to gain
CORES_SHORT = 0.9  # of the cores busy: a sampler may have what the learner waits for
RING_FULL_SHARE = 0.25  # of the samplers' time: some of them wait anyway
LEAST_UPDATE_HZ = 50.0  # below it the windows hold too few updates to tell batch sizes apart
_SUSTAINED = 6  # windows of one opinion
_FELL, _ROSE = 0.7, 1.3  # times the pace that was usual
_QUIET_AT_FIRST, _QUIET_AT_MOST = 10, 600  # windows from one adaptation to the next: 5 s, 5 minutes


@dataclass(frozen=True)
class Setting:
    samplers: int  # active ones
    batch_size: int

    def __str__(self) -> str:
        return f"{samplers_in_words(self.samplers)}, batch {self.batch_size:,}"


def samplers_in_words(count: int) -> str:
    return f"{count} active sampler{'s' if count > 1 else ''}"


@dataclass(frozen=True)
class Space:
    """What may be changed in a run."""

    samplers: int  # that were started; from 1 of them to all can be active
    samplers_fixed: str | None  # why that is not touched
    batch_sizes: tuple[int, ...]  # the ladder, ascending
    batch_fixed: str | None  # why it has one rung
    cores: int
    knee: str | None = None  # why no other batch has to be tried where rows are not drawn too often

    @property
    def fixed(self) -> bool:
        return self.samplers_fixed is not None and self.batch_fixed is not None

    def as_json(self) -> dict[str, Any]:
        return {
            "samplers": self.samplers_fixed or f"1 to {self.samplers}",
            "batch_size": self.batch_fixed or list(self.batch_sizes),
        }

    def why_nothing(self) -> str:
        return f"samplers: {self.samplers_fixed}; batch size: {self.batch_fixed}"


class Window(NamedTuple):
    """What was measured while one setting was in force."""

    update_hz: float
    sample_hz: float
    cores_busy: float | None = None  # with work of normal priority, this run's and others'; None: not known
    cores_of_others: float | None = None
    ring_full: float = 0.0  # share of the active samplers' time

    def words(self) -> str:
        return f"{self.update_hz:,.0f} updates/s beside {self.sample_hz:,.0f} env steps/s"


def middle(windows: Iterable[Window]) -> Window:
    """Each figure's median: a window that something disturbed does not decide."""
    columns = [None if None in column else median(column) for column in zip(*windows, strict=True)]
    return Window(*columns)  # type: ignore[arg-type]


class Move(NamedTuple):
    """A setting to be in force, in which phase of the search, and why."""

    setting: Setting
    phase: str
    reason: str
    windows: int = 1  # whose median is waited for


Measured = Generator[Move, Window, "Found"]
Steps = Generator[Move, Window, None]


class Found(NamedTuple):
    setting: Setting
    measured: Window
    reason: str


class Search:
    """`ask` says what is to be in force and why; `tell` takes a window that was measured while it was."""

    def __init__(self, steps: Steps) -> None:
        """`steps`: of a search, for ever."""
        self._steps = steps
        self._windows: list[Window] = []
        self._move = next(self._steps)

    def ask(self) -> Move:
        return self._move

    def tell(self, window: Window) -> None:
        self._windows.append(window)
        if len(self._windows) >= self._move.windows:
            measured, self._windows = middle(self._windows), []
            self._move = self._steps.send(measured)

    def done(self) -> bool:
        """It only watches."""
        return self._move.phase != TRY


def reuse(setting: Setting, window: Window) -> float:
    """How often a row is drawn: update frames an env step."""
    return setting.batch_size * window.update_hz / max(window.sample_hz, 1e-9)


def pace(setting: Setting, window: Window) -> float:
    """Updates a second, where each waits for the fresh rows that are due to it."""
    if window.update_hz <= 0 or window.sample_hz <= 0:
        return 0.0
    return 1 / (1 / window.update_hz + setting.batch_size / REUSE / window.sample_hz)


def speed(setting: Setting, window: Window) -> float:
    """What is sought, as one number: updates a second with their rows, each worth its batch to the power of 2/3. Over
    the batch it is greatest where a third of the time of an update and its fresh rows does not depend on it."""
    return pace(setting, window) * setting.batch_size ** (1 - LEAST_FIXED_SHARE)


def search(space: Space, start: Setting, known: str | None = None) -> Steps:
    """`known`: why `start` needs no search."""
    if known is not None:
        yield Move(start, FOUND, f"{start}: {known}")
        yield from _watch(space, start, start)
    found = Found(start, (yield try_out(start, "what it starts with")), "")
    reasons = []
    if space.batch_fixed is None:
        found = yield from _seek_batch_size(space, found)
        reasons.append(found.reason)
    alone = found.setting  # what is right when no other program works
    if space.samplers_fixed is None:
        beside = _count_beside(space, alone, found.measured.cores_of_others or 0.0)
        if beside < alone.samplers:
            found = Found(replace(alone, samplers=beside), found.measured, _others_words(space, found.measured))
        else:
            found = yield from _seek_samplers(space, found)
            alone = found.setting
        reasons.append(found.reason)
    yield Move(found.setting, FOUND, f"{found.setting}: {'; '.join(reasons)}; {found.measured.words()}")
    yield from _watch(space, alone, found.setting)


def try_out(setting: Setting, reason: str) -> Move:
    return Move(setting, TRY, f"{setting}: {reason}", _WINDOWS_A_TRY)


def _seek_batch_size(space: Space, start: Found) -> Measured:
    if start.measured.update_hz < LEAST_UPDATE_HZ or start.measured.sample_hz <= 0:
        return start._replace(reason="too few updates or env steps a second to compare batch sizes by")
    if reuse(start.setting, start.measured) > MOST_REUSE:
        return (yield from _seek_less_reuse(space, start))
    if space.knee is not None:
        return start._replace(reason=space.knee)
    rungs, setting, before = space.batch_sizes, start.setting, start.setting.batch_size
    measured = {before: start.measured}
    place = rungs.index(before)
    aim = rungs[place - 1] if place > 0 else rungs[place + 1]
    while aim not in measured and len(measured) <= _MOST_RUNGS_TRIED:
        reason = "how an update's time depends on the batch" if len(measured) == 1 else _share_words(measured, aim)
        measured[aim] = yield try_out(replace(setting, batch_size=aim), reason)
        aim = _aim(rungs, measured, before)
    if aim not in measured:
        aim = min(measured, key=lambda rung: abs(rungs.index(rung) - rungs.index(aim)))
    found = Found(replace(setting, batch_size=aim), measured[aim], _share_words(measured, aim))
    if reuse(found.setting, found.measured) <= MOST_REUSE:
        return found
    tried = [Found(replace(setting, batch_size=rung), window, _reuse_words(found)) for rung, window in measured.items()]
    return _largest_of_good_reuse(tried) or start


def _seek_less_reuse(space: Space, start: Found) -> Measured:
    """From a batch that draws each row too often: to the largest one that does not, by way of estimates."""
    here, measured = start, {start.setting.batch_size: start}
    while (aim := _rung_of_less_reuse(space.batch_sizes, here)) not in measured:
        if len(measured) > _MOST_RUNGS_TRIED:
            break
        setting = replace(start.setting, batch_size=aim)
        here = measured[aim] = Found(setting, (yield try_out(setting, _reuse_words(here))), "")
    found = _largest_of_good_reuse(measured.values()) or measured[min(measured)]
    return found._replace(reason=_reuse_words(found))


def _largest_of_good_reuse(tried: Iterable[Found]) -> Found | None:
    good = [found for found in tried if reuse(found.setting, found.measured) <= MOST_REUSE]
    return max(good, key=lambda found: found.setting.batch_size, default=None)


def _rung_of_less_reuse(rungs: tuple[int, ...], here: Found) -> int:
    at, often = here.setting.batch_size, reuse(here.setting, here.measured)
    return max((rung for rung in rungs if often * (rung / at) ** _REUSE_POWER <= MOST_REUSE), default=rungs[0])


def _reuse_words(found: Found) -> str:
    often = reuse(found.setting, found.measured)
    return f"with {found.setting.batch_size:,} a row is drawn {often:,.0f} times, {MOST_REUSE:.0f} are sought at most"


def _aim(rungs: tuple[int, ...], measured: dict[int, Window], before: int) -> int:
    """The rung that is sought as far as is known, at most one beyond those that were measured."""
    aim = max((rung for rung in rungs if fixed_share(measured, rung) >= LEAST_FIXED_SHARE), default=rungs[0])
    if aim < before and fixed_share(measured, before) >= STAY_FIXED_SHARE:
        aim = before
    lowest, highest = rungs.index(min(measured)) - 1, rungs.index(max(measured)) + 1
    return rungs[max(0, lowest, min(highest, rungs.index(aim)))]


def fixed_share(measured: dict[int, Window], batch_size: int) -> float:
    """Of an update's time a + b B, by the two measured batch sizes nearest to this one: a / (a + b B)."""
    nearest = sorted(measured, key=lambda rung: abs(rung - batch_size) / max(rung, batch_size))[:2]
    (low, high) = sorted(nearest)
    low_s, high_s = (1 / max(measured[rung].update_hz, 1e-9) for rung in (low, high))
    slope = max(0.0, (high_s - low_s) / (high - low))
    fixed = max(0.0, low_s - slope * low)
    whole = fixed + slope * batch_size
    return fixed / whole if whole > 0 else 1.0


def _share_words(measured: dict[int, Window], batch_size: int) -> str:
    share = fixed_share(measured, batch_size)
    return f"{share:.0%} of an update's time do not depend on the batch, a third is sought"


def _seek_samplers(space: Space, start: Found) -> Measured:
    here = start.measured
    short = here.cores_busy is None or here.cores_busy >= CORES_SHORT * space.cores
    if start.setting.samplers > 1 and (short or here.ring_full >= RING_FULL_SHARE):
        return (yield from _climb(space, start, -1))
    if start.setting.samplers < space.samplers and not short:
        return (yield from _climb(space, start, +1))
    return start._replace(reason=f"{_busy_words(space, here)}, so another number of samplers was not tried")


def _climb(space: Space, start: Found, way: int) -> Measured:
    """Fewer or more by a quarter, then by a third, as long as each is worth it."""
    best = start
    for tried in range(_MOST_COUNTS_TRIED):
        count = best.setting.samplers
        count = max(1, min(space.samplers, count + way * max(1, count // (3 if tried else 4))))
        if count == best.setting.samplers:
            break
        setting = replace(best.setting, samplers=count)
        measured = yield try_out(setting, _busy_words(space, best.measured))
        if pace(setting, measured) <= pace(best.setting, best.measured) * (1 + WORTH):
            reason = f"{samplers_in_words(count)} gave {measured.words()}, not worth it"
            return best._replace(reason=reason)
        best = Found(setting, measured, f"more than with {samplers_in_words(best.setting.samplers)}")
    return best


def _busy_words(space: Space, window: Window) -> str:
    if window.cores_busy is None:
        return "how busy the cores are is not known"
    return f"{window.cores_busy:.1f} of {space.cores} cores are busy"


def _watch(space: Space, alone: Setting, at: Setting) -> Steps:
    """`alone`: what is right when no other program works; `at`: what is in force."""
    usual: float | None = None
    recent: deque[Window] = deque(maxlen=_SUSTAINED)
    quiet, since = _QUIET_AT_FIRST, 0
    while True:
        window = yield Move(at, WATCH, "")
        since += 1
        if space.samplers_fixed is not None or window.update_hz <= 0:
            continue  # nothing to do, or the learner waits: at the end, or for an environment that hangs
        recent.append(window)
        if len(recent) < _SUSTAINED or since < quiet:
            continue
        here = middle(recent)
        count = _agreed_count(space, alone, at, recent)
        if count is None:
            continue  # others have just come or gone
        if count != at.samplers:
            at = replace(at, samplers=count)
            reason = _others_words(space, here)
        elif usual is None:
            usual = pace(at, here)
            continue
        elif pace(at, here) < _FELL * usual or (pace(at, here) > _ROSE * usual and at.samplers < alone.samplers):
            before = at
            at, here, why = yield from _seek_samplers(space, Found(at, here, ""))
            if at.samplers > alone.samplers:
                alone = at
            reason = f"{usual:,.0f} updates/s with their rows were usual, now {here.words()}; {why}"
            if at == before:
                reason = f"nothing is better: {reason}"
        else:
            continue
        yield Move(at, ADAPTED, f"{at}: {reason}")
        quiet = min(2 * quiet, _QUIET_AT_MOST) if since < 10 * quiet else _QUIET_AT_FIRST
        since, usual = 0, None
        recent.clear()


def _agreed_count(space: Space, alone: Setting, at: Setting, recent: Iterable[Window]) -> int | None:
    """Samplers that other programs leave a core to; None while the windows do not agree whether that is more, fewer or
    as many as now."""
    others = [window.cores_of_others for window in recent]
    counts = [_count_beside(space, alone, cores) for cores in others if cores is not None]
    if len(counts) < len(others):
        return at.samplers
    fewest, most = min(counts), max(counts)
    if most < at.samplers:
        return most
    if fewest > at.samplers:
        return fewest
    return at.samplers if fewest == most else None


def _count_beside(space: Space, alone: Setting, cores_of_others: float) -> int:
    return max(1, min(alone.samplers, space.samplers - round(cores_of_others)))


def _others_words(space: Space, window: Window) -> str:
    return f"other programs have {window.cores_of_others:.1f} of {space.cores} cores"
