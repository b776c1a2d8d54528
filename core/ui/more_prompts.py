"""More prompts for a run, or for all drafts of a group: the same settings, the old prompts and new ones."""

import secrets
from collections.abc import Sequence

import streamlit as st

from core.address import address
from core.runs import Prompt, Run, RunSpec
from core.ui import begin_note, decoding_box, look, numbers, prompt_source
from core.ui.desk import read_only, submit

PARAMETER = "more"


def button(key: str = "more_prompts") -> None:
    """Leads from a result to the page that adds prompts to it."""
    why = "A new run with the same settings and more prompts. Answers that the worker still has are reused."
    st.button("Measure more prompts", icon=":material/playlist_add:", key=key, help=why, on_click=_ask)


def asked() -> bool:
    """Whether the address asks for it."""
    return PARAMETER in st.query_params


def show(runs: Sequence[Run]) -> None:
    """Choose the prompts to add, and begin. All runs have the same target, prompts and settings."""
    spec = runs[0].spec
    drafts = list(dict.fromkeys(address(run.spec.draft) for run in runs))
    kept = numbers.counted(len(spec.prompts), "prompt")
    facts = f"Everything else stays: {look.plain(decoding_box.words(spec))}, {spec.dtype}, {look.plain(spec.device)}, seed {spec.seed}."
    replayed = "Their answers are reused as long as the worker has them; they are timed anew, together with the new ones."
    reused = replayed if spec.extent == "full" else "All of it is really run anew, together with the new ones."
    look.headline(f"Add to the {kept} of this run", f":small[:gray[{facts} {reused}]]")
    found = prompt_source.prompt_source(address(spec.target), drafts, spec.max_new_tokens, chat_template=spec.chat_template)
    new = _new(spec.prompts, found)
    if found and not new:
        st.warning("All of these are in the run already. Add others.", icon=":material/content_copy:")
    elif len(new) < len(found):
        look.note(f"{len(found) - len(new)} of {len(found)} are in the run already and count once.")
    with st.container(horizontal=True, vertical_alignment="center"):
        label = f"Measure {len(spec.prompts):,} + {len(new):,} prompts"
        specs = extended([run.spec for run in runs], new)
        if st.button(label, type="primary", icon=":material/timer:", disabled=not new or read_only()):
            submit(*specs)
        st.button("Back to the result", icon=":material/arrow_back:", on_click=_forget)
        if new:
            begin_note.show(specs, kept_answers=len(spec.prompts))


def extended(specs: Sequence[RunSpec], new: Sequence[Prompt]) -> list[RunSpec]:
    """The same runs with `new` prompts behind the old ones; several belong together under an id of their own."""
    group = secrets.token_hex(6) if len(specs) > 1 else ""
    return [spec.model_copy(update={"prompts": (*spec.prompts, *new), "group": group}) for spec in specs]


def _new(old: Sequence[Prompt], found: Sequence[Prompt]) -> tuple[Prompt, ...]:
    """Those that are not there yet, whatever their label."""
    known = {(prompt.text, prompt.messages) for prompt in old}
    return tuple(prompt for prompt in found if (prompt.text, prompt.messages) not in known)


def _ask() -> None:
    st.query_params[PARAMETER] = "prompts"


def _forget() -> None:
    st.query_params.pop(PARAMETER, None)
