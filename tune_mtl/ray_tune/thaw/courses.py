"""What a policy was told of every trial: whose it is, its config, its values so far, and whether it can go on."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tune_mtl.ray_tune.thaw.policy import Tuning


@dataclass
class Course:
    """One trial.

    Attributes:
        trial: Its name.
        tuning: Whose it is.
        strategy: Its strategy.
        values: Its config, by dimension.
        told: Its evaluations, in the order in which they were told: how far it was, and the value.
        until: How far it may train by what was decided last.
        number: Its place among all trials, from 0.
        ended: Whether it cannot go on.
        lost: Whether it has diverged or failed: it cannot be chosen.
        diverged: Whether it has diverged: its config is bad.
    """

    trial: str
    tuning: Tuning
    strategy: str
    values: Mapping[str, Any]
    until: float
    number: int = 0
    told: dict[float, float] = field(default_factory=dict)
    reached: float = 0.0
    ended: bool = False
    lost: bool = False
    diverged: bool = False

    def epochs(self, *, running: bool) -> float:
        """Return what it has cost, in what is counted; of a ``running`` one what it may come to."""
        return max(self.reached, self.until) if running and not self.ended else self.reached


class Courses:
    """All trials, in the order in which they began."""

    def __init__(self) -> None:
        self.of: dict[str, Course] = {}
        self._of_tuning: dict[Tuning, list[Course]] = {}
        self.told: list[tuple[str, float]] = []

    def __getitem__(self, tuning: Tuning) -> Sequence[Course]:
        return self._of_tuning.get(tuning, ())

    def __iter__(self) -> Iterator[Tuning]:
        """Iterate over the tunings that have trials."""
        return iter(self._of_tuning)

    def begin(self, course: Course) -> None:
        """Note that a trial has got its config; one that is known already stays as it is."""
        if course.trial not in self.of:
            course.number = len(self.of)
            self.of[course.trial] = course
            self._of_tuning.setdefault(course.tuning, []).append(course)

    def tell(self, trial: str, reached: float, value: float) -> None:
        """Note an evaluation, once."""
        course = self.of[trial]
        if reached not in course.told:
            course.told[reached] = value
            course.reached = max(course.reached, reached)
            self.told.append((trial, reached))

    def end(self, trial: str, reached: float, *, diverged: bool, failed: bool) -> None:
        """Note that a trial cannot go on."""
        course = self.of[trial]
        course.reached = max(course.reached, reached)
        course.ended, course.lost, course.diverged = True, diverged or failed, diverged

    def state(self) -> dict[str, Any]:
        """Return all of it as plain values."""
        return {
            "trials": [
                {
                    "trial": course.trial, "tuning": list(course.tuning), "strategy": course.strategy,
                    "values": dict(course.values), "until": course.until, "reached": course.reached,
                    "ended": course.ended, "lost": course.lost, "diverged": course.diverged,
                }
                for course in self.of.values()
            ],
            "told": [
                [trial, reached, value if math.isfinite(value := self.of[trial].told[reached]) else None]
                for trial, reached in self.told
            ],
        }  # fmt: skip

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> "Courses":
        """Return what a state holds; a value that was not finite is NaN."""
        courses = cls()
        for saved in state["trials"]:
            strategy, replicate = saved["tuning"]
            courses.begin(Course(**{**saved, "tuning": (strategy, int(replicate))}))
        for trial, reached, value in state["told"]:
            courses.tell(trial, float(reached), math.nan if value is None else float(value))
        return courses
