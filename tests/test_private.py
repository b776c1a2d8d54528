"""In a private installation a person sees, changes and deletes their own runs only, on every page and through every way into the store."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from core.bench import Bench
from core.child import Entry
from core.errors import InvalidInput
from core.history import Query
from core.runs import Run
from core.settings import Settings
from core.store import DRAFTS_KEPT, Store
from core.ui import desk, person
from tests import side_runs, synthetic
from tests.apps import button, ok, texts
from tests.test_door import open_as

ANN: dict[str, object] = {"is_logged_in": True, "email": "ann@example.com", "sub": "1"}
BOB: dict[str, object] = {"is_logged_in": True, "email": "bob@example.com", "sub": "2"}


@pytest.fixture
def shared(store: Store) -> Store:
    """A run of each of two people, Ann's with its group, and one that nobody owns."""
    run = synthetic.run(prompts=8, tokens=32)
    group = run.spec.model_copy(update={"group": "pairs"})
    store.insert(run.model_copy(update={"id": "anns", "spec": group, "tags": ("annstag",)}), "ann")
    store.insert(run.model_copy(update={"id": "bobs"}), "bob")
    store.insert(run.model_copy(update={"id": "old"}))
    return store


def test_lists_hold_one_s_own_runs(shared: Store):
    ann, bob = shared.seen_by("ann"), shared.seen_by("bob")
    assert [entry.id for entry in ann.history(Query()).entries] == ["anns"]
    assert [entry.id for entry in bob.history(Query()).entries] == ["bobs"]
    assert {entry.id for entry in shared.history(Query()).entries} == {"anns", "bobs", "old"}
    assert (ann.choices().tags, bob.choices().tags) == (("annstag",), ())
    assert (ann.choices().total, bob.choices().total) == (1, 1)
    assert [run.id for run in ann.recent(9)] == ["anns"]
    assert (len(ann.group("pairs")), len(bob.group("pairs"))) == (1, 0)


def test_waiting_runs_too(shared: Store):
    waiting = shared.add(synthetic.run().spec, "ann")
    assert [entry.id for entry in shared.seen_by("ann").alive()] == [waiting]
    assert shared.seen_by("bob").alive() == []


def test_another_s_run_is_not_there_but_for_its_share_id(shared: Store):
    bob, of_ann = shared.seen_by("bob"), shared.get("anns")
    with pytest.raises(InvalidInput, match="There is no run anns"):
        bob.get("anns", traces=True)
    assert bob.get("bobs").id == "bobs"
    seen = bob.get(of_ann.share_id)
    assert all(prompt.withheld for prompt in seen.spec.prompts)
    assert of_ann.spec.prompts[0].text not in seen.model_dump_json()


def test_another_s_run_cannot_be_changed(shared: Store):
    bob = shared.seen_by("bob")
    with pytest.raises(InvalidInput, match="There is no run anns"):
        bob.edit("anns", 0, tags=[], note="mine now")
    assert bob.delete(["anns", "bobs"]) == ["bobs"]
    assert shared.get("anns").note == ""
    shared.seen_by("ann").delete(["anns"])
    assert bob.hidden(["anns", "bobs"]) == {"bobs"}
    assert bob.deleted().runs == 1
    assert bob.purge(1e12) == 1
    assert bob.restore() == 0
    assert [run.id for run in shared.seen_by("ann").recent(9)] == []
    assert shared.seen_by("ann").restore() == 1
    assert [run.id for run in shared.seen_by("ann").recent(9)] == ["anns"]


@pytest.fixture
def private(settings: Settings, shared: Store, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The pages of a private installation, in which Ann's id is "ann"."""
    changed = settings.model_copy(update={"private": True})
    shared.insert(side_runs.run().model_copy(update={"id": "annsside"}), "ann")
    names = {"1": "ann", "2": "bob"}

    def who() -> str:
        import streamlit as st

        return names[str(st.user.to_dict()["sub"])]

    with contextlib.closing(Bench(changed, shared, prewarm=(), entry=Entry("tests.jobs:by_seed", "tests.jobs:devices"))) as bench:
        monkeypatch.setattr(desk, "_open", lambda: (shared, bench))
        monkeypatch.setattr(desk, "settings", lambda: changed)
        monkeypatch.setattr(desk, "person", who)
        monkeypatch.setattr(person, "person", who)
        yield


@pytest.mark.parametrize(
    ("page", "query"),
    [("measure", {"run": "anns"}), ("gamma", {"run": "anns"}), ("side_by_side", {"run": "annsside"}), ("measure", {"group": "pairs"})],
)
def test_pages_do_not_show_another_s_run(private: None, page: str, query: dict[str, str]):
    refused = "There is no such"

    def opened(user: dict[str, object]) -> str:
        app = AppTest.from_file(f"../pages/{page}.py", default_timeout=30)
        app.user = user
        for name, value in query.items():
            app.query_params[name] = value
        app.run()
        assert not app.exception, app.exception
        return "\n".join([texts(app), *(str(code.value) for code in app.code)])

    assert refused in opened(BOB)
    assert refused not in opened(ANN)


@pytest.mark.parametrize(("kept", "page", "label"), [(synthetic.run, "measure", "Cancel"), (side_runs.run, "side_by_side", "Stop")])
def test_a_shared_link_of_a_waiting_run_has_no_way_to_stop_it(
    private: None, shared: Store, settings: Settings, kept: Callable[[], Run], page: str, label: str
):
    waiting = shared.add(kept().spec, "ann")

    def buttons(run_id: str, user: dict[str, object]) -> list[str]:
        app = AppTest.from_file(f"../pages/{page}.py", default_timeout=30)
        app.user = user
        app.query_params["run"] = run_id
        return [shown.label for shown in ok(app.run()).button]

    assert label in buttons(waiting, ANN)
    assert label not in buttons(shared.get(waiting).share_id, BOB)


def test_the_list_of_runs_is_one_s_own(private: None):
    assert len(open_as("runs", BOB).dataframe[0].value) == 1
    assert len(open_as("runs", ANN).dataframe[0].value) == 2


def test_the_queue_and_what_it_waits_for_are_everybody_s(private: None, shared: Store):
    """A place of one's own among others, and a wait that somebody else's runs of their pair tell."""
    run = synthetic.run(prompts=8, tokens=32)
    pair = run.spec.model_copy(update={"target": run.spec.target.model_copy(update={"path": "/models/anns", "name": "anns"})})
    shared.insert(run.model_copy(update={"id": "annspair", "spec": pair}), "ann")
    shared.add(pair, "ann")
    waiting = shared.add(run.spec, "bob")
    [bar] = open_as("runs", BOB).get("progress")
    assert bar.proto.text == "Waiting for the device cpu: 2nd in the queue"
    app = AppTest.from_file("../pages/measure.py", default_timeout=30)
    app.user = BOB
    app.query_params["run"] = waiting
    [bar] = ok(app.run()).get("progress")
    assert bar.proto.text.startswith("**Waiting for the device**: 2nd in the queue, about ")
    assert "anns" not in texts(app)


def test_a_store_of_a_person_is_the_same_store(shared: Store, tmp_path: Path):
    mine = shared.seen_by("ann")
    assert mine.place == shared.place
    assert mine.add(synthetic.run().spec, "ann") in shared.queued()


def test_a_run_names_no_other_person_s_run_as_its_reference(shared: Store):
    """Whoever knows another's id could otherwise import a run that refers to it, and read its share id from their own share link."""
    run = synthetic.run(prompts=8, tokens=32)
    for name, reference in (("bobs2", "anns"), ("bobs3", "bobs")):
        shared.insert(run.model_copy(update={"id": name, "spec": run.spec.model_copy(update={"reference": reference})}), "bob")
    links = {name: shared.get(name).share_id for name in ("bobs", "bobs2", "bobs3")}
    assert shared.seen_by("bob").get(links["bobs2"]).spec.reference == ""
    assert shared.seen_by("ann").get(links["bobs3"]).spec.reference == links["bobs"]


def test_nobody_s_drafts_push_out_those_of_an_account(store: Store):
    store.save_prompts("user-ann-1", "of Ann", account="user-ann")
    for number in range(DRAFTS_KEPT + 1):
        store.save_prompts(f"user-bob-{number}", "of Bob", account="user-bob")
    assert store.load_prompts("user-ann-1") == "of Ann"
    assert store.load_prompts("user-bob-0") is None
    assert store.load_prompts("user-bob-1") == "of Bob"


def test_nothing_is_cleaned_up_while_another_s_run_is_measured(private: None, shared: Store):
    """Neither where the page knows it, nor where the run began after the page was drawn."""
    shared.seen_by("bob").delete(["bobs"])
    measured = shared.add(synthetic.run().spec, "ann")
    app = open_as("runs", BOB)
    shared.claim(measured, "here", 1)
    button(app, "Remove and compact").click().run()
    assert "A run is being measured, so nothing was removed." in texts(app).replace("\\", "")
    assert button(app, "Remove and compact").disabled
    assert shared.seen_by("bob").deleted().runs == 1
    shared.finish(measured, "done")
    assert not button(open_as("runs", BOB), "Remove and compact").disabled
