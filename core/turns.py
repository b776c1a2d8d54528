"""Whose turn it is on a device: round robin between people, first in first out for each of them.

People stand in a ring. One joins its end when a run of theirs begins to wait and none did before, and again when a run of theirs has ended;
whose run is being measured comes after everybody who waits by then. So nobody waits for more than one run of anybody else before their own
next one, the one that is being measured included, and who comes later, however often, never moves ahead of a first run that waits, but for
those who come while a run of the same person is measured. Places in the ring are counted, not clocked: a clock that jumps changes nothing.
Not covered: how long runs take; somebody's long run counts as much as another's short one.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import zip_longest

from sqlalchemy import Connection, Function, ScalarSelect, case, func, select

from core.database import runs

NOW = 2**62


@dataclass(frozen=True)
class Waiting:
    """A waiting run. turn: when it was queued; served: when a run of the same person last ended on this device, 0 for never, `NOW` while one runs.

    Both are places on one scale: every run that is queued, begins or ends takes the next one (`next_turn`).
    """

    id: str
    person: str
    turn: int
    served: int = 0


def in_turn(waiting: Iterable[Waiting]) -> list[Waiting]:
    """The waiting runs of one device, the next one first."""
    own: defaultdict[str, list[Waiting]] = defaultdict(list)
    for each in sorted(waiting, key=lambda run: run.turn):
        own[each.person].append(each)
    ring = sorted(own.values(), key=lambda line: max(line[0].turn, line[0].served))
    return [run for once_round in zip_longest(*ring) for run in once_round if run is not None]


def line(connection: Connection, device: str | None = None) -> list[str]:
    """Ids of the runs that wait for a device in the order of their turn; for None those of all devices, by their place on their own."""
    wanted = runs.c.status == "queued"
    if device is not None:
        wanted &= runs.c.device == device
    rows = connection.execute(select(runs.c.device, runs.c.id, runs.c.person, runs.c.turn, _served()).where(wanted).order_by(runs.c.number)).all()
    found: defaultdict[str, list[Waiting]] = defaultdict(list)
    for row in rows:
        found[row.device].append(Waiting(*row[1:]))
    placed = [(place, run) for waiting in found.values() for place, run in enumerate(in_turn(waiting))]
    return [run.id for _, run in sorted(placed, key=lambda each: (each[0], each[1].turn))]


def next_turn() -> ScalarSelect[int]:
    """The next free place, for a statement that writes a run's `turn`."""
    taken = runs.alias()
    return select(func.coalesce(func.max(taken.c.turn), 0) + 1).scalar_subquery()


def _served() -> Function[int]:
    """When a run of the same person last ended on the same device."""
    begun = runs.alias()
    same = (begun.c.device == runs.c.device, begun.c.person == runs.c.person, begun.c.started_s.is_not(None))
    last = select(case((begun.c.status == "running", NOW), else_=begun.c.turn)).where(*same).order_by(begun.c.turn.desc()).limit(1)
    return func.coalesce(last.scalar_subquery(), 0)
