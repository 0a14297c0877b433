"""Freeze-thaw: every next step goes to the trial, paused or new, that promises most."""

import logging
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.special import ndtr

from search_spaces.space import Space
from tune_mtl.core.objective import Objective
from tune_mtl.core.seeds import derive
from tune_mtl.ray_tune.thaw.courses import Course, Courses
from tune_mtl.ray_tune.thaw.curves import Curves, Floats, Points, Shape
from tune_mtl.ray_tune.thaw.levels import levels
from tune_mtl.ray_tune.thaw.places import Drawn, Place, Places
from tune_mtl.ray_tune.thaw.policy import Begin, GoOn, Step, Tuning
from tune_mtl.ray_tune.thaw.shapes import USUAL, learn_shape
from tune_mtl.results.settings import FIRST_TRIALS

_LOG = logging.getLogger(__name__)

SHARE_OF_ONE, SHARE_OF_MANY = 1 / 3, 1 / 6
"""What a tuning may train, as a share of what its trials would cost if all of them ran to the end: where each strategy
is tuned once, and its best trial is the answer; and with replicates, where what a tuning chose is trained again.
"""
LEAST_WHOLE = 4 / 3
"""With fewer trials too, a tuning may train as much as so many whole trials."""
CANDIDATES = 40
"""New configs that are weighed at each step."""
MOST_POINTS = 160
"""Observations of a tuning that its model takes in: what a decision costs grows with their third power."""
_EARLIEST = 1e-3
"""Evaluations before this share of a trial count as if they were there: the model looks at its logarithm."""
_FIRST_SHAPE = 16
"""The shape is learnt after so many evaluations, and again whenever there are twice as many."""
_TUNINGS_FOR_SHAPE, _POINTS_FOR_SHAPE = 8, 60
"""The shape is learnt from so many of the last tunings, and so many observations of each."""


class Thaw:
    """Gives the next epochs to the trial that promises most.

    Every tuning has a model of its trials' learning curves, which says where each paused trial and some new configs
    would end. A step is worth the more, the better the trial may turn out, and the more the step would tell of it.
    Within a replicate the strategy that has trained least is next; replicates come one after the other.

    Replicates share the shape of learning curves and nothing else: which configs are good every tuning finds out by
    itself. All strategies of a replicate begin with the searcher's common draws, and weigh the same further ones.

    After an answer of :class:`Begin`, `begun` is told before `next` is asked again.

    Args:
        space: What may be chosen.
        objective: What decides.
        length: Of a whole trial, in what is counted.
        step: How much a trial trains before it may be paused again, likewise.
        seed: Of all draws.
        trials: How many trials each tuning has at most, in the order in which tunings are served.
        share: What a tuning may train, as a share of what its trials would cost in full; None: by the number of
            replicates, and at least 4/3 of one whole trial.
        startup: How many first trials of a tuning are the searcher's own.
        proposes: Whether later ones are chosen here; else the searcher suggests them too.
    """

    def __init__(
        self,
        space: Space,
        objective: Objective,
        *,
        length: float,
        step: float,
        seed: int,
        trials: Mapping[Tuning, int],
        share: float | None = None,
        startup: int = FIRST_TRIALS,
        proposes: bool = True,
    ) -> None:
        self._space, self._objective, self._seed = space, objective, seed
        self._length, self._step = length, step
        self._trials = dict(trials)
        self._share, self._startup, self._proposes = share, startup, proposes
        self._courses = Courses()
        self._shape, self._shape_from = USUAL, 0
        self._places: dict[str, Places] = {}
        self._drawn: dict[tuple[Tuning, int], list[Drawn]] = {}
        self._known: dict[str, Place] = {}
        self._warned = False

    def begun(self, trial: str, tuning: Tuning, config: Mapping[str, Any]) -> None:
        """Note that a trial has got its config."""
        values = self._space.values(config)
        self._courses.begin(Course(trial, tuning, config["strategy"], values, until=self._step))

    def seen(self, trial: str, reached: float, value: float) -> None:
        """Note one evaluation."""
        self._courses.tell(trial, reached, value)

    def ended(self, trial: str, *, reached: float, diverged: bool, failed: bool) -> None:
        """Note that a trial will not go on."""
        self._courses.end(trial, reached, diverged=diverged, failed=failed)

    def budget(self, tuning: Tuning) -> float:
        """Return what a tuning may train, in what is counted: at least one step of each of its first trials."""
        trials, least = self._trials[tuning], 0.0
        share = self._share
        if share is None:
            share = SHARE_OF_ONE if len({replicate for _, replicate in self._trials}) == 1 else SHARE_OF_MANY
            least = LEAST_WHOLE * self._length
        budget = max(share * trials * self._length, least, min(trials, self._startup) * self._step)
        return min(budget, trials * self._length)

    def spent(self, tuning: Tuning, running: Collection[str] = ()) -> float:
        """Return what a tuning has trained, with what its ``running`` trials were given."""
        return sum(course.epochs(running=course.trial in running) for course in self._courses[tuning])

    @property
    def open(self) -> list[Tuning]:
        """The tunings that can go on: their budget is not spent, and not all their trials have ended."""
        return [tuning for tuning in self._trials if self._open(tuning, ())]

    @property
    def finished(self) -> bool:
        """Whether no tuning can go on."""
        return not self.open

    def _open(self, tuning: Tuning, running: Collection[str]) -> bool:
        mine = self._courses[tuning]
        left = len(mine) < self._trials[tuning] or not all(course.ended for course in mine)
        return left and self.spent(tuning, running) < self.budget(tuning) * (1 - 1e-9)

    def next(self, running: Collection[str]) -> Step | None:
        """Return what one free slot does next."""
        for replicate in dict.fromkeys(replicate for _, replicate in self._trials):
            tunings = [one for one in self._trials if one[1] == replicate and self._open(one, running)]
            for tuning in sorted(tunings, key=lambda one: self.spent(one, running)):
                step = self._next_of(tuning, running)
                if isinstance(step, GoOn):
                    self._courses.of[step.trial].until = step.until
                if step is not None:
                    return step
        return None

    def _next_of(self, tuning: Tuning, running: Collection[str]) -> Step | None:
        mine = self._courses[tuning]
        new = len(mine) < self._trials[tuning]
        if new and len(mine) < self._startup:
            return Begin(tuning, self._step)
        paused = [course for course in mine if not course.ended and course.trial not in running]
        if not new and not paused:
            return None
        try:
            return self._most_promising(tuning, running, new=new)
        except np.linalg.LinAlgError as error:
            if not self._warned:
                _LOG.warning("learning curves cannot be modelled (%s): the best trial so far goes on instead.", error)
                self._warned = True
            return self._without_model(tuning, paused, new=new)

    def _without_model(self, tuning: Tuning, paused: Sequence[Course], *, new: bool) -> Step:
        """Begin all trials, then go on with the best so far."""
        if new:
            return Begin(tuning, self._step)
        sign = 1.0 if self._objective.mode == "min" else -1.0

        def rank(course: Course) -> tuple[bool, float, float]:
            value = sign * course.told[max(course.told)] if course.told else math.nan
            return math.isnan(value), 0.0 if math.isnan(value) else value, course.reached

        return self._on(min(paused, key=rank))

    def _on(self, course: Course) -> GoOn:
        return GoOn(course.trial, min(course.reached + self._step, self._length))

    def _most_promising(self, tuning: Tuning, running: Collection[str], *, new: bool) -> Step | None:
        """Return the step that is worth most."""
        points, values = self._observed(tuning)
        self._learn_shape()
        curves = Curves(self._shape, points, values)
        known = [course for course in self._courses[tuning] if not course.lost]
        drawn = self._candidates(tuning) if new else []
        soon = np.array(
            [min(course.reached + self._step, self._length) for course in known] + [self._step] * len(drawn)
        )
        places = [self._place(course) for course in known] + [place for _, _, place in drawn]
        numbers = [course.number for course in known] + [-1 - index for index in range(len(drawn))]
        ends = curves.ends(_points(places, soon / self._length, numbers))
        worth = promise(ends.mean, ends.deviation, ends.moves, len(known))
        if drawn and not self._proposes:
            worth[len(known) :] = worth[len(known) :].mean()
        for index, course in enumerate(known):
            if course.ended or course.trial in running:
                worth[index] = -np.inf
        best = int(worth.argmax()) if len(worth) else 0
        if not len(worth) or worth[best] == -np.inf:
            return None
        if best < len(known):
            return self._on(known[best])
        strategy, chosen, _ = drawn[best - len(known)]
        if not self._proposes:
            return Begin(tuning, self._step)
        named = {} if strategy == tuning[0] else {"strategy": strategy}
        return Begin(tuning, self._step, {**named, **chosen})

    def _observed(self, tuning: Tuning, until: int | None = None, most: int = MOST_POINTS) -> tuple[Points, Floats]:
        """Return what was seen of a tuning's trials, among the first ``until`` evaluations of the search."""
        within = None if until is None else set(self._courses.told[:until])
        rows: list[tuple[Course, float, float]] = []
        for course in self._courses[tuning]:
            told = {at: value for at, value in course.told.items() if within is None or (course.trial, at) in within}
            kept = [(course, at, told[at]) for at in thinned(sorted(told), self._length)]
            if course.diverged and within is None:
                kept.append((course, max(course.reached, self._step), math.nan))
            rows += kept
        if len(rows) > most:
            rows = _most_telling(rows, most, self._objective.mode)
        seen = [value for _, _, value in rows]
        usable = [row for row in rows if math.isfinite(row[2]) or row[0].diverged]
        if not usable:
            raise np.linalg.LinAlgError("no finite values" if seen else "no values")
        found = levels([row[2] for row in usable], self._objective.mode, [row[0].diverged for row in usable])
        places = [self._place(course) for course, _, _ in usable]
        at = np.array([at for _, at, _ in usable]) / self._length
        return _points(places, at, [course.number for course, _, _ in usable]), found

    def _learn_shape(self) -> None:
        """Learn the shape of learning curves, whenever there are twice as many evaluations as before."""
        count = _FIRST_SHAPE
        while count * 2 <= len(self._courses.told):
            count *= 2
        if count > len(self._courses.told) or count == self._shape_from:
            return
        self._shape_from = count
        begun = list(dict.fromkeys(self._courses.of[trial].tuning for trial, _ in self._courses.told[:count]))
        tunings = []
        for tuning in begun[-_TUNINGS_FOR_SHAPE:]:
            try:
                tunings.append(self._observed(tuning, count, _POINTS_FOR_SHAPE))
            except np.linalg.LinAlgError:
                continue
        if tunings:
            self._shape = learn_shape(tunings)

    def _candidates(self, tuning: Tuning) -> list[Drawn]:
        """Return new configs to weigh: the same for all strategies of a replicate, as far as they share dimensions."""
        index = len(self._courses[tuning])
        key = tuning, index
        if key not in self._drawn:
            places = self._places_of(tuning)
            seeds = {
                name: np.random.default_rng(derive(self._seed, "thaw", tuning[1], index, name))
                for name in places.dimensions
            }
            self._drawn = {kept: its for kept, its in self._drawn.items() if kept[0] != tuning}
            self._drawn[key] = list(places.drawn(seeds, CANDIDATES))
        return self._drawn[key]

    def _places_of(self, tuning: Tuning) -> Places:
        name = tuning[0]
        if name not in self._places:
            strategies = (name,) if name in self._space.strategies else self._space.strategies
            self._places[name] = Places(self._space, strategies)
        return self._places[name]

    def _place(self, course: Course) -> Place:
        if course.trial not in self._known:
            self._known[course.trial] = self._places_of(course.tuning).of(course.strategy, course.values)
        return self._known[course.trial]

    def state(self) -> dict[str, Any]:
        """Return what was learnt as plain values."""
        return {**self._courses.state(), "shape": list(vars(self._shape).values()), "shape_from": self._shape_from}

    def take_up(self, state: Mapping[str, Any]) -> None:
        """Go on from a state."""
        self._courses = Courses.from_state(state)
        self._shape, self._shape_from = Shape(*state["shape"]), state["shape_from"]
        self._known.clear()
        self._drawn.clear()


def promise(mean: Floats, deviation: Floats, moves: Floats, known: int) -> Floats:
    """Return what a step of each trial is worth; the first ``known`` have begun, the others are new.

    It is the geometric mean of two expected gains over the best trial so far: of the trial's end, as uncertain as it
    is (so that the best itself goes on), and of the choice between the two, by what the next step will tell (so that
    steps which tell nothing are not taken).
    """
    if known == 0:
        return _gain(mean.min() - mean, deviation)
    best = int(mean[:known].argmin())
    others = np.delete(mean[:known], best)
    rival = np.full_like(mean, mean[best])
    rival[best] = others.min() if len(others) else mean[best] + 1.0
    of_end = _gain(mean[best] - mean, deviation)
    of_choice = _gain(-np.abs(mean - rival), moves)
    found: Floats = np.sqrt(of_end * of_choice)
    return found


def _gain(ahead: Floats, deviation: Floats) -> Floats:
    """Return the expected positive part of a normal value with mean ``ahead``."""
    ratio = ahead / deviation
    found: Floats = deviation * (ratio * ndtr(ratio) + np.exp(-0.5 * ratio**2) / math.sqrt(2 * math.pi))
    return np.maximum(found, 0.0)


def thinned(reached: Sequence[float], length: float) -> list[float]:
    """Return the evaluations of a trial that a model needs: denser early, and always the last four."""
    kept: list[float] = []
    for at in reached[:-4]:
        if not kept or at >= 1.25 * kept[-1] or at >= kept[-1] + length / 6:
            kept.append(at)
    return [*kept, *reached[-4:]]


def _most_telling(rows: list[tuple[Course, float, float]], most: int, mode: str) -> list[tuple[Course, float, float]]:
    """Return ``most`` of the observations: the last one of trials, half of them the best, then more of the best."""
    last = {course.trial: (course, at, value) for course, at, value in rows}
    sign = 1.0 if mode == "min" else -1.0

    def rank(row: tuple[Course, float, float]) -> tuple[bool, float]:
        bad = row[0].diverged or not math.isfinite(row[2])
        return bad, 0.0 if bad else sign * row[2]

    ranked = sorted(last.values(), key=rank)
    half = most // 2
    rest = ranked[half:]
    kept = ranked[:half] + rest[:: math.ceil(len(rest) / half) | 1]  # odd: those on both sides of the best alternate
    chosen = {(course.trial, at) for course, at, _ in kept}
    places = {course.trial: place for place, (course, _, _) in enumerate(ranked)}
    for course, at, _ in sorted(rows, key=lambda row: (places[row[0].trial], -row[1])):
        if len(chosen) >= most:
            break
        chosen.add((course.trial, at))
    return [row for row in rows if (row[0].trial, row[1]) in chosen]


def _points(places: Sequence[Place], share: Floats, trials: Sequence[int]) -> Points:
    return Points(
        np.array([place.shares for place in places], dtype=float).reshape(len(places), -1),
        np.array([place.codes for place in places], dtype=np.int64),
        -np.log(np.maximum(share, _EARLIEST)),
        np.array(trials, dtype=np.int64),
    )
