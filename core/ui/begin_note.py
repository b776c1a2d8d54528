"""What pressing the button will begin: how many runs, and about how long they take. An estimate (`core.estimate_time`), and said to be one."""

from collections.abc import Sequence
from dataclasses import replace

import streamlit as st

from core import demo, wait
from core.address import address
from core.candidates import Setting, gather
from core.errors import StoreError
from core.estimate_time import Speed, estimate_time, guessed_speed, known_speed
from core.runs import Prompt, Run, RunSpec, Stage
from core.store import Store
from core.ui import desk, look, numbers

CHARACTERS_PER_TOKEN = 3.5
"""Of English text and code in usual vocabularies; only estimates use it."""
NEWEST = 50


def show(specs: Sequence[RunSpec], kept_answers: int = 0) -> None:
    """One quiet line beside the button. kept_answers: of how many prompts the worker has the answers already, if it still runs."""
    several = _several(specs)
    store, _ = desk.desk()
    speeds = [speed for spec in specs if (speed := _speed(spec, store))]
    if len(speeds) < len(specs):
        look.note(f"{several}How long it takes is not known before the models' sizes are.")
        return
    total_s = confirming_s = 0.0
    for at, (spec, speed) in enumerate(zip(specs, speeds, strict=True)):
        if spec.extent != "full":
            total_s += wait.run_seconds(spec, guessed_tokens(spec.prompts), speed)
            continue
        kept = len(spec.prompts) if at else kept_answers
        found = estimate_time(spec, guessed_tokens(spec.prompts), speed, known_answers=kept, further=at > 0)
        total_s += found.total_s
        confirming_s += found.stages["confirming"] if spec.confirm_s else 0.0
    measured = all(speed.origin == "measured" for speed in speeds)
    why = "from earlier runs of this pair here" if measured else "a guess from sizes: it may be half or twice as long"
    most = f", at most {numbers.duration(confirming_s)} of it real runs that confirm" if confirming_s else ""
    look.note(f"{several}About {numbers.duration(total_s)}{most} {look.ORIGINS['estimate']} {why}.")


def _several(specs: Sequence[RunSpec]) -> str:
    """How many runs there will be, and what each is."""
    real = sum(len(spec.lanes) - 1 for spec in specs if spec.extent == "ways")
    replayed = sum(spec.extent != "ways" for spec in specs)
    parts = ["One run per draft, one after the other; the target answers and is timed once. "] if replayed > 1 else []
    if real:
        parts.append(f"Plain decoding and {numbers.counted(real, 'way')} really write every prompt. ")
    return "".join(parts)


def run_stages(spec: RunSpec) -> dict[Stage, float] | None:
    """About how long each stage of a run takes by itself, from everybody's runs, because the queue is; None while that is unknown."""
    speed = _speed(spec, desk.everybodys())
    return wait.run_stages(spec, guessed_tokens(spec.prompts), speed) if speed else None


def guessed_tokens(prompts: Sequence[Prompt]) -> list[int]:
    """About how many tokens each prompt has, from its characters."""
    characters = [sum(len(turn.content) for turn in prompt.messages) or len(prompt.text) for prompt in prompts]
    return [max(1, round(count / CHARACTERS_PER_TOKEN)) for count in characters]


def _speed(spec: RunSpec, store: Store) -> Speed | None:
    """From the pair's newest run in `store`; else from the bundled example or the models' sizes, which is a guess."""
    alike = [run.id for run in store.recent(NEWEST) if run.status == "done" and (run.spec.target, run.spec.draft) == (spec.target, spec.draft)]
    known = known_speed([_finished(run_id) for run_id in alike[:3]], spec)
    if known:
        return known
    example = _example()
    found = known_speed([example], spec) if example else None
    return replace(found, origin="guess") if found else _guess(spec, example)


def _example() -> Run | None:
    """The bundled example; the page works without it, and the start page says when it is damaged."""
    try:
        return desk.example()
    except StoreError:
        return None


@st.cache_resource(max_entries=8, show_spinner=False)
def _finished(run_id: str) -> Run:
    return desk.everybodys().get(run_id)


def _guess(spec: RunSpec, example: Run | None) -> Speed | None:
    """From parameters and layers: the bundled pair's are in its example run, the others' known when the planner has read them."""
    where = example.environment if example else None
    if spec.target == demo.TARGET and spec.draft == demo.DRAFT and where:
        sizes = ((where.target_parameters, where.target_layers), (where.draft_parameters, where.draft_layers))
        return guessed_speed(spec.device, spec.dtype, *sizes)
    view = gather(desk.planner().ask, address(spec.target), [address(spec.draft)], Setting())
    target, draft = view.target.shape, view.drafts[0].model.shape
    if target is None or draft is None:
        return None
    return guessed_speed(spec.device, spec.dtype, (target.parameters, target.layers), (draft.parameters, draft.layers))
