"""Why the answer is what it is: how far rounds get, other tools' words, the sweep, positions, labels; and how to read it all."""

import pandas as pd
import streamlit as st

from core import details, maps, predict, reading, theory, translate
from core.analysis import SWEEP_LIMITS, Analysis, accepted_shares, alpha_by_position, conditional_acceptance, sentence_case, together
from core.errors import InvalidInput
from core.figures import Floats
from core.policies import FixedGamma, describe
from core.ui import look, numbers, paste, report

SURVIVAL_GAMMA = 8
WORD_WIDTHS = {"Tool": 170, "Name": 180, "Value": 140, "Definition": 260}


def show(analysis: Analysis) -> None:
    """Survival and other tools' words side by side, then the folded details."""
    st.subheader("Why", anchor=False)
    left, right = st.columns(2, gap="large")
    with left:
        _survival(analysis)
    with right:
        _other_words(analysis)
        paste.alpha_from_elsewhere()
    for label, part in (
        ("By kind of prompt", report.by_label),
        ("Limit x threshold sweep", _sweep),
        ("Acceptance along the answer, and accepted per round", _positions),
    ):
        folded = st.expander(label, on_change="rerun")
        if folded.open:  # drawn only when it is looked at: every click on the page would redraw it
            with folded:
                part(analysis)


def _survival(analysis: Analysis) -> None:
    policy = FixedGamma(SURVIVAL_GAMMA)
    rounds = together(analysis.rounds(policy))
    replayed = rounds.survival
    if not len(replayed):
        look.note("No round drafted anything: the answers are too short.")
        return
    k = pd.RangeIndex(1, len(replayed) + 1)
    formula: Floats = analysis.alpha.value ** k.to_numpy(dtype=float)
    conditional = conditional_acceptance(analysis.run, policy)
    fig = look.drawn(details.survival, look.palette(), replayed, formula, conditional)
    ends = f"{replayed[0]:.0%} accept at least 1, {replayed[-1]:.0%} at least {len(replayed)}"
    look.show(
        fig,
        "survival",
        f"Of the rounds that drafted at least k tokens at gamma {SURVIVAL_GAMMA}, the share that accepted at least k: {ends}. "
        f"Of the drafts at place k that were examined, the share accepted: {conditional[0]:.0%} at 1, {conditional[-1]:.0%} at {len(conditional)}.",
    )
    table = pd.DataFrame({"k": k, "rounds": rounds.reached, "survival": replayed * 100, "formula": formula * 100, "conditional": conditional * 100})
    percent = dict.fromkeys(("survival", "formula", "conditional"), "%.0f %%")
    look.behind(
        "The rounds as a table", table, "Of the rounds that drafted at least k tokens, the share that accepted at least k", {"rounds": "%d"} | percent
    )
    here = rounds.tokens_per_round
    even = float(theory.tokens_per_round(analysis.alpha.value, SURVIVAL_GAMMA))
    word = "overstates" if even > here else "understates"
    look.note(
        f"At gamma {SURVIVAL_GAMMA} a round emits {here:.2f} tokens; the formula, with the same chance for every token, says {even:.2f}. "
        f"It {word} here by {100 * abs(even / here - 1):.0f} %."
    )


def _other_words(analysis: Analysis) -> None:
    """One setting under the names and definitions of other tools."""
    st.markdown("**In other tools' words**")
    policy = analysis.advice.policy
    try:
        words = translate.in_other_words(together(analysis.rounds(policy)), analysis.alpha.value)
    except InvalidInput as error:
        st.markdown(look.plain(str(error)))
        return
    rows = [(word.tool, word.name, _said(word), word.definition) for word in words]
    look.table(
        pd.DataFrame(rows, columns=["Tool", "Name", "Value", "Definition"]),
        "The same rounds in other tools' definitions",
        widths=WORD_WIDTHS,
        height=330,
    )
    look.note(f"{sentence_case(describe(policy))}, all prompts together {look.ORIGINS['replayed']}")
    if (greedy := analysis.alpha_greedy_draft) is not None:
        bounds = f" {numbers.interval(greedy.for_traffic)}" if greedy.for_traffic else ""
        look.note(
            f"vLLM by default drafts greedily whatever the temperature: expect an alpha of {greedy.value:.2f}{bounds} there "
            f"{look.ORIGINS['replayed']}, and its other numbers to move with it."
        )


def _said(word: translate.Word) -> str:
    """A value as its tool would print it: one number, or the first four positions."""
    shown = ", ".join(f"{value:.1f} %" if word.percent else f"{value:.2f}" for value in word.value[:4])
    return f"{shown}, ..." if len(word.value) > 4 else shown


def _sweep(analysis: Analysis) -> None:
    speedup, best = analysis.sweep, analysis.best_of_sweep
    fig = look.drawn(maps.sweep, look.palette(), SWEEP_LIMITS, predict.THRESHOLDS, speedup)
    look.show(fig, "sweep", f"Replayed speedup for every limit and confidence threshold, best {speedup.max():.2f}x for {describe(best)}.")
    look.note(
        f"Framed: {describe(best)}, {speedup.max():.2f}x {look.ORIGINS['replayed']} Read from the trace, not run: measure it before you rely on it."
    )
    table = pd.DataFrame(speedup, columns=[f"limit {limit}" for limit in SWEEP_LIMITS])
    ratios = {str(name): "%.2fx" for name in table.columns}
    table.insert(0, "threshold", predict.THRESHOLDS)
    look.table(table, "Replayed speedup by limit and threshold", ratios)


def _positions(analysis: Analysis) -> None:
    left, right = st.columns(2, gap="large")
    with left:
        start, alpha = alpha_by_position(analysis.run)
        fig = look.drawn(details.by_position, look.palette(), start.astype(int), alpha, analysis.alpha.value)
        look.show(fig, "by_position", f"Mean acceptance in blocks of eight answer tokens, from {alpha.min():.2f} to {alpha.max():.2f}.")
        look.table(pd.DataFrame({"from token": start, "alpha": alpha}), "Acceptance by position", {"from token": "%d", "alpha": "%.2f"}, height=220)
    with right:
        policy = analysis.advice.policy
        share = accepted_shares(together(analysis.rounds(policy)))
        fig = look.drawn(details.histogram, look.palette(), share)
        look.show(fig, "histogram", f"Share of rounds that accepted 0, 1, 2 and more drafts under {describe(policy)}.")
        look.table(
            pd.DataFrame({"accepted": range(len(share)), "rounds": share * 100}), "Rounds by accepted drafts", {"rounds": "%.0f %%"}, height=220
        )
        look.note(f"Under {describe(policy)} {look.ORIGINS['replayed']}")


def how_to_read(*, sampled: bool = False) -> None:
    """For readers who have not met the words; what is said of the text depends on whether it was sampled."""
    with st.expander("How to read this"):
        st.markdown("\n\n".join(f"**{term}.** {look.plain(meaning)}" for term, meaning in reading.how_to_read(sampled=sampled)))
