"""The planner with real processes: answers, failures, time limits, the cache, and nothing left behind."""

import contextlib
import json
import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from core import answers
from core.errors import StoreError
from core.planner import HELD, Answer, Failed, Planner, Ready, Task, Waiting
from core.settings import Settings

TASKS = {
    **{name: Task(f"tests.plan_jobs:{name}", 20) for name in ("echo", "refuse", "crash", "die", "big", "imports")},
    "hang": Task("tests.plan_jobs:hang", 1.0),
    "slow_hub": Task("tests.plan_jobs:hang", 5.0, network=True),
    "echo_hub": Task("tests.plan_jobs:echo", 20, network=True),
    "start_another": Task("tests.plan_jobs:start_another", 1.0),
    "once": Task("tests.plan_jobs:once", 20, good_for_s=0.0),
}


@pytest.fixture
def planner(settings: Settings) -> Iterator[Planner]:
    with contextlib.closing(Planner(settings, tasks=TASKS, light=2)) as opened:
        yield opened


def final(ask: Callable[[], Answer], within_s: float = 20) -> Answer:
    until_s = time.monotonic() + within_s
    while isinstance(answer := ask(), Waiting) or (isinstance(answer, Ready) and answer.renewing):
        assert time.monotonic() < until_s, answer
        time.sleep(0.02)
    return answer


def runs(settings: Settings) -> int:
    return len((settings.data / "runs").read_text().splitlines())


def test_an_answer_comes_from_another_process_and_is_made_once(planner: Planner, settings: Settings) -> None:
    assert isinstance(planner.ask("echo", {"name": "a"}), Waiting)
    answer = final(lambda: planner.ask("echo", {"name": "a"}))
    assert isinstance(answer, Ready)
    assert answer.data["name"] == "a"
    assert answer.data["pid"] != os.getpid()
    assert 0 <= answer.age_s < 20
    assert isinstance(planner.ask("echo", {"name": "a"}), Ready)
    assert runs(settings) == 1


def test_the_next_server_finds_the_answer_at_once(planner: Planner, settings: Settings) -> None:
    final(lambda: planner.ask("echo", {"name": "kept", "n": 1}))
    with contextlib.closing(Planner(settings, tasks=TASKS)) as another:
        began_s = time.perf_counter()
        answer = another.ask("echo", {"n": 1, "name": "kept"})
        assert time.perf_counter() - began_s < 0.3
        assert isinstance(answer, Ready)
        assert answer.data["name"] == "kept"
    assert runs(settings) == 1


def test_asking_again_does_it_again(planner: Planner, settings: Settings) -> None:
    final(lambda: planner.ask("echo", {"name": "a"}))
    first = planner.ask("echo", {"name": "a"}, again=True)
    assert isinstance(first, Ready)
    assert first.renewing
    final(lambda: planner.ask("echo", {"name": "a"}))
    assert runs(settings) == 2


def test_a_sentence_comes_through_and_is_not_asked_for_again_by_itself(planner: Planner, settings: Settings) -> None:
    ask = lambda: planner.ask("refuse", {"name": "x"})  # noqa: E731
    assert final(ask) == Failed("x is refused. Choose another.")
    assert ask() == Failed("x is refused. Choose another.")
    assert not (settings.data / "plan" / "answers").exists()
    assert isinstance(planner.ask("refuse", {"name": "x"}, again=True), Waiting)


@pytest.mark.parametrize(("task", "words"), [("crash", "KeyError"), ("die", "died")])
def test_a_job_that_breaks_says_so_and_the_next_one_works(planner: Planner, settings: Settings, task: str, words: str) -> None:
    answer = final(lambda: planner.ask(task, {"name": "x"}))
    assert isinstance(answer, Failed)
    assert words in answer.sentence
    assert str(settings.data / "plan.log") in answer.sentence
    assert isinstance(final(lambda: planner.ask("echo", {"name": "after"})), Ready)


def test_the_log_says_where_a_job_broke_and_no_word_of_what_it_was_asked_about(planner: Planner, settings: Settings) -> None:
    """Jobs count the tokens of prompts, show them and import them."""
    final(lambda: planner.ask("crash", {"name": "Our customer Ann Example"}))
    log = (settings.data / "plan.log").read_text()
    assert re.search(r"ERROR draftgauge\.plan: The job tests\.plan_jobs:crash failed\\nKeyError \(.*plan_jobs\.py:\d+ crash\)$", log, re.MULTILINE)
    assert "Ann" not in log


def test_a_job_that_hangs_is_killed_and_does_not_hold_up_others(planner: Planner, tmp_path: Path) -> None:
    stuck = {"pid_file": str(tmp_path / "pid")}
    planner.ask("hang", stuck)
    assert isinstance(final(lambda: planner.ask("echo", {"name": "beside"})), Ready)
    answer = final(lambda: planner.ask("hang", stuck))
    assert answer == Failed("There was no answer within 1 seconds, so the job was stopped. Try again, or choose another model or file.")
    assert not Path("/proc", (tmp_path / "pid").read_text()).exists()


def test_a_hub_that_hangs_holds_up_nothing_on_this_machine(planner: Planner, tmp_path: Path) -> None:
    stuck = [{"model": f"acme/{at}", "pid_file": str(tmp_path / "pid")} for at in range(3)]
    for arguments in stuck:
        planner.ask("slow_hub", arguments)
    assert isinstance(final(lambda: planner.ask("echo", {"name": "compare"}), within_s=4), Ready)
    assert isinstance(final(lambda: planner.ask("echo_hub", {"model": "demo:target"}), within_s=4), Ready)
    assert all(isinstance(planner.ask("slow_hub", arguments), Waiting) for arguments in stuck)


def test_a_failure_is_not_kept_for_ever(planner: Planner, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(final(lambda: planner.ask("refuse", {"name": "x"})), Failed)
    monkeypatch.setattr("core.planner.TRY_AGAIN_S", 0.0)
    assert isinstance(planner.ask("refuse", {"name": "x"}), Waiting)


def gone(pid: str) -> bool:
    """Whether a process has ended; one that its new parent has not buried yet counts."""
    status = Path("/proc", pid, "stat")
    return not status.exists() or status.read_text().rsplit(")", 1)[1].split()[0] == "Z"


def test_what_a_late_job_has_started_ends_with_it(planner: Planner, tmp_path: Path) -> None:
    arguments = {"pid_file": str(tmp_path / "pid")}
    assert isinstance(final(lambda: planner.ask("start_another", arguments)), Failed)
    assert gone((tmp_path / "pid").read_text())


def test_a_large_answer_arrives_whole(planner: Planner) -> None:
    answer = final(lambda: planner.ask("big", {"bytes": 3_000_000}))
    assert isinstance(answer, Ready)
    assert len(answer.data) == 3_000_000


def test_an_old_answer_stays_when_it_cannot_be_renewed(planner: Planner, tmp_path: Path) -> None:
    arguments = {"file": str(tmp_path / "mark")}
    first = final(lambda: planner.ask("once", arguments))
    assert isinstance(first, Ready)
    assert (first.data, first.problem) == ("first", "")
    planner.ask("once", arguments, again=True)
    later = final(lambda: planner.ask("once", arguments))
    assert isinstance(later, Ready)
    assert (later.data, later.problem) == ("first", "The Hub is gone.")
    assert not planner.ask("once", arguments).renewing  # type: ignore[union-attr]


def test_nothing_begins_while_a_measurement_is_timed(settings: Settings) -> None:
    state = {"timing": True}
    with contextlib.closing(Planner(settings, lambda: state["timing"], tasks=TASKS, light=1)) as planner:
        planner.ask("echo", {"name": "a"})
        planner.ask("echo", {"name": "behind it"})
        time.sleep(0.5)
        for name in ("a", "behind it"):
            assert planner.ask("echo", {"name": name}) == Waiting(HELD)
        assert not (settings.data / "runs").exists()
        state["timing"] = False
        assert isinstance(final(lambda: planner.ask("echo", {"name": "a"})), Ready)


def test_a_store_that_cannot_be_read_holds_nothing_up(settings: Settings) -> None:
    def timing() -> bool:
        raise StoreError("The store is locked.")

    with contextlib.closing(Planner(settings, timing, tasks=TASKS, light=1)) as planner:
        assert isinstance(final(lambda: planner.ask("echo", {"name": "a"})), Ready)


def test_light_jobs_come_without_torch_and_without_transformers(planner: Planner) -> None:
    answer = final(lambda: planner.ask("imports", {"names": ["torch", "transformers", "streamlit"]}))
    assert isinstance(answer, Ready)
    assert answer.data == []


def test_closing_ends_every_process(settings: Settings, tmp_path: Path) -> None:
    planner = Planner(settings, tasks={**TASKS, "hang": Task("tests.plan_jobs:hang", 600)})
    file = tmp_path / "pid"
    planner.ask("hang", {"pid_file": str(file)})
    until_s = time.monotonic() + 20
    while not file.exists() or not file.read_text():
        assert time.monotonic() < until_s
        time.sleep(0.02)
    planner.close()
    assert not Path("/proc", file.read_text()).exists()


def test_a_damaged_answer_is_made_anew(planner: Planner, settings: Settings) -> None:
    final(lambda: planner.ask("echo", {"name": "a"}))
    folder = settings.data / "plan" / "answers"
    (kept,) = folder.iterdir()
    assert json.loads(kept.read_text())["data"]["name"] == "a"
    kept.write_text("{")
    with contextlib.closing(Planner(settings, tasks=TASKS)) as another:
        assert isinstance(final(lambda: another.ask("echo", {"name": "a"})), Ready)
    assert runs(settings) == 2


def test_forgotten_answers_are_gone_and_others_stay(planner: Planner, settings: Settings) -> None:
    folder = settings.data / "plan" / "answers"
    final(lambda: planner.ask("echo", {"name": "a"}))
    final(lambda: planner.ask("imports", {"names": []}))
    planner.forget("echo")
    assert [file.name.split("-")[0] for file in folder.iterdir()] == ["imports"]
    final(lambda: planner.ask("echo", {"name": "a"}))
    assert runs(settings) == 2


def test_the_oldest_answers_go_first(tmp_path: Path) -> None:
    for index in range(5):
        file = tmp_path / f"{index}.json"
        file.write_bytes(b"x" * 100)
        os.utime(file, (index, index))
    answers.prune(tmp_path, 250)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["3.json", "4.json"]
