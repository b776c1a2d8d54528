"""The ranking of drafts that were measured together: one sentence, one chart, one table, and the way to each draft's own result."""

from collections.abc import Sequence
from html import escape

import pandas as pd
import streamlit as st

from core import way_words
from core.address import address
from core.analysis import Analysis, sentence_case
from core.errors import NotMeasured
from core.figures import Range, ranges
from core.group import Ranking, rank
from core.group_rows import Contender
from core.policies import Drafting, describe
from core.recommend import FLAT
from core.runs import Run
from core.ui import desk, look, numbers, result
from core.ui.frame import page_path
from core.verdict import off_unless


@st.cache_resource(max_entries=8, show_spinner=False)
def _ranking(ended: tuple[tuple[str, str, str], ...]) -> Ranking:
    """The ranking of runs by id, status and share id, kept as in `core.ui.desk`."""
    store, _ = desk.desk()
    return rank([store.get(run_id, traces=True) for run_id, _, _ in ended])


def show(runs: Sequence[Run]) -> str | None:
    """Everything that the ended runs of a group tell together; the id of the best draft's run, None where there is none."""
    try:
        ranking = _ranking(tuple((run.id, run.status, run.share_id) for run in runs))
    except NotMeasured as error:
        look.headline("No ranking from these runs", look.plain(str(error)))
        _links(runs)
        return None
    best = chosen(ranking, runs)
    look.headline(sentence(best), facts(ranking, best))
    for said in ranking.left_out:
        st.warning(f"Not ranked: {look.plain(said)}", icon=":material/filter_alt:")
    left, right = st.columns([3, 2], gap="large")
    with left:
        _chart(ranking)
    with right:
        _links(runs)
    _table(ranking, best)
    return next((each.run_id for each in ranking.contenders if each.kind == "draft"), None)


def chosen(ranking: Ranking, runs: Sequence[Run]) -> Contender:
    """The way of drafting to use: within 2 % of the fastest one, what takes the least memory; prompt lookup takes none."""
    where = {run.id: run.environment for run in runs}
    drafting = [each for each in ranking.contenders if each.kind != "plain"]
    close = [each for each in drafting if each.against_best >= drafting[0].against_best / FLAT]

    def size(each: Contender) -> int:
        found = where.get(each.run_id) if each.draft else None
        return found.draft_bytes or found.draft_parameters if found else 0

    return min(close, key=size)


def sentence(best: Contender) -> str:
    """The answer in one line, for a headline."""
    speed = numbers.speed(best.speedup)
    if best.verdict == "leave_off":
        slower = round(best.speedup, 2) < 1
        return f"Leave drafting off: the best of these reaches {f':orange[{speed}]' if slower else f'only {speed}'}"
    if best.verdict == "undecided":
        if round(best.speedup, 2) <= 1:
            would_tell = "more prompts say" if best.confirmed else "more prompts or a real run say"
            return off_unless(would_tell, _with_setting(best), best.speedup, result.mark)
        return f"Not decided yet: {name(best)} leads with {numbers.ratio(best.speedup)}"
    return f"Use {_with_setting(best)}: :green[{speed}]{'' if best.confirmed else ', predicted'}"


def facts(ranking: Ranking, best: Contender) -> str:
    """Intervals and origin of the answer, then who comes next."""
    traffic = numbers.interval(best.for_traffic)
    parts = [f"{sentence_case(_with_setting(best))} gives"] if best.verdict != "use" else []
    if best.on_these_prompts:
        parts.append(f"**{numbers.interval(best.on_these_prompts)}** on these prompts;")
    wide = ", too wide to decide" if best.verdict == "undecided" else ""
    parts.append(f"**{traffic}** for traffic like these{wide}." if traffic else "too few prompts for an interval for other traffic.")
    parts.append(look.ORIGINS[_known(best)])
    others = [each for each in ranking.contenders if each.kind != "plain" and each is not best]
    if others:
        faster = f" It is within 2 % of the fastest and takes the least memory; {name(others[0])}" if others[0].speedup > best.speedup else ""
        following = faster or f" Next best: {_with_setting(others[0])}"
        parts.append(f":small[:gray[{following.strip()}: {numbers.ratio(others[0].speedup)}.]]")
    return " ".join(parts)


def _known(each: Contender) -> str:
    """How a contender's speedup is known."""
    return "measured" if each.measured_only else "confirmed" if each.confirmed else "replayed"


def name(each: Contender) -> str:
    """What a contender is called, safe in Markdown."""
    return look.plain(each.name)


def _unique(ranking: Ranking) -> list[str]:
    """The name of every row; drafts that share theirs are told apart by their addresses."""
    names = [each.name for each in ranking.contenders]
    return [address(each.draft) if each.draft and names.count(own) > 1 else own for own, each in zip(names, ranking.contenders, strict=True)]


def _with_setting(each: Contender) -> str:
    """A contender at its best setting, as a person would say it."""
    return way_words.title(name(each) if each.draft is not None and isinstance(each.policy, Drafting) else "", each.policy)


def _chart(ranking: Ranking) -> None:
    rows = [_range(escape(own), each) for own, each in zip(_unique(ranking), ranking.contenders, strict=True)]
    fig = look.drawn(ranges, look.palette(), "Drafts by speedup", "diamond: confirmed; dot: replayed; bar: 95 % on these prompts", rows)
    said = ", ".join(f"{own} {row.speedup:.2f}x" for own, row in zip(_unique(ranking), rows, strict=True))
    look.show(fig, "group_ranking", f"Drafts by speedup: {said}.")


def _range(own: str, each: Contender) -> Range:
    low, high = each.on_these_prompts or (each.speedup, each.speedup)
    return Range(own, each.speedup, low, high, "confirmed" if each.confirmed else "replayed")


def _table(ranking: Ranking, best: Contender) -> None:
    table = pd.DataFrame([_cells(own, each) for own, each in zip(_unique(ranking), ranking.contenders, strict=True)])
    answer = "plain" if best.verdict == "leave_off" else best.kind
    marked = next(at for at, each in enumerate(ranking.contenders) if each is best or each.kind == answer == "plain")
    shown = table if best.verdict == "undecided" else look.mark_row(table, marked)
    look.table(shown, "Drafts by speedup, with paired intervals", {"Speedup": "%.2fx", "Beside the fastest": "%.2fx", "alpha": "%.2f", "c": "%.2f"})
    look.note(
        "Each draft at its best setting, relative to plain decoding of its own run. Beside the fastest: its speed / the first row's on the "
        "prompts that both have, with the paired 95 % interval: what a prompt does to both cancels. Prompt lookup needs no draft."
    )
    with st.expander("In sentences"):
        for each in ranking.contenders:
            st.markdown(f"**{name(each)}**. {look.plain(' '.join(sentence_case(reason) for reason in each.reasons).replace('+-', '±'))}")


def _cells(own: str, each: Contender) -> dict[str, object]:
    seen = desk.analysis(desk.load(each.run_id)) if each.kind == "draft" else None
    found = seen if isinstance(seen, Analysis) else None
    return {
        "Draft": own,
        "Setting": "" if each.kind == "plain" else describe(each.policy),
        "Speedup": each.speedup,
        "These prompts": numbers.interval(each.on_these_prompts),
        "Traffic": numbers.interval(each.for_traffic),
        "Beside the fastest": each.against_best,
        "Paired interval": numbers.interval(each.between),
        "alpha": found.alpha.value if found else None,
        "c": found.costs.c if found else None,
        "Known by": "reference" if each.kind == "plain" else "measured only" if each.measured_only else _known(each),
    }


def _links(runs: Sequence[Run]) -> None:
    """Each run's own result, with its outcome in a few words; by its draft, or that it was run in several ways."""
    st.markdown("**Each draft alone**")
    for run in runs:
        with st.container(gap="xxsmall"):
            ways = "several ways, really run" if run.spec.extent == "ways" else ""
            drafts = look.plain(", ".join(result.drafts(run)))
            label = f"**{drafts or ways}**{f', {ways}' if drafts and ways else ''}"
            st.page_link(page_path("measure"), label=label, icon=result.STATUS_ICONS[run.status], query_params={"run": run.id})
            look.note(result.outcome(run))
