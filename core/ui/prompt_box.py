"""Prompts of one's own: paste them, upload them, choose among them. Nothing is lost on an error, a page change or a reload."""

from collections.abc import Sequence

import streamlit as st

from core import demo, prompt_text, prompts
from core.errors import InvalidInput
from core.prompt_rows import NO_LIMIT, Room
from core.prompts import Reading
from core.runs import Prompt
from core.ui import look, numbers, prompt_kept, prompt_table, prompt_upload
from core.ui.prompt_kept import is_open

TEXT, _READ = "pasted_prompts", "_pasted_reading"
LONGEST = 8 * prompts.MOST_BYTES
"""Characters that are taken from a browser at all; between `MOST_BYTES` and this a sentence says that it is too much."""
FORMAT = (
    'One prompt per line, or longer prompts separated by lines of `---`, or JSON Lines with `"prompt"`, `"text"` or chat `"messages"`, '
    'and an optional `"label"`.'
)

__all__ = ["bundled", "count", "is_open", "prompt_box"]


def prompt_box(target: str = "", room: Room = NO_LIMIT, max_new_tokens: int = 0, *, chat_template: bool = False) -> tuple[Prompt, ...]:
    """Text area, upload, and the table of what they hold; the prompts that are included, none when they cannot be measured.

    target: address of the model whose tokens are counted, "" for none. room: `prompt_table.pair_room`.
    """
    _pasted_box()
    found = _from_paste(prompt_kept.draft().pasted)
    uploaded = prompt_upload.upload_box()
    every = [*(found.prompts if found else ()), *(uploaded.prompts if uploaded else ())]
    if not every:
        return ()
    included = prompt_table.table(every, target, room, max_new_tokens, chat_template=chat_template)
    try:
        prompts.check(included)
    except InvalidInput as error:
        st.error(look.plain(str(error)), icon=":material/error:")
        return ()
    return included


def bundled() -> tuple[Prompt, ...]:
    """The prompts of the embedded pair, to be read."""
    found = demo.prompts()
    st.markdown(f"**{count(found)}**")
    with st.expander("Read them"):
        for prompt in found:
            st.code(prompt.text, language=None, wrap_lines=True)
    return found


def count(found: Sequence[Prompt]) -> str:
    """How many prompts, and of which labels: 12 prompts: 8 code, 4 chat."""
    return prompt_table.count(found)


def _pasted_box() -> None:
    if TEXT not in st.session_state:
        st.session_state[TEXT] = prompt_kept.draft().pasted
    hint = "Paste real traffic"
    st.text_area("Prompts", height=200, key=TEXT, max_chars=LONGEST, on_change=_save_text, label_visibility="collapsed", placeholder=hint)
    look.note(FORMAT)


def _save_text() -> None:
    prompt_kept.save(prompt_kept.draft().model_copy(update={"pasted": st.session_state[TEXT]}))


def _from_paste(text: str) -> Reading | None:
    if not text.strip():
        return None
    size_bytes = len(text.encode(errors="surrogatepass"))
    if size_bytes > prompts.MOST_BYTES:
        most = numbers.file_size(prompts.MOST_BYTES)
        st.error(f"{size_bytes / 1e6:.2f} MB were pasted. Paste at most {most}, or upload them as a file.", icon=":material/error:")
        return None
    known = st.session_state.get(_READ)
    if known is None or known[0] != text:
        known = st.session_state[_READ] = (text, prompt_text.read(text))
    found: Reading = known[1]
    prompt_upload.report(found, "what was pasted", "pasted")
    return found
