"""The result of a run as the measure page shows it, section by section."""

import pandas as pd
import streamlit as st

from core import columns as col
from core import figures, predict
from core.analysis import Analysis, Unfinished, sentence_case
from core.errors import NotMeasured
from core.policies import Drafting, describe
from core.replay import replay_prompt, rounds_drawn
from core.runs import Run
from core.smoke import smoke_result
from core.ui import look, numbers, provenance, result, tokens


def show(analysis: Analysis | Unfinished) -> None:
    """Everything there is, for a run that has ended in whatever way."""
    run = analysis.run
    if run.spec.extent == "smoke":
        smoke(run)
    elif isinstance(analysis, Unfinished):
        unfinished(analysis)
    else:
        result.headline(analysis)
    if isinstance(analysis, Analysis):
        six_figures(analysis)
        sampled_alpha(analysis)
        st.space("small")
        _compare(analysis)
        if isinstance(analysis.advice.policy, Drafting):
            who_wrote_what(run, analysis.advice.policy)
        _per_prompt(analysis)
    provenance.provenance(run, analysis.costs if isinstance(analysis, Analysis) else None)


def six_figures(analysis: Analysis) -> None:
    """alpha, c, v, h, e and the plain step, with what each means."""
    costs, alpha, advice = analysis.costs, analysis.alpha, analysis.advice
    gamma = advice.policy.limit if isinstance(advice.policy, Drafting) and not analysis.level else analysis.best_fixed
    verify, step_s = float(costs.verify_up_to(gamma)[gamma]), costs.plain_step_s
    passes, loop = f"draft pass d1 {numbers.cost(costs.draft_next)}", f"loop e {numbers.cost(costs.token_overhead)}"
    fitted = f"From the first draft of this group, {costs.carried_from}." if costs.carried_from else "Fitted to short real runs."
    positions = numbers.counted(alpha.tokens, "answer position")

    def price(label: str, value: float, meaning: str) -> look.Fact:
        return look.Fact(label, numbers.cost(value), numbers.milliseconds(value * step_s), "measured", meaning)

    look.fact_row(
        [
            look.Fact(
                "alpha, acceptance",
                f"{alpha.value:.2f}",
                numbers.interval(alpha.for_traffic),
                "replayed",
                f"Mean chance that a drafted token is accepted, over {positions}.{' Each is sum min(p, q).' if alpha.origin == 'overlap' else ''}",
            ),
            price("c, drafted token", costs.c, f"One drafted token inside the loop / one plain target step: {passes} + {loop}."),
            price(f"v({gamma + 1}), verify", verify, f"Target pass over {gamma + 1} tokens / one plain target step."),
            price("h, rest of a round", costs.overhead, f"A round beside verify and c per token / one plain target step. {fitted}"),
            price("e, part of c", costs.token_overhead, f"The loop's share of one drafted token / one plain target step. {fitted}"),
            look.Fact(
                "plain step",
                numbers.milliseconds(step_s),
                f"{1 / step_s:,.0f} tokens/s",
                "measured",
                "Plain decoding after the first token: seconds / tokens, as a ratio of sums.",
            ),
        ]
    )


def sampled_alpha(analysis: Analysis) -> None:
    """What sampling adds to alpha: the same on the very text, and in engines whose draft is greedy; nothing for greedy runs."""
    alpha, greedy = analysis.alpha, analysis.alpha_greedy_draft
    if greedy is None:
        return
    bounds = numbers.interval(greedy.for_traffic)
    st.markdown(
        f"Under sampling alpha has two estimates: **{alpha.value:.2f}** from how far both distributions overlap, and **{alpha.on_text:.2f}** on the "
        f"tokens that were drawn, which the replay uses. An engine whose draft always proposes its first choice, as vLLM's draft model, "
        f"would accept **{f'{greedy.value:.2f} {bounds}'.strip()}** of these tokens. {look.ORIGINS['replayed']}"
    )


def _compare(analysis: Analysis) -> None:
    left, right = st.columns([3, 2], gap="large")
    with left:
        rows = analysis.ranking()
        fig = look.drawn(figures.ranges, look.palette(), "Ranking", "diamond: confirmed; dot: replayed; bar: 95 % on these prompts", rows)
        look.show(fig, "ranking", "Settings by speedup: " + ", ".join(f"{row.name} {row.speedup:.2f}x" for row in rows) + ".")
        table = pd.DataFrame(
            [(row.name, row.speedup, numbers.interval((row.low, row.high)), row.known) for row in rows],
            columns=["Setting", "Speedup", "95 % interval", "Known by"],
        )
        look.behind("The ranking as a table", table, "Settings by speedup", {"Speedup": "%.2fx"})
        if not analysis.advice.confirmed and (run := analysis.really_run):
            whole = numbers.counted(len(analysis.run.traces), "prompt")
            look.note(f"Diamonds rest on the {numbers.counted(run, 'prompt')} that were really run, the dots and the headline on all {whole}.")
        if analysis.run.environment:
            look.note(f"Plain is the fastest that the library offers here: {analysis.run.environment.plain}.")
    with right:
        st.markdown("**By kind of prompt**")
        by_label(analysis)


def by_label(analysis: Analysis) -> None:
    """Which kinds of prompts win and which lose."""
    table = predict.by_label(analysis.run, analysis.advice.policy)
    table["label"] = [label or "no label" for label in table["label"]]
    table.columns = ["Label", "Prompts", "alpha", "Speedup"]
    look.table(
        table,
        "Acceptance and predicted speedup by prompt label",
        {"Prompts": "%d", "alpha": "%.2f", "Speedup": "%.2fx"},
        {"Prompts": 70, "alpha": 70, "Speedup": 80},
    )
    look.note(f"Predicted for {describe(analysis.advice.policy)} {look.ORIGINS['replayed']}")
    losing = table.loc[table["Speedup"] < 1, "Label"].tolist()
    if losing:
        look.note(f"Slower than plain: {look.plain(', '.join(losing))}. Serve such prompts without a draft where you can tell them apart.")


def who_wrote_what(run: Run, policy: Drafting) -> None:
    """One answer, token by token, with the ruler of its rounds."""
    st.subheader("Who wrote what", anchor=False)
    place = st.selectbox(
        "Prompt",
        range(len(run.traces)),
        format_func=lambda at: f"Prompt {at + 1}{f', {run.spec.prompts[at].label}' if run.spec.prompts[at].label else ''}",
        key="answer_shown",
        bind="query-params",
        width=260,
    )
    trace = run.traces[place if place < len(run.traces) else 0]
    rounds = rounds_drawn(trace, policy)
    written, colours = tokens.tokens(trace.pieces, rounds), look.palette()
    left, right = st.columns([3, 2], gap="large")
    with left:
        st.html(tokens.legend(colours))
        st.html(tokens.text(colours, written))
    with right:
        look.note(f"{sentence_case(describe(policy))}. One group per round; hollow: drafted and thrown away.")
        st.html(tokens.ruler(colours, written))
        look.note(f"{len(rounds)} rounds, {len(trace.answer) / len(rounds):.2f} tokens per round {look.ORIGINS['replayed']}")
        if trace.sampled is not None:
            expected = replay_prompt(trace, policy)
            look.note(
                f"One of many ways: under sampling it is chance which drafts are accepted. {expected.rounds:.1f} rounds are expected. "
                "In real runs the text differs as well, because it is drawn anew; only its distribution stays the same."
            )
        if trace.ended == "stop":
            look.note("The answer is cut at a stop string. The library cannot stop there with a draft: real runs write on.")
    with st.expander("The prompt"):
        st.code(run.spec.prompts[place].text, language=None, wrap_lines=True)


def _per_prompt(analysis: Analysis) -> None:
    with st.expander("Per prompt"):
        table = analysis.per_prompt(analysis.advice.policy)
        table["repeated 8-grams"] *= 100
        look.table(
            table,
            "Every prompt with acceptance and predicted speedup",
            {"alpha": "%.2f", "predicted speedup": "%.2fx", "repeated 8-grams": "%.0f %%"},
        )
        look.note("Answers that repeat themselves are easy to draft: a high share of repeated 8-grams inflates alpha.")
    row = analysis.row(analysis.advice.policy)
    if row[col.MEASURED] is not None:
        gap = predict.explain_gap(row[col.SPEEDUP], row[col.MEASURED], half=row[col.MODEL_HALF], disturbed=analysis.run.disturbed)
        both = f"predicted {numbers.ratio(row[col.SPEEDUP])}, measured {numbers.ratio(row[col.MEASURED])}"
        with st.expander("Predicted against measured"):
            st.markdown(f"{sentence_case(describe(analysis.advice.policy))}: {both}. {gap.sentence}")


def unfinished(found: Unfinished) -> None:
    """A run without times: why, what is known already, and what is kept. Where one ended before anything was known, its end is why."""
    ended = found.run.status != "done" and not found.run.traces
    look.headline("No speedup from this run", "" if ended else look.plain(found.missing))
    result.cautions(found.run)
    if found.alpha:
        bounds = numbers.interval(found.alpha.for_traffic)
        meaning = "Mean chance that a drafted token is accepted, over the prompts that were traced."
        with st.container(width=260):
            look.fact_row([look.Fact("alpha, acceptance", f"{found.alpha.value:.2f}", bounds, "replayed", meaning)])


def smoke(run: Run) -> None:
    """What came of eight tokens, in a sentence."""
    try:
        found = smoke_result(run)
    except NotMeasured as error:
        look.headline("The smoke test has no result", look.plain(run.error or str(error)))
        return
    answers = "The pair runs" if found.passed else "The pair runs, but nothing was accepted"
    look.headline(answers if found.equal else "Plain and assisted answers differ", f"{look.plain(found.sentence)} This says nothing about speed.")
