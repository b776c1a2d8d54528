"""Fleet: a day's traffic to GPUs with and without the draft. Every assumption is a field, kept in the address, and written out below."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import ceil

import numpy as np
import pandas as pd
import streamlit as st

from core import batch, fleet, theory
from core import memory_figures as figs
from core.analysis import Analysis, together
from core.devices import READ_SHARE
from core.errors import InvalidInput
from core.memory import CacheProfile, Fit
from core.memory_gain import Gain, bounds, known, same_gpu, usd
from core.memory_served import Setting
from core.policies import Plain
from core.prices import Gpu
from core.ui import look, memory_typed, numbers, what_if
from core.ui.memory_inputs import Complaints, Money, text

MOST_AT_ONCE = 256
STEPS = 201


@dataclass(frozen=True)
class Field:
    """One editable number: its label, its key in the address, its start, and its range.

    computed: the start follows the rest of the page, so it is a hint in an empty field and is used until something is typed.
    """

    label: str
    key: str
    start: str
    low: float
    high: float
    tip: str = ""
    computed: bool = False


TRAFFIC = (
    Field("Requests a day", "requests", "100,000", 0.001, 1e12),
    Field("Prompt tokens", "prompt", "1,000", 0, 1e8, "Mean of the traffic."),
    Field("Answer tokens", "answer", "300", 1, 1e8, "Mean of the traffic."),
    Field("Peak factor", "peak", "2", 1, 1e4, "The busiest rate / the day's mean."),
    Field("Busy share", "busy", "0.8", 0.01, 1, "Most that a GPU may be busy at the peak; the rest keeps queues short."),
    Field("Reader's tokens/s", "reader", "0", 0, 1e6, "Least speed of each answer; 0 demands none."),
)


@dataclass(frozen=True)
class Facts:
    """What the rest of the page knows and the fleet needs."""

    target_name: str
    setting: Setting
    found: Fit
    gain: Gain
    money: Money
    gpu: Gpu | None
    analysis: Analysis | None
    tokens_per_s: float | None


def in_address() -> bool:
    """Whether the address holds a value of the fleet, so that it should be seen."""
    own = ("prompt_s", "knee", "cache_share", "at_once", "drafted", "per_round", "fleet_tokens_s")
    return any(key in st.query_params for key in (*(field.key for field in TRAFFIC), *own))


def show(facts: Facts) -> None:
    """The fields, the answer, the chart, and every assumption written out."""
    complaints = Complaints()
    values = _fields(_traffic(facts.setting.context), complaints)
    serving_fields = _serving(facts)
    look.note("How one GPU serves: measured on it where a run was, else estimated from its data sheet. Replace what you know better.")
    values |= _fields(serving_fields, complaints)
    if not complaints.sentences:
        complaints.read(lambda: _within_context(values, facts.setting.context))
    complaints.show()
    if complaints.sentences:
        return
    if not facts.found.together.sequences:
        st.markdown("Not one request of this context fits beside the draft, so there is no fleet to plan.")
        return
    try:
        traffic, serving, drafting = _models(values, facts)
        planned = fleet.plan(traffic, serving, drafting)
        _answer(planned, facts)
        _charts(planned, traffic, serving, drafting)
    except InvalidInput as error:
        st.error(look.plain(str(error)), icon=":material/error:")
        return
    _experts(facts.setting.target.profile, facts.target_name)
    rows = [(a.name, "" if a.value is None else _short(a.value), a.unit, a.why) for a in fleet.assumptions(traffic, serving, drafting)]
    st.markdown("**What this rests on**")
    look.table(pd.DataFrame(rows, columns=["Assumption", "Value", "Unit", "Why"]), "Assumptions of the fleet", widths={"Why": 460})


def _fields(fields: tuple[Field, ...], complaints: Complaints) -> dict[str, float]:
    """Draw the fields side by side; the values of those that can be used."""
    read: dict[str, float] = {}
    for at, column in enumerate(st.columns(len(fields), gap="small", vertical_alignment="bottom")):
        field = fields[at]
        with column:
            if field.computed:
                typed = text(field.label, field.key, hint=field.start, tip=field.tip) or field.start
            else:
                typed = text(field.label, field.key, field.start, tip=field.tip)
        value = complaints.read(_reader(field, typed))
        if value is not None:
            read[field.key] = value
    return read


def _traffic(context: int) -> tuple[Field, ...]:
    """The fields of the traffic; prompt and answer begin within the context."""
    answer = min(300, max(1, context // 4))
    starts = {"answer": f"{answer:,}", "prompt": f"{min(1000, context - answer):,}"}
    return tuple(replace(field, start=starts.get(field.key, field.start)) for field in TRAFFIC)


def _within_context(values: dict[str, float], context: int) -> None:
    """Raise InvalidInput where the traffic's requests are longer than those whose memory was counted."""
    prompt, answer = values["prompt"], values["answer"]
    if prompt + answer > context:
        raise InvalidInput(
            f"A request of {prompt + answer:,g} tokens ({prompt:,g} of prompt and {answer:,g} of answer) is longer than the context of {context:,} "
            "for which memory is counted. Raise the context above, or shorten the requests."
        )


def _reader(field: Field, typed: str) -> Callable[[], float]:
    return lambda: memory_typed.number(field.label, typed, field.low, field.high)


def _experts(profile: CacheProfile, name: str) -> None:
    """What the estimate leaves out of a mixture of experts."""
    if profile.active_parameters < profile.parameters:
        look.note(
            f":material/warning: {look.plain(name)} is a mixture of experts: one request reads {profile.active_parameters / 1e9:,.1f} of its "
            f"{profile.parameters / 1e9:,.1f} billion parameters per token, many requests at once read nearly all. The estimate leaves that out, so "
            "more GPUs are needed than it says. Measure batches before you rely on it."
        )


def _serving(facts: Facts) -> tuple[Field, ...]:
    """The fields of one GPU, with what is measured or estimated as their start."""
    profile, gpu = facts.setting.target.profile, facts.gpu
    cache_bytes = facts.found.parts.target_kv_bytes / facts.found.sequences
    weights = facts.setting.target.weight_bytes * profile.active_parameters / profile.parameters
    speed, how = facts.tokens_per_s, "measured, or typed under Prices and assumptions"
    if speed is None:
        ceiling = batch.ceiling_tokens_per_s(gpu.bandwidth_bytes_per_s, weights, cache_bytes) if gpu else 1.0
        speed, how = ceiling * READ_SHARE.likely, f"estimate: {READ_SHARE.likely:.0%} of the memory bandwidth" if gpu else "not known: type it"
    flops = gpu.bf16_flops_per_s if gpu else None
    read = flops * batch.REACHED / (2 * profile.active_parameters) if flops else speed * 100
    knee = batch.knee_tokens(speed, profile.active_parameters, flops) if flops else 100.0
    peak = f"{batch.REACHED:.0%} of the vendor's bf16 peak" if flops else "no peak is known for this GPU: type it"
    drafted, per_round, rounds = _rounds(facts)
    own = (
        Field("Plain tokens/s", "fleet_tokens_s", _short(speed), 0.001, 1e6, f"One request alone; {how}."),
        Field("Prompt tokens/s", "prompt_s", _short(read), 0.001, 1e9, f"Prompts read alone; estimate from {peak}."),
        Field("Knee, tokens", "knee", _short(knee), 1, 1e6, f"Tokens in one pass from which arithmetic takes the time; from {peak}."),
        Field("Cache share", "cache_share", f"{batch.cache_share(weights, cache_bytes):.3f}", 0, 0.999, "Of a plain step, for one request's cache."),
        Field("At once, at most", "at_once", str(MOST_AT_ONCE), 1, batch.MOST_SEQUENCES, "The engine's own limit; memory may allow fewer."),
        Field("Drafted per round", "drafted", f"{drafted:.2f}", 0, 1000, f"Mean; {rounds}."),
        Field("Tokens per round", "per_round", f"{per_round:.2f}", 1, 1001, f"Mean, the target's own token counted; {rounds}."),
    )
    return tuple(replace(field, computed=True) for field in own)


def _rounds(facts: Facts) -> tuple[float, float, str]:
    """Drafted and emitted tokens per round: replayed from the run, else by the formula at the what-if's alpha."""
    if facts.analysis is not None and not isinstance(facts.analysis.advice.policy, Plain):
        rounds = together(facts.analysis.rounds(facts.analysis.advice.policy))
        return rounds.drafted / rounds.rounds, rounds.tokens / rounds.rounds, "replayed from the run"
    gamma, alpha = facts.setting.gamma, what_if.NO_RUN.alpha
    emitted = float(theory.tokens_per_round(alpha, gamma))
    return float(gamma), min(gamma + 1.0, max(emitted, facts.gain.speedup)), f"formula at alpha {alpha:.2f}, what-if"


def _pass_prices(facts: Facts) -> tuple[tuple[float, float], ...]:
    """(tokens in a pass, price in plain steps) for 2 to 21 tokens, as measured on this GPU; none where it was not."""
    if facts.analysis is None or not same_gpu(facts.gain.device, facts.found.gpu.name):
        return ()
    verify = facts.analysis.costs.verify_up_to(20)
    return tuple((float(drafted + 1), float(verify[drafted])) for drafted in range(1, 21))


def _models(values: dict[str, float], facts: Facts) -> tuple[fleet.Traffic, batch.Serving, batch.Drafting]:
    most = int(values["at_once"])
    target, draft = facts.setting.target.profile, facts.setting.draft.profile
    traffic = fleet.Traffic(*(values[field.key] for field in TRAFFIC))
    serving = batch.Serving(
        tokens_per_s=values["fleet_tokens_s"],
        prompt_tokens_per_s=values["prompt_s"],
        sequences=min(most, facts.found.alone.sequences),
        knee_tokens=values["knee"],
        cache_share=values["cache_share"],
        pass_prices=_pass_prices(facts),
    )
    drafting = batch.Drafting(
        speedup=facts.gain.speedup,
        drafted_per_round=values["drafted"],
        tokens_per_round=values["per_round"],
        sequences=min(most, facts.found.together.sequences),
        interval=facts.gain.interval,
        prompt_share=0.0 if facts.gain.needs_no_draft else draft.active_parameters / target.active_parameters,
    )
    return traffic, serving, drafting


def _answer(planned: fleet.Fleet, facts: Facts) -> None:
    """GPUs and money with and without, in one sentence and three figures."""
    if planned.plain is None or planned.drafted is None:
        st.markdown("Even one request at a time is slower than readers must get. Lower the reader's tokens/s or choose a faster GPU.")
        return
    spread = planned.gpus_interval
    at_once = f"{numbers.counted(planned.drafted.sequences, 'request')} at once each"
    gpus = [
        look.Fact("GPUs without draft", f"{planned.plain.gpus:,}", f"{numbers.counted(planned.plain.sequences, 'request')} at once each"),
        look.Fact("GPUs with draft", f"{planned.drafted.gpus:,}", f"[{spread[0]:,}, {spread[1]:,}]" if spread else at_once),
        look.Fact("Speedup at that load", numbers.ratio(planned.drafted.speedup), f"{numbers.counted(planned.drafted.sequences, 'request')} at once"),
    ]
    if facts.money.usd_per_hour is not None:
        offer = facts.money.offer
        hourly, each = (offer.usd_per_hour, offer.gpus) if offer else (facts.money.usd_per_hour, 1)
        bill = fleet.monthly(planned, hourly, each, facts.money.hours)
        if bill:
            gpus.append(look.Fact("USD per month", f"{bill.drafted_usd:,.0f}", f"{bill.drafted_usd - bill.plain_usd:+,.0f} of {bill.plain_usd:,.0f}"))
            spread_words = (
                f" {bounds(bill.saving_interval, extra=bill.saving_usd < 0)}" if bill.saving_interval and len(set(bill.saving_interval)) > 1 else ""
            )
            how = f":small[:gray[{look.plain(known(facts.gain, facts.found.gpu.name))}]]"
            verb = "saves" if bill.saving_usd > 0 else "costs an extra" if bill.saving_usd < 0 else "saves nothing of"
            amount = usd(bill.saving_usd if bill.saving_usd else bill.plain_usd)
            st.markdown(f"**For this traffic the draft {verb} {amount} a month{spread_words}.** {look.ORIGINS['estimate']} {how}")
    look.fact_row(gpus)
    look.note(f"{_short(planned.plain.exact)} GPUs without the draft and {_short(planned.drafted.exact)} with it, before they are rounded up.")
    look.note(crossover_words(planned.crossover))


def crossover_words(cross: fleet.Crossover) -> str:
    """Where drafting stops paying, as a sentence."""
    if cross.kind == "always":
        return "On one GPU drafting pays at every load that fits."
    if cross.kind == "never":
        return "On one GPU drafting pays at no load."
    at = f"about {cross.requests_per_day:,.0f} requests a day on one GPU ({numbers.counted(cross.sequences or 0, 'request')} at once)"
    if cross.kind == "slower":
        return f"Drafting stops paying from {at}: the batch fills the arithmetic that drafts need."
    return f"Drafting stops paying from {at}: plain decoding goes on to hold more requests in the memory that the draft takes."


def _charts(planned: fleet.Fleet, traffic: fleet.Traffic, serving: batch.Serving, drafting: batch.Drafting) -> None:
    """GPUs against load, and the gain against requests at once, with their tables."""
    left, right = st.columns(2, gap="large")
    with left:
        _by_load(planned, traffic)
    with right:
        held, decoding, request = (list(column) for column in fleet.gains(traffic, serving, drafting))
        gains = figs.Gains([int(at) for at in held], decoding, request)
        alt = f"Gain by requests at once: {decoding[0]:.2f}x at 1, {decoding[-1]:.2f}x at {held[-1]}. {crossover_words(planned.crossover)}"
        look.show(look.drawn(figs.gain, look.palette(), gains), "batch_gain", alt)
        table = pd.DataFrame({"Requests at once": held, "Decoding": decoding, "Whole request": request})
        kept = [at for at, count in enumerate(held) if count in {held[-1], *(2**power for power in range(17))}]
        look.behind("The gain as a table", table.iloc[kept], alt, {"Decoding": "%.2fx", "Whole request": "%.2fx"})


def _by_load(planned: fleet.Fleet, traffic: fleet.Traffic) -> None:
    """Both needs grow in proportion to the requests before they are rounded up."""
    if planned.plain is None or planned.drafted is None:
        return
    requests = np.linspace(0, 2 * traffic.requests_per_day, STEPS)
    scale = requests / traffic.requests_per_day
    without, drafted = ([float(max(1, ceil(need.exact * by))) for by in scale] for need in (planned.plain, planned.drafted))
    load = figs.Load([float(at) for at in requests], without, drafted)
    gpus = f"{numbers.counted(planned.plain.gpus, 'GPU')} without and {planned.drafted.gpus:,} with the draft"
    at = f"at {traffic.requests_per_day:,.0f} requests a day {gpus}"
    look.show(look.drawn(figs.fleet, look.palette(), load, now=traffic.requests_per_day), "fleet_curve", f"GPUs by load: {at}.")
    table = pd.DataFrame({"Requests a day": requests, "GPUs without draft": without, "GPUs with draft": drafted}).iloc[::20]
    look.behind("GPUs by load as a table", table, "GPUs by load", dict.fromkeys(list(table.columns), "localized"))


def _short(value: float) -> str:
    """A number for people: whole and grouped from 1,000 on, else four significant digits at most."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"
