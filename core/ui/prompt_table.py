"""The prompts in a table: tokens, label, whether they are included and why not; and what the model reads of one.

Tokens are counted by a planner job; until they are known nothing is left out for its length. All text is shown as text.
"""

from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd
import streamlit as st
from streamlit.elements.lib.column_types import ColumnConfig

from core import prompt_draft, prompt_rows
from core.candidates import Setting, gather
from core.planner import Answer, Failed, Ready, Waiting
from core.prompt_draft import INCLUDE, LABEL, Draft
from core.prompt_rows import Room, Row
from core.prompts import LONGEST_LABEL
from core.runs import Prompt
from core.ui import desk, look, numbers, prompt_kept
from core.ui.begin_note import guessed_tokens

LOOK_AGAIN_S = 1.0
SHOWN_CHARACTERS = 160
PREVIEW_CHARACTERS = 20_000
TABLE_ROWS = 10
ROW_PX = 35
MOST_TOKENS = 4
"""Times as many as are guessed: no tokenizer here makes more of a text, as none makes more than one of a character."""


def table(found: Sequence[Prompt], target: str, room: Room, max_new_tokens: int, *, chat_template: bool) -> tuple[Prompt, ...]:
    """The table, its count, and a preview; the prompts that are included, with their labels. Arguments as `prompt_box.prompt_box`."""
    counts = _counts(found, target, chat_template)
    known = counts.data if isinstance(counts, Ready) else {"tokens": None, "problems": None}
    rows = prompt_rows.judge(found, known["tokens"], room, max_new_tokens, problems=known["problems"], chat_template=chat_template)
    keys = prompt_draft.keys(found)
    kept = prompt_kept.draft()
    editor = f"prompts_{hash(tuple(keys)):x}"
    height = min(len(rows) + 1, TABLE_ROWS + 1) * ROW_PX + 3
    st.data_editor(
        _frame(rows, keys, kept),
        key=editor,
        disabled=["_index", "Prompt", "Tokens", "Note"],
        column_config=_columns(),
        height=height,
        alt="Prompts with their tokens, label, whether they are included, and notes",
    )
    changed = kept.changed(keys, st.session_state[editor]["edited_rows"])
    if changed != kept:
        prompt_kept.save(changed)
        kept = changed
    included = tuple(kept.labelled(key, row.prompt) for key, row in zip(keys, rows, strict=True) if kept.is_included(key, row))
    left = len(rows) - len(included)
    st.markdown(f"**{count(included)}**{f', {left:,} left out' if left else ''}")
    _say(counts, target, found, chat_template)
    if target:
        _preview(rows, target, chat_template)
    return included


def fitting(found: Sequence[Prompt], target: str, room: Room, max_new_tokens: int, *, chat_template: bool) -> tuple[Prompt, ...]:
    """Those that both models can hold, and why the others are left out. Tokens are counted only where that could be close."""
    if not any(room.lacks(MOST_TOKENS * tokens, max_new_tokens) for tokens in guessed_tokens(found)):
        return tuple(found)
    counts = _counts(found, target, chat_template)
    _say(counts, target, found, chat_template)
    if not isinstance(counts, Ready):
        return tuple(found)
    rows = prompt_rows.judge(found, counts.data["tokens"], room, max_new_tokens, problems=counts.data["problems"], chat_template=chat_template)
    left = [row for row in rows if not row.usable]
    if left:
        said = left[0].reason.removeprefix("Left out: ")
        look.note(f":material/info: {len(left)} of {numbers.counted(len(rows), 'prompt')} left out. Prompt {left[0].number}: {look.plain(said)}.")
    return tuple(row.prompt for row in rows if row.usable)


def count(found: Sequence[Prompt]) -> str:
    """How many prompts, and of which labels: 12 prompts: 8 code, 4 chat."""
    labels: dict[str, int] = {}
    for prompt in found:
        labels[prompt.label or "no label"] = labels.get(prompt.label or "no label", 0) + 1
    kinds = ", ".join(f"{number} {look.plain(label)}" for label, number in labels.items())
    return f"{numbers.counted(len(found), 'prompt')}{f': {kinds}' if set(labels) - {'no label'} else ''}"


def pair_room(target: str, drafts: Sequence[str]) -> Room:
    """The longest texts that target and every draft can hold, as far as is known now."""
    view = gather(desk.planner().ask, target, drafts, Setting())
    return Room.of(model.sizes for model in (view.target, *(draft.model for draft in view.drafts)) if model.sizes)


def _frame(rows: Sequence[Row], keys: Sequence[str], kept: Draft) -> pd.DataFrame:
    labels = [kept.labelled(key, row.prompt).label for key, row in zip(keys, rows, strict=True)]
    columns = {
        INCLUDE: [kept.is_included(key, row) for key, row in zip(keys, rows, strict=True)],
        "Prompt": [_short(row.prompt.text) for row in rows],
        "Tokens": pd.array([row.tokens for row in rows], dtype="Int64"),
        LABEL: labels,
        "Note": [row.reason for row in rows],
    }
    return pd.DataFrame(columns, index=pd.Index([row.number for row in rows], name="No."))


def _short(text: str) -> str:
    """The beginning on one line; characters that cannot be seen, or that turn the reading direction of others, are written out."""
    line = "".join(mark if mark.isprintable() else f"\\u{ord(mark):04x}" for mark in " ".join(text[: 4 * SHOWN_CHARACTERS].split()))
    return line[:SHOWN_CHARACTERS] + ("..." if len(line) > SHOWN_CHARACTERS or len(text) > 4 * SHOWN_CHARACTERS else "")


def _columns() -> dict[str, ColumnConfig]:
    config = st.column_config
    return {
        "_index": config.NumberColumn("No.", width=50),
        INCLUDE: config.CheckboxColumn(width=85, help="Whether the prompt is measured."),
        "Prompt": config.TextColumn(width=210),
        "Tokens": config.NumberColumn(width=75, format="localized", help="As the target's tokenizer counts them, chat template included."),
        LABEL: config.TextColumn(width=95, max_chars=LONGEST_LABEL, help="The kind of traffic it stands for; results are shown per label."),
        "Note": config.TextColumn(width=230),
    }


def _counts(found: Sequence[Prompt], target: str, chat_template: bool) -> Answer | None:
    if not target:
        return None
    prompts = [prompt.model_dump(mode="json", exclude={"label"}) for prompt in found]
    return desk.planner().ask("prompt_tokens", {"model": target, "prompts": prompts, "chat_template": chat_template})


def _say(counts: Answer | None, target: str, found: Sequence[Prompt], chat_template: bool) -> None:
    """What is awaited of the counts, or why there are none."""
    if isinstance(counts, Waiting):
        look.note(f":material/hourglass_empty: Counting tokens: {look.plain(counts.why)}")
        st.fragment(_look_again, run_every=LOOK_AGAIN_S)(lambda: _counts(found, target, chat_template))
    elif isinstance(counts, Failed):
        st.warning(f"Tokens are not counted. {look.plain(counts.sentence)}", icon=":material/warning:")


def _look_again(ask: Callable[[], Answer | None]) -> None:
    """Nothing to see; starts the page over when the answer is there."""
    if not isinstance(ask(), Waiting):
        st.rerun()


def _preview(rows: Sequence[Row], target: str, chat_template: bool) -> None:
    """The text of one prompt as the model reads it, special tokens included."""
    if not st.toggle("Show what the model reads", key="prompt_preview", persist_state="session"):
        return
    st.session_state["previewed"] = min(st.session_state.get("previewed", 1), len(rows))
    number = st.number_input("Prompt", min_value=1, max_value=len(rows), step=1, key="previewed", width=160)
    prompt = rows[number - 1].prompt
    answer = _asked(prompt, target, chat_template)
    if isinstance(answer, Waiting):
        look.note(f":material/hourglass_empty: Reading it: {look.plain(answer.why)}")
        st.fragment(_look_again, run_every=LOOK_AGAIN_S)(lambda: _asked(prompt, target, chat_template))
    elif isinstance(answer, Failed):
        st.error(look.plain(answer.sentence), icon=":material/error:")
    else:
        _read_by_model(answer.data)


def _read_by_model(data: dict[str, Any]) -> None:
    text, unknown = str(data["text"]), int(data["unknown"])
    cut = f" The first {PREVIEW_CHARACTERS:,} of {len(text):,} characters." if len(text) > PREVIEW_CHARACTERS else ""
    lost = f" {unknown:,} of them stand for characters that it does not know." if unknown else ""
    look.note(f"{numbers.counted(int(data['tokens']), 'token')}, special tokens included.{lost}{cut}")
    st.code(text[:PREVIEW_CHARACTERS], language=None, wrap_lines=True)


def _asked(prompt: Prompt, target: str, chat_template: bool) -> Answer:
    asked = {"model": target, "prompt": prompt.model_dump(mode="json", exclude={"label"}), "chat_template": chat_template}
    return desk.planner().ask("prompt_preview", asked)
