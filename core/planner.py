"""Short jobs for the pages: read a model's metadata, compare vocabularies, size a cache.

They take seconds, may hang on a slow network, and hold the interpreter, so that none of them runs
in the web process: each runs in a `python -m core.plan` process, which is killed when its time is
up. Answers are kept on disk, so that asking again is a file read. `ask` never waits: pages ask
again until the answer is there. While a measurement is being timed no job is begun, because it
would disturb the clock. Times in seconds. Not covered: work that needs a device (the bench's).
"""

import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from core import answers
from core.address import resolve
from core.answers import Made
from core.errors import InvalidInput, StoreError
from core.plan_child import PlanChild
from core.settings import Settings
from core.stamp import stamp

MOST_REMEMBERED = 500
IDLE_S = 90.0
LOOK_AGAIN_S = 0.25
TRY_AGAIN_S = 300.0
"""How long a failed job is left alone before somebody who asks for it starts it anew."""
REPLACEABLE = ("folder:", "gguf:")
LOCAL = ("demo:", *REPLACEABLE)
"""How the addresses of models on this machine begin."""
QUEUED = "waiting for its turn"
WORKING = "reading"
HELD = "waiting until the timed part of a measurement is over"


@dataclass(frozen=True)
class Task:
    """A job's function, its longest time, whether it needs torch, for how long its answer is good (None: for ever), and whether it asks
    the network unless its model is on this machine.
    """

    function: str
    limit_s: float
    heavy: bool = False
    good_for_s: float | None = None
    network: bool = False


TASKS = {
    "describe": Task("core.plan.describe:describe", 60, good_for_s=86_400, network=True),
    "search": Task("core.plan.search:search", 20, good_for_s=3_600, network=True),
    "compare": Task("core.plan.vocabulary:compare_stored", 30),
    "profile": Task("core.plan.cache_profile:profile", 60, heavy=True),
    "heads": Task("core.plan.own_heads:own_heads", 60, heavy=True),
    "import_prompts": Task("core.plan.import_prompts:import_prompts", 60),
    "prompt_tokens": Task("core.plan.prompt_tokens:prompt_tokens", 120, heavy=True, good_for_s=86_400),
    "prompt_preview": Task("core.plan.prompt_tokens:prompt_preview", 120, heavy=True, good_for_s=86_400),
    "report": Task("core.plan.report:report", 60, good_for_s=86_400),
    "import_run": Task("core.plan.import_run:import_run", 60),
    "prices": Task("core.plan.price_refresh:refresh", 60, good_for_s=3_600, network=True),
}


@dataclass(frozen=True)
class Ready:
    """An answer, and how long ago it was made. problem: why it could not be renewed since; renewing: it is being made anew."""

    data: Any
    age_s: float
    problem: str = ""
    renewing: bool = False


@dataclass(frozen=True)
class Waiting:
    """No answer yet, and why."""

    why: str


@dataclass(frozen=True)
class Failed:
    """There is no answer; the sentence says what was wrong and what to do. unbuildable: no model can be made of the config (`ConfigError`)."""

    sentence: str
    unbuildable: bool = False


Answer = Ready | Waiting | Failed
Arguments = dict[str, Any]


@dataclass(frozen=True)
class _State:
    """What is known of one job. waiting: why it is not done, "" when it is not under way; failed, unbuildable: how the last try ended.

    tried_s: when that was, by the clock that nobody sets (`time.monotonic`); None for never.
    """

    made: Made | None = None
    waiting: str = ""
    failed: str = ""
    unbuildable: bool = False
    tried_s: float | None = None

    def answer(self) -> Answer:
        if self.made is not None:
            return Ready(self.made.data, max(0.0, time.time() - self.made.made_s), self.failed, bool(self.waiting))
        return Waiting(self.waiting) if self.waiting else Failed(self.failed, self.unbuildable)


@dataclass(frozen=True)
class _Job:
    key: str
    task: str
    arguments: Arguments


Lane = queue.Queue[_Job | None]


class Planner:
    """Hands jobs to a few processes and keeps their answers. Safe to use from several threads; one per server."""

    def __init__(
        self, settings: Settings, timing: Callable[[], bool] = lambda: False, *, tasks: dict[str, Task] | None = None, light: int = 3
    ) -> None:
        """`timing` says whether a measurement is being timed now; it may raise StoreError.

        light: processes for jobs without torch, and as many for those that ask the network, so that a slow Hub holds up nothing else.
        """
        self._settings, self._timing, self._tasks = settings, timing, tasks or TASKS
        self._folder = settings.data / "plan" / "answers"
        self._lock = threading.Lock()
        self._states: dict[str, _State] = {}
        self._closed, self._held = threading.Event(), False
        self._light, self._network, self._heavy = Lane(), Lane(), Lane()
        lanes = [*([self._light, self._network] * light), self._heavy]
        self._threads = [threading.Thread(target=self._serve, args=(lane,), name="draftgauge-plan", daemon=True) for lane in lanes]
        for thread in self._threads:
            thread.start()

    def ask(self, task: str, arguments: Arguments, *, again: bool = False) -> Answer:
        """The answer, or why there is none yet; starts the job when nobody has.

        arguments: JSON; equal ones get the same answer, as long as the files of a "model" on this machine stay the same. An old answer is
        given while it is being renewed.
        again: do the job anew, even where an answer or a failure is kept.
        """
        key = answers.key(task, arguments, self._files(arguments))
        with self._lock:
            state = self._states.get(key) or _State(answers.read(self._folder, key))
            if not state.waiting and (again or self._due(task, state)):
                state = replace(state, waiting=QUEUED, failed="")
                self._lane(task, arguments).put(_Job(key, task, arguments))
            self._remember(key, state)
        answer = state.answer()
        return Waiting(HELD) if self._held and answer == Waiting(QUEUED) else answer

    def forget(self, task: str) -> None:
        """Drop a task's answers, here and on the disk, so that nothing is left of what they were made from. Raises StoreError."""
        with self._lock:
            for key in [key for key, state in self._states.items() if key.startswith(f"{task}-") and not state.waiting]:
                del self._states[key]
            try:
                answers.forget(self._folder, task)
            except OSError as error:
                raise StoreError(f"Answers in {self._folder} cannot be deleted ({error.strerror}). Delete the folder yourself.") from error

    def close(self) -> None:
        """End the processes. Jobs that were waiting are dropped."""
        self._closed.set()
        for _ in self._threads:
            for lane in (self._light, self._network, self._heavy):
                lane.put(None)
        for thread in self._threads:
            thread.join()

    def _files(self, arguments: Arguments) -> str:
        """Which files a model on this machine has now: somebody may put others in their place."""
        named = str(arguments.get("model", ""))
        if not named.startswith(REPLACEABLE):
            return ""
        try:
            return stamp(Path(resolve(named, self._settings).path))
        except InvalidInput:  # the job says what is wrong
            return ""

    def _lane(self, task: str, arguments: Arguments) -> Lane:
        if self._tasks[task].heavy:
            return self._heavy
        local = str(arguments.get("model", "")).startswith(LOCAL)
        return self._network if self._tasks[task].network and not local else self._light

    def _due(self, task: str, state: _State) -> bool:
        """Whether a job has never been done, or its answer is too old, and it was not tried lately.

        An answer from the future, made before the clock was set back, may have any age.
        """
        if state.tried_s is not None and time.monotonic() - state.tried_s < TRY_AGAIN_S:
            return False
        good_for_s = self._tasks[task].good_for_s
        return state.made is None or (good_for_s is not None and not 0 <= time.time() - state.made.made_s <= good_for_s)

    def _remember(self, key: str, state: _State) -> None:
        """With the lock held. The states that were asked for longest ago go first; those under way stay."""
        self._states.pop(key, None)
        self._states[key] = state
        spare = len(self._states) - MOST_REMEMBERED
        for old in [old for old, kept in self._states.items() if not kept.waiting][: max(0, spare)]:
            del self._states[old]

    def _change(self, key: str, **changes: Any) -> None:
        with self._lock:
            self._remember(key, replace(self._states.get(key, _State()), **changes))

    def _serve(self, lane: Lane) -> None:
        """One process: started anew after it died, and none while there has been nothing to do for long."""
        child = PlanChild(self._settings)
        while not self._closed.is_set():
            try:
                job = lane.get(timeout=IDLE_S)
            except queue.Empty:
                child.stop()
                continue
            if job is not None and self._quiet_now(job.key):
                self._do(child, job)
        child.stop()

    def _do(self, child: PlanChild, job: _Job) -> None:
        task = self._tasks[job.task]
        self._change(job.key, waiting=WORKING)
        try:
            reply = child.do(task.function, job.arguments, task.limit_s, self._closed)
        except OSError as error:
            reply = {"error": f"The job could not be started ({error.strerror}). Free some memory or disk space and try again."}
        if "error" in reply:
            self._change(job.key, waiting="", failed=str(reply["error"]), unbuildable=reply.get("unbuildable") is True, tried_s=time.monotonic())
            return
        made = Made(reply["data"], time.time())
        answers.keep(self._folder, job.key, made)
        self._change(job.key, made=made, waiting="", failed="", tried_s=time.monotonic())

    def _quiet_now(self, key: str) -> bool:
        """Wait until nothing is being timed; False when the planner closes meanwhile."""
        while not self._closed.is_set():
            self._held = self._is_timing()
            if not self._held:
                return True
            self._change(key, waiting=HELD)
            self._closed.wait(LOOK_AGAIN_S)
        return False

    def _is_timing(self) -> bool:
        try:
            return self._timing()
        except StoreError:  # where runs are shown says so; models can be looked at all the same
            return False
