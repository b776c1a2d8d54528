"""What several pages show of a run: whose numbers they are, the verdict in a sentence, the facts under it."""

import streamlit as st

from core import verdict
from core.analysis import Analysis, sentence_case
from core.figures import Floats
from core.imports import is_record
from core.policies import TransformersDefault, describe
from core.recommend import Recommendation
from core.runs import Run, RunSpec, Status
from core.ui import decoding_box, explore, look, numbers, parting, runs_columns
from core.verdict import assisted, differing
from core.way_results import draft_name

STATUS_ICONS: dict[Status, str] = {
    "queued": ":material/hourglass_empty:",
    "running": ":material/pending:",
    "done": ":material/check_circle:",
    "failed": ":material/error:",
    "cancelled": ":material/stop_circle:",
    "interrupted": ":material/power_off:",
}


def pair_name(run: Run) -> str:
    """Target and draft in words."""
    return f"{run.spec.target.name} with {run.spec.draft.name}"


def pair_header(run: Run, note: str = "") -> None:
    """One line that says whose numbers these are; the same on every page."""
    spec = run.spec
    device = run.environment.device_name if run.environment else spec.device
    facts = f"{look.plain(device)}, {spec.dtype}, {_asked(spec)}"
    if run.imported is not None:
        facts = f"{_origin(run)} {'' if is_record(run) else facts}"
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        target = f":blue-badge[:material/neurology: target {look.plain(spec.target.name)}]"
        badges = " ".join(f":green-badge[:material/edit: draft {look.plain(name)}]" for name in drafts(run))
        st.markdown(f"{target} {badges} :small[:gray[{f'{note}. ' if note else ''}{facts}]]")


def _asked(spec: RunSpec) -> str:
    """How it decodes and over how many prompts; where only passes are timed, of which weights."""
    if spec.extent == "shapes":
        return f"{'random weights, built from the configs' if spec.random_weights else 'its own weights'}. Single passes, no prompts."
    size = f"{numbers.counted(len(spec.prompts), 'prompt')}, at most {numbers.counted(spec.max_new_tokens, 'token')} each."
    return f"{look.plain(decoding_box.words(spec))}. {'Smoke test: one prompt, eight tokens.' if spec.extent == 'smoke' else size}"


def drafts(run: Run) -> list[str]:
    """Every draft of a run in several ways, which may be none; else the one there is."""
    if run.spec.extent != "ways":
        return [run.spec.draft.name]
    return list(dict.fromkeys(name for lane in run.spec.lanes if (name := draft_name(run, lane))))


def _origin(run: Run) -> str:
    """That a run was not measured here, and whether its file was edited."""
    assert run.imported is not None
    return f"{look.ORIGINS['imported']} {look.plain(run.imported.definition) if not is_record(run) else ''}".strip()


def sentence(advice: Recommendation) -> str:
    """The verdict in one line, for a headline, its speedup in the colour of what it means."""
    return verdict.sentence(advice, mark)


def mark(text: str, tone: verdict.Tone) -> str:
    """Teal is faster, orange slower."""
    return f":green[{text}]" if tone == "faster" else f":orange[{text}]"


def facts(analysis: Analysis) -> str:
    """Both intervals, how they are known, and what the formula would have said."""
    advice = analysis.advice
    parts: list[str] = []
    if advice.verdict != "use":
        parts.append(
            f"So far {describe(advice.policy)} gives" if advice.verdict == "undecided" else f"{sentence_case(describe(advice.policy))} gives"
        )
    value = "" if advice.verdict == "use" else f"{numbers.ratio(advice.speedup)} "
    if advice.on_these_prompts:
        parts.append(f"**{value}{numbers.interval(advice.on_these_prompts)}** on these prompts;")
    elif value:
        parts.append(f"**{value.strip()}** on these prompts;")
    traffic = numbers.interval(advice.for_traffic)
    parts.append(f"**{traffic}** for traffic like these." if traffic else "too few prompts for an interval for other traffic.")
    parts.append(look.ORIGINS[verdict.origin(analysis)])
    parts.append(f":small[:gray[{verdict.formula(analysis)}]]")
    return " ".join(parts)


def reasons(analysis: Analysis) -> str:
    """Why this answer, beyond what the facts say: the traffic, the runner-up, what was not tried."""
    return look.plain(verdict.reasons(analysis))


def headline(analysis: Analysis) -> None:
    """The page's one sentence with its facts and reasons, then what speaks against trusting them."""
    look.headline(sentence(analysis.advice), f"{facts(analysis)}\n\n:small[:gray[{reasons(analysis)}]]")
    cautions(analysis.run)


def cautions(run: Run) -> None:
    """What a reader must know before the numbers: a run that ended early, texts that part, a busy machine; nothing when all is well."""
    ended_early(run)
    parting.show(run, len(assisted(run)), differing(run))
    if run.disturbed:
        look.note(":material/warning: Something else used the machine while this run was timed; the times are less certain than usual.")
        st.space("xxsmall")


def curve(analysis: Analysis, key: str, what_if: Floats | None = None) -> None:
    """The curve of a run: formula, replay, confirmed, the recommended gamma, and what-if values."""
    explore.curve(
        key,
        formula=analysis.formula,
        replay=analysis.replay,
        confirmed=analysis.confirmed,
        what_if=what_if,
        level=analysis.level,
        recommended=analysis.recommended,
    )


def verdict_card(analysis: Analysis) -> None:
    """The verdict beside a curve, with three figures that put it in place."""
    st.header(sentence(analysis.advice), anchor=False)
    st.markdown(facts(analysis))
    formula, alpha = float(analysis.formula.max()), analysis.alpha
    look.fact_row(
        [
            look.Fact("Formula says", numbers.ratio(formula), f"at gamma {int(analysis.formula.argmax()) + 1}"),
            look.Fact("Library's default", numbers.ratio(analysis.known(TransformersDefault())), "20 drafts, 0.4"),
            look.Fact("Acceptance", f"{alpha.value:.2f}", numbers.interval(alpha.for_traffic)),
        ]
    )
    look.note(reasons(analysis))


def outcome(run: Run) -> str:
    """How a run went, in a few words, for a list; nothing is computed for it."""
    if run.status == "running":
        return f"running, {run.progress.fraction:.0%}"
    found = run.summary
    if run.status != "done" or found is None:
        return run.status
    return f"**{runs_columns.VERDICTS[found.verdict]}**: {look.plain(found.policy)}, {numbers.ratio(found.speedup)}"


def ended_early(run: Run) -> None:
    """What happened to a run that was not finished and what is kept of it; nothing for a run that is done."""
    words = {"failed": "This run failed", "cancelled": "This run was cancelled", "interrupted": "This run was interrupted"}
    if run.status not in words:
        return
    timed = numbers.counted(len(run.generations), "timed generation")
    kept = f"Kept: traces of {len(run.traces)} of {numbers.counted(len(run.spec.prompts), 'prompt')}, {timed}."
    if not run.traces and not run.generations:
        kept = "Nothing had been measured by then."
    reason = f" {look.plain(run.error)}" if run.error else ""
    st.warning(f"**{words[run.status]}.**{reason} {kept}", icon=STATUS_ICONS[run.status])
