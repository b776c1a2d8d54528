"""Upload a file of prompts: which column or which separation to read, what was left out and why."""

import streamlit as st

from core import prompt_files
from core.errors import DraftgaugeError, InvalidInput
from core.planner import Answer, Failed, Ready
from core.prompt_draft import Upload
from core.prompt_files import Choice
from core.prompts import Reading, Shape
from core.ui import desk, look, prompt_kept

SHAPES: dict[Shape, str] = {"lines": "One per line", "paragraphs": "Empty lines between", "separated": "--- between"}
NO_LABEL = ""
LOOK_AGAIN_S = 1.0
NAMED_AT_ONCE = 3
_COUNT, _PROBLEM = "_prompt_uploads", "_upload_problem"


def upload_box() -> Reading | None:
    """The uploader and, once there is a file, how it is read; its prompts, None while there are none. No files are kept where runs are only shown."""
    if not desk.read_only():
        file = f"prompt_file_{st.session_state.setdefault(_COUNT, 0)}"
        most = prompt_files.LARGEST_BYTES // 2**20 + 1
        kinds = list(prompt_files.KINDS)
        st.file_uploader("Or upload a file", type=kinds, max_upload_size=most, key=file, on_change=_take, args=(file,))
    problem = st.session_state.get(_PROBLEM, "")
    if problem:
        st.error(look.plain(problem), icon=":material/error:")
    upload = prompt_kept.draft().upload
    if upload is None:
        return None
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(f":material/description: {look.code(upload.name)}")
        st.button("Remove", key="remove_prompts", icon=":material/close:", type="tertiary", on_click=_remove)
    found = upload.reading or _read(upload)
    if found is not None:
        _choices(found, upload.file)
        report(found, f"the file {upload.name}", "uploaded")
    return found


def report(found: Reading, source: str, key: str) -> None:
    """How it was read, and what was left out: the first few reasons, the others folded away."""
    for note in found.notes:
        look.note(look.plain(note))
    if not found.refused:
        return
    reasons = [f"{refused.where} {refused.why}" for refused in found.refused]
    more = found.refused_count - NAMED_AT_ONCE
    listed = "; ".join(reasons[:NAMED_AT_ONCE]) + (f"; and {more:,} more" if more > 0 else "")
    sentence = look.plain(f"Left out of {source}: {listed}.")
    if found.found:
        st.warning(sentence, icon=":material/filter_alt:")
    else:
        st.error(sentence, icon=":material/error:")
    if more > 0:
        with st.expander(f"The first {len(reasons)} of {found.refused_count:,} left out", key=f"refused_{key}"):
            st.text("\n".join(reasons))


def _take(widget: str) -> None:
    """Keep the file that was just chosen; taking it out of the widget takes its prompts out."""
    st.session_state.pop(_PROBLEM, None)
    file = st.session_state[widget]
    upload = None
    try:
        if file is not None:
            upload = Upload(name=file.name, file=prompt_files.keep(file.getvalue(), desk.settings()))
    except DraftgaugeError as error:
        st.session_state[_PROBLEM] = str(error)
        return
    prompt_kept.save(prompt_kept.draft().model_copy(update={"upload": upload}))


def _remove() -> None:
    """A widget of a new key is an empty one."""
    st.session_state[_COUNT] += 1
    st.session_state.pop(_PROBLEM, None)
    prompt_kept.save(prompt_kept.draft().model_copy(update={"upload": None}))


def _read(upload: Upload) -> Reading | None:
    """The file's prompts: a small one's at once, a large one's from a job; kept in the draft once they are there."""
    try:
        found = _ask(upload) if prompt_files.kept_bytes(upload.file, desk.settings()) > prompt_files.LARGE_BYTES else _at_once(upload)
    except InvalidInput as error:
        st.error(look.plain(str(error)), icon=":material/error:")
        return None
    if found is not None:
        kept = upload.model_copy(update={"reading": found})
        prompt_kept.save(prompt_kept.draft().model_copy(update={"upload": kept}))
    return found


def _at_once(upload: Upload) -> Reading:
    return prompt_files.read_file(upload.name, prompt_files.kept(upload.file, desk.settings()), upload.choice)


def _ask(upload: Upload) -> Reading | None:
    """Raises InvalidInput with the job's sentence."""
    answer = _answer(upload)
    if isinstance(answer, Ready):
        return Reading.model_validate(answer.data)
    if isinstance(answer, Failed):
        raise InvalidInput(answer.sentence)
    look.note(f":material/hourglass_empty: Reading the file: {look.plain(answer.why)}")
    st.fragment(_look_again, run_every=LOOK_AGAIN_S)(upload)
    return None


def _answer(upload: Upload) -> Answer:
    return desk.planner().ask("import_prompts", {"file": upload.file, "name": upload.name, "choice": upload.choice.model_dump(mode="json")})


def _look_again(upload: Upload) -> None:
    """Nothing to see; starts the page over when the answer is there."""
    if isinstance(_answer(upload), Ready | Failed):
        st.rerun()


def _choices(found: Reading, file: str) -> None:
    """What can be chosen about this kind of file. Every reading gets widgets of its own, which show how it was read."""
    if found.columns:
        columns = list(found.columns)
        labels = [NO_LABEL, *(column for column in columns if column not in (NO_LABEL, found.prompt_column))]
        tag = f"{file[:8]} {found.prompt_column} {found.label_column}"
        how = {"on_change": _choose, "args": (tag,)}
        with st.container(horizontal=True):
            st.selectbox("Column of prompts", columns, index=columns.index(found.prompt_column), key=f"prompt_column {tag}", **how)
            at = labels.index(found.label_column)
            st.selectbox("Column of labels", labels, index=at, format_func=_label_name, key=f"label_column {tag}", **how)
    elif found.shape:
        shapes, tag = list(SHAPES), f"{file[:8]} {found.shape}"
        at, how = shapes.index(found.shape), {"on_change": _choose, "args": (tag,), "width": 260}
        st.selectbox("Prompts are separated by", shapes, index=at, format_func=SHAPES.__getitem__, key=f"prompt_shape {tag}", **how)


def _label_name(column: str) -> str:
    return column or "none"


def _choose(tag: str) -> None:
    """Read the file anew as chosen; where it is gone, what was read of it stays."""
    kept = prompt_kept.draft()
    if kept.upload is None:
        return
    if not prompt_files.kept_bytes(kept.upload.file, desk.settings()):
        st.toast("The uploaded file is no longer kept here. Upload it again to read it another way.", icon=":material/error:")
        return
    chosen = {name: st.session_state.get(f"{name} {tag}") for name in ("prompt_column", "label_column")}
    choice = Choice(shape=st.session_state.get(f"prompt_shape {tag}"), **chosen)
    prompt_kept.save(kept.model_copy(update={"upload": kept.upload.model_copy(update={"choice": choice, "reading": None})}))
