"""Whose turn it is: fair to people, whatever they queue and cancel, by itself and in the real store."""

from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.runs import ModelRef, Prompt, RunSpec
from core.store import Store
from core.turns import NOW, Waiting, in_turn

PEOPLE = "abcd"
DEMO = ModelRef(source="demo", name="m", path="m")
SPEC = RunSpec(target=DEMO, draft=DEMO, prompts=(Prompt(text="x"),))
Events = list[tuple[str, str | int]]
events: st.SearchStrategy[Events] = st.lists(
    st.one_of(
        st.sampled_from(PEOPLE).map(lambda person: ("queue", person)), st.just(("go on", 0)), st.integers(0, 9).map(lambda place: ("cancel", place))
    ),
    max_size=40,
)


class Device:
    """What `core.store` keeps of one device, by hand: waiting runs, the one that runs, and when each person was served last."""

    def __init__(self) -> None:
        self.waiting: dict[str, tuple[str, int]] = {}
        self.running = ""
        self.served: Counter[str] = Counter()
        self.turns = 0

    def queue(self, person: str) -> str:
        self.turns += 1
        run_id = f"{person}{self.turns}"
        self.waiting[run_id] = (person, self.turns)
        return run_id

    def begin(self, run_id: str) -> None:
        self.turns += 1
        self.running = self.waiting.pop(run_id)[0]
        self.served[self.running] = NOW

    def end(self) -> None:
        self.turns += 1
        self.served[self.running] = self.turns
        self.running = ""

    def order(self) -> list[str]:
        return [run.id for run in in_turn(Waiting(run_id, who, turn, self.served[who]) for run_id, (who, turn) in self.waiting.items())]


@given(events)
def test_nobody_waits_for_two_runs_of_another_before_their_next(asked: Events) -> None:
    """What is measured when somebody begins to wait counts as one."""
    device = Device()
    ran: list[tuple[str, int]] = []
    for what, which in asked:
        order = device.order()
        if what == "queue":
            device.queue(str(which))
        elif what == "cancel" and order:
            del device.waiting[order[int(which) % len(order)]]
        elif what == "go on" and device.running:
            person = device.running
            device.end()
            ran.append((person, device.turns))
        elif what == "go on" and order:
            person, queued = device.waiting[order[0]]
            since = max(queued, device.served[person])
            before = Counter(other for other, ended in ran if ended > since)
            assert all(count == 1 for count in before.values()), (person, before)
            device.begin(order[0])


@given(events)
def test_what_others_do_changes_no_order_and_a_cancelled_run_moves_nobody_back(asked: Events) -> None:
    device = Device()
    for what, which in asked:
        before = device.order()
        if what == "queue":
            new = device.queue(str(which))
            assert [run_id for run_id in device.order() if run_id != new] == before
        elif what == "go on" and device.running:
            device.end()
            assert device.order() == before
        elif what == "go on" and before:
            device.begin(before[0])
            assert device.order() == before[1:]
        elif what == "cancel" and before:
            gone = before[int(which) % len(before)]
            del device.waiting[gone]
            after, person = device.order(), gone[0]
            assert all(after.index(run_id) <= before.index(run_id) for run_id in after)
            assert [run_id for run_id in after if run_id[0] != person] == [run_id for run_id in before if run_id[0] != person]
        order = device.order()
        for person in PEOPLE:
            own = [int(run_id[1:]) for run_id in order if run_id[0] == person]
            assert own == sorted(own), "first in, first out"


def test_many_runs_of_one_person_let_each_other_one_in_after_one() -> None:
    many = [Waiting(f"a{turn}", "a", turn) for turn in range(1, 6)]
    others = [Waiting("b6", "b", 6), Waiting("c7", "c", 7), Waiting("b8", "b", 8)]
    assert [run.id for run in in_turn([*others, *many])] == ["a1", "b6", "c7", "a2", "b8", "a3", "a4", "a5"]
    for served in (9, NOW):
        left = [Waiting(run.id, run.person, run.turn, served) for run in many[1:]]
        assert [run.id for run in in_turn([*others, *left])] == ["b6", "c7", "a2", "b8", "a3", "a4", "a5"]


@settings(max_examples=12, deadline=None)
@given(events)
def test_the_store_keeps_the_same_order(asked: Events) -> None:
    with TemporaryDirectory() as folder:
        store, device, names, running = Store(Path(folder) / "s.sqlite"), Device(), dict[str, str](), ""
        for what, which in asked:
            order = store.queued("cpu")
            assert [names[run_id] for run_id in order] == device.order()
            if what == "queue":
                names[store.add(SPEC, str(which))] = device.queue(str(which))
            elif what == "go on" and running:
                assert store.running("cpu") == [running]
                assert store.finish(running, "done")
                device.end()
                running = ""
            elif what == "go on" and order:
                running = order[0]
                assert store.claim(running, "here", 1)
                device.begin(names[running])
            elif what == "cancel" and order:
                gone = order[int(which) % len(order)]
                assert store.cancel_queued(gone)
                del device.waiting[names[gone]]
        store.close()


def test_each_device_has_its_own_ring(store: Store, spec: RunSpec) -> None:
    gpu = spec.model_copy(update={"device": "cuda:0"})
    first = store.add(gpu, "a")
    store.claim(first, "here", 1)
    on_cpu = [store.add(spec, person) for person in "aab"]
    on_gpu = [store.add(gpu, person) for person in "ab"]
    assert store.queued("cpu") == [on_cpu[0], on_cpu[2], on_cpu[1]], "what runs on the GPU takes no turn here"
    assert store.queued("cuda:0") == [on_gpu[1], on_gpu[0]]
    assert [entry.id for entry in store.alive()] == [first, on_cpu[0], on_gpu[1], on_cpu[2], on_gpu[0], on_cpu[1]]
    assert store.waiting_of() == {"a": 3, "b": 2}


def test_a_clock_that_jumps_changes_no_turn(store: Store, spec: RunSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: 2e9)
    served = store.add(spec, "a")
    assert store.claim(served, "here", 1)
    assert store.finish(served, "done")
    monkeypatch.setattr("time.time", lambda: 1e9)
    ids = [store.add(spec, person) for person in "ab"]
    assert store.queued("cpu") == ids
    monkeypatch.setattr("time.time", lambda: 3e9)
    assert store.queued("cpu") == ids


def test_what_was_imported_takes_no_turn(store: Store, spec: RunSpec) -> None:
    other = store.add(spec, "b")
    store.claim(other, "here", 1)
    store.finish(other, "done")
    run = store.get(other)
    waits = store.add(spec, "")
    after = store.add(spec, "b")
    store.insert(run.model_copy(update={"id": "elsewhere"}))
    assert store.queued("cpu") == [waits, after]
