"""A side-by-side run that has ended: the verdict in a sentence, what it rests on, the replay, and what was thrown away.

The columns and the chart on one clock are the player (`core.player`), the same document that is exported. A speedup is decode only
unless it says otherwise, and "same answer" is said after comparing token by token in greedy decoding only.
"""

import streamlit as st

from core import numbers, privacy, side
from core.errors import DraftgaugeError, StoreError
from core.player import ENDED, OUTCOMES, Placed, lane_name, player
from core.runs import Run
from core.side_prediction import Prediction, predict
from core.ui import desk, look, provenance, result, side_prompt, side_tables
from core.ui.frame import page_path
from core.ui.kept_download import kept

SAMPLED = (
    "The texts need not be the same: sampling draws every token, and plain and assisted decoding use up the random numbers in another order, "
    "so the same seed does not mean the same text. Unless a setting is lossy, all are drawn from the same distribution."
)
EQUALITY: dict[side.Equality, tuple[str, str, str]] = {
    "equal": ("green", "check", "outputs equal"),
    "near tie": ("gray", "balance", "near tie"),
    "real difference": ("red", "error", "real difference"),
    "unexplained": ("orange", "help", "difference not explained"),
    "sampled": ("gray", "casino", "sampled, not comparable"),
    "lossy": ("orange", "blur_on", "lossy setting"),
    "unfinished": ("gray", "stop_circle", "not finished"),
}
"""Colour, icon and words of the badge."""


def show(run: Run, note: str = "") -> None:
    """Everything about one run; `note` says whose it is."""
    result.pair_header(run, note)
    headline(run)
    _ended(run)
    for lane in range(1, len(run.spec.lanes)):
        _difference(run, lane)
    _prompt(run)
    if not run.steps:
        return
    st.iframe(_player(run, "page"), alt="Replay of all columns on one clock")
    side_tables.folded(run)
    provenance.provenance(run)


def example() -> None:
    """The bundled recorded run, for who has no model yet."""
    try:
        run = desk.side_example()
    except StoreError as error:
        st.error(look.plain(str(error)), icon=":material/error:")
        return
    st.subheader(f"A recorded example: {title(run)}", anchor=False)
    st.markdown(facts(run))
    st.iframe(_player(run, "below a form"), alt="Replay of the recorded example")
    st.page_link(page_path("side_by_side"), label="Open the example", icon=":material/open_in_full:", query_params={"run": desk.EXAMPLE})


def _player(run: Run, placed: Placed) -> str:
    return player(run, theme="dark" if st.context.theme.type == "dark" else "light", placed=placed)


def headline(run: Run) -> None:
    """The page's sentence and its facts, for the second column; a third is named in the facts."""
    look.headline(title(run), "\n\n".join(part for part in (facts(run), _chance(run), _gap(run)) if part))


def title(run: Run) -> str:
    """What became of the text, and how fast: never "same" where it was not compared."""
    found, speed = side.comparison(run, 1), side.speedup(run, 1)
    if found.equality == "unfinished" or speed is None:
        return OUTCOMES[found.equality]
    said, shown = numbers.speed(speed), round(speed, 2)
    colour = "green" if shown > 1 else "orange" if shown < 1 else ""
    own = lane_name(run, 1).lower() if run.spec.lanes[1].policy.kind == "lookup" else "this draft"
    end = f": slower with {look.plain(own)}" if shown < 1 else ""
    return f"{OUTCOMES[found.equality]}, {f':{colour}[{said}]' if colour else said}{end}"


def facts(run: Run) -> str:
    """Rounds instead of steps, the prediction, end to end, how all that is known."""
    if side.comparison(run, 1).equality == "unfinished":
        return ""
    plain = side.lane_figures(run, 0)
    parts = [f"{numbers.counted(plain.tokens, 'token')} in {numbers.counted(plain.rounds, 'step')} plain."]
    parts += [_fact(run, lane) for lane in range(1, len(run.spec.lanes))]
    found = prediction(run)
    if isinstance(found, Prediction):
        parts.append(f"Predicted for this prompt: **{numbers.ratio(found.speedup)}**.")
    parts += [look.ORIGINS["measured"], *_badges(run)]
    parts.append(":small[:gray[one prompt, run once; for the setting see Choose gamma]]")
    return " ".join(parts)


def _badges(run: Run) -> list[str]:
    """One badge where every column came to the same, else one for each with its name."""
    found: dict[int, side.Equality] = {lane: side.comparison(run, lane).equality for lane in range(1, len(run.spec.lanes))}
    alike = len(set(found.values())) == 1
    shown: list[tuple[side.Equality, str]] = (
        [(found[1], "")] if alike else [(equality, f"{look.plain(lane_name(run, lane))}: ") for lane, equality in found.items()]
    )
    return [f":{colour}-badge[:material/{icon}: {name}{words}]" for equality, name in shown for colour, icon, words in [EQUALITY[equality]]]


def _fact(run: Run, lane: int) -> str:
    own, whole, speed = side.lane_figures(run, lane), side.end_to_end(run, lane), side.speedup(run, lane)
    name = look.plain(lane_name(run, lane))
    acceptance = f", acceptance {own.acceptance:.2f}" if own.acceptance is not None else ""
    said = f"{name}: {numbers.counted(own.tokens, 'token')} in {numbers.counted(own.rounds, 'round')}{acceptance}"
    if whole is None:
        return f"{said}."
    decode = f"**{numbers.ratio(speed)}** in decoding, " if speed else "too short for a speedup in decoding, "
    return f"{said}, {decode}**{numbers.ratio(whole)}** end to end, reading the prompt included."


def _chance(run: Run) -> str:
    """Why texts differ under sampling."""
    return f":small[:gray[{SAMPLED}]]" if run.spec.decoding.sample and side.comparison(run, 1).equality != "unfinished" else ""


def _gap(run: Run) -> str:
    if side.comparison(run, 1).equality == "unfinished":
        return ""
    found = prediction(run)
    said = found.sentence if isinstance(found, Prediction) else found
    return f":small[:gray[{look.plain(said)}]]" if said else ""


@st.cache_resource(max_entries=32, show_spinner=False)
def _predicted(run_id: str, reference: str, share_id: str) -> Prediction:
    """The prediction, kept as in `core.ui.desk`. Why there is none is not kept: a store that is locked, or a reference that runs, is so for now."""
    del share_id  # part of the key alone
    own = desk.side_example() if run_id == desk.EXAMPLE else desk.desk()[0].get(run_id, traces=True)
    known = desk.example() if reference == desk.EXAMPLE else desk.desk()[0].get(reference, traces=True)
    return predict(own, known, 1)


def prediction(run: Run) -> Prediction | str:
    """What the reference predicts for the second column; a sentence where it cannot, "" where there is no reference."""
    if not run.spec.reference:
        return ""
    try:
        return _predicted(run.id, run.spec.reference, run.share_id)
    except DraftgaugeError as error:
        return str(error)


def _difference(run: Run, lane: int) -> None:
    """Where a column parts from plain: in words for rounding and chance, as an error for anything else."""
    found, name = side.comparison(run, lane), look.plain(lane_name(run, lane))
    if found.equality == "lossy" and found.token is None:
        look.note(f":material/blur_on: {name}: the draft has a say in this text, so it is not drawn as the target would draw it.")
    if found.token is None:
        return
    margin = "" if found.margin is None else f" Both choices are {found.margin:.2g} apart in float32."
    texts = f": {look.code(_token(run, 0, found.token))} became {look.code(_token(run, lane, found.token))}" if privacy.has_texts(run) else ""
    where = f"{name} parts from plain at token {found.token + 1}{texts}.{margin}"
    match found.equality:
        case "real difference":
            st.error(f"{where} That is more than rounding explains: a bug in the model, the library, or here.", icon=":material/error:")
        case "near tie":
            look.note(f":material/balance: {where} Rounding decides there; both texts are what the target says.")
        case "lossy":
            look.note(f":material/blur_on: {where} The draft has a say in this text, so it is not the target's answer.")
        case _:
            st.warning(f"{where} Whether rounding explains it was not found out.", icon=":material/help:")


def _token(run: Run, lane: int, number: int) -> str:
    pieces = [piece for step in side.steps_of(run.steps, lane) for piece in step.pieces]
    return pieces[number] if number < len(pieces) else "end of text"


def _ended(run: Run) -> None:
    """What happened to a run that did not finish, and that what was written is kept."""
    if run.status in ENDED:
        count = sum(len(step.tokens) for step in run.steps)
        kept = f"Kept: {numbers.counted(count, 'token')}, shown below." if count else "Nothing had been written."
        reason = f" {look.plain(run.error)}" if run.error else ""
        st.warning(f"**{ENDED[run.status]}.**{reason} {kept}", icon=result.STATUS_ICONS[run.status])
    if run.disturbed:
        look.note(":material/warning: Something else used the machine meanwhile; the times are less certain than usual.")


def _prompt(run: Run) -> None:
    prompt = run.spec.prompts[0]
    shown = prompt.messages or ()
    with st.expander(f"Prompt: {look.plain(side_prompt.short(prompt.text))}", icon=":material/chat:"):
        for turn in shown[:-1]:
            look.note(look.plain(turn.role))
            st.code(turn.content, language=None, wrap_lines=True)
        st.code(prompt.text, language=None, wrap_lines=True)


def download(run: Run) -> None:
    """The replay as one file that plays in any browser, with texts or without; with none where texts may not leave."""
    if not run.steps:
        return
    name = f"side-by-side-{run.id}"
    may_leave = privacy.has_texts(run) and not desk.settings().read_only
    with st.popover("Export the replay", icon=":material/download:"):
        look.note("One HTML file that plays in any browser, without a server and without a network.")
        if may_leave:
            file = f"{name}.html"
            whole = kept(lambda: player(run), file, "text/html")
            st.download_button("With texts", whole, file, "text/html", key="side_texts", on_click="ignore", icon=":material/article:")
        file = f"{name}-no-texts.html"
        bare = kept(lambda: player(run, texts=False), file, "text/html")
        st.download_button("Without texts", bare, file, "text/html", key="side_bare", on_click="ignore", icon=":material/lock:")
