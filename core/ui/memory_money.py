"""The money of the memory page: three figures, what they rest on, another currency, and the sentence for stakeholders."""

from datetime import date

import streamlit as st

from core import cost
from core.intervals import Interval
from core.memory import Fit
from core.memory_gain import Gain, Worth, bounds, cache, same_gpu, saves_nothing, share, size, usd
from core.ui import look, memory_copy, memory_prices, numbers
from core.ui.memory_inputs import Money

NO_ROOM = "Not one request of this context fits beside the draft."


def facts(found: Fit, gain: Gain, value: Worth | None, money: Money) -> str:
    """The line under the headline: the interval, of what, and how speedup and memory are known."""
    parts: list[str] = []
    if value is not None and found.verdict != "does not fit":
        whose = "for traffic like these prompts" if gain.traffic else "on these prompts"
        if not same_gpu(gain.device, found.gpu.name):
            whose += f", if this GPU gained what {look.plain(gain.device)} did"
        extra, undecided = value.saving_usd < 0, gain.verdict == "undecided"
        if undecided:  # the headline names no amount that what follows could be of
            amount = f"{'costs' if extra else 'saves'} {usd(value.saving_usd)}{' more' if extra else ''}"
            parts.append(f"So far it {amount} a month{',' if value.interval else ''}")
        if value.interval:
            parts.append(f"**{bounds(value.interval, extra=extra)}**{' more' if extra else ''} {whose}, of")
        else:
            parts.append("of" if undecided else "Of")
        parts.append(f"{value.without_usd:,.2f} USD per {look.plain(found.gpu.name)}, at one request at a time.")
    elif value is None:
        why = "The price or the hours cannot be read" if money.spoilt else f"No price for the {look.plain(found.gpu.name)}"
        parts.append(f"{why}, so no money is given.")
    where = "" if not gain.device or same_gpu(gain.device, found.gpu.name) else f" on {look.plain(gain.device)}"
    parts.append(f"{look.ORIGINS[gain.origin]} :small[:gray[speedup {numbers.ratio(gain.speedup)}{where}]]")
    held = found.parts
    sizes = f"{size(held.draft_weights_bytes)} weights, {cache(held.draft_kv_bytes)} cache"
    parts.append(f"{look.ORIGINS['estimate']} :small[:gray[memory: {sizes} for {numbers.counted(found.sequences, 'sequence')}]]")
    return " ".join(parts)


def origin_note(gain: Gain, gpu: str, waits: str) -> str:
    """Where the speedup was measured and what that means for this GPU; for a what-if, why a run has none (`waits`)."""
    if gain.origin == "what-if":
        return look.plain(waits)
    where = look.plain(gain.device)
    said = f"{numbers.ratio(gain.speedup)} with {look.plain(gain.setting)} was measured on {where}"
    if gain.origin == "replayed":
        said = f"{numbers.ratio(gain.speedup)} with {look.plain(gain.setting)} is predicted from a run on {where}"
    if gain.needs_no_draft:
        said += "; it needs no draft model, and so none of the draft's memory"
    if same_gpu(gain.device, gpu):
        return f"{said}."
    warning = "on another device the multiple differs. Measure there before you rely on the money."
    return f":material/warning: {said}, not on the {look.plain(gpu)}: {warning}"


def figures(found: Fit, gain: Gain, value: Worth | None, money: Money, tokens_per_s: float | None) -> None:
    """Concurrency, a month, a million tokens: each with the draft, and the change against plain."""
    alone, together = found.alone.sequences, found.together.sequences
    changed = f"-{alone - together:,} of {alone:,}" if together < alone else "none lost" if alone else "none without it"
    meaning = f"Most requests of {found.context:,} tokens that fit at once with the draft; below, what the draft costs of them."
    row = [look.Fact(f"Sequences at {found.context:,}", f"{together:,}", changed, "", meaning)]
    if not together:
        look.fact_row([*row, *(look.Fact(name, "none", "does not fit", "", NO_ROOM) for name in ("USD per month", "USD per 1M tokens"))])
        return
    if value is None:
        row.append(look.Fact("USD per month", "no price", "correct it" if money.spoilt else "type yours", "", _no_price(money)))
    else:
        basis = "GPU time of the same work with the draft, one request at a time; below, the change against plain decoding."
        row.append(look.Fact("USD per month", f"{value.with_usd:,.0f}", _change(-value.saving_usd, value.without_usd, 0), "", basis))
    row.append(_million(gain, money, tokens_per_s))
    look.fact_row(row)


def _million(gain: Gain, money: Money, tokens_per_s: float | None) -> look.Fact:
    label = "USD per 1M tokens"
    if tokens_per_s is None:
        why = "Needs plain tokens/s on this GPU: measure a run there, or type yours under Prices and assumptions."
        return look.Fact(label, "not measured", "needs tokens/s", "", why)
    if money.usd_per_hour is None:
        return look.Fact(label, "no price", "correct it" if money.spoilt else "type yours", "", _no_price(money))
    plain = cost.usd_per_million_tokens(money.usd_per_hour, tokens_per_s)
    faster = cost.usd_per_million_tokens(money.usd_per_hour, tokens_per_s * gain.speedup)
    meaning = f"Answer tokens, one request at a time: {tokens_per_s:,.1f} tokens/s plain, {tokens_per_s * gain.speedup:,.1f} with the draft."
    return look.Fact(label, f"{faster:,.2f}", _change(faster - plain, plain, 2), "", meaning)


def _no_price(money: Money) -> str:
    if money.spoilt:
        return "The price or the hours that you typed cannot be read."
    return "The table has no price for this GPU. Type yours under Prices and assumptions."


def _change(change: float, of: float, digits: int) -> str:
    """-694 of 3,089; +309 of 3,089 for an extra cost."""
    return f"{change:+,.{digits}f} of {of:,.{digits}f}"


def notes(found: Fit, value: Worth | None, money: Money) -> None:
    """What the figures rest on, sentence by sentence."""
    lost = found.concurrency_lost
    if lost is None:
        look.note("Not one request of this context fits even without the draft.")
    else:
        costs = f"{share(lost)} of" if lost else "no"
        look.note(
            f"The draft costs {costs} concurrency. The money holds at one request at a time; what drafting gains shrinks as "
            "requests are batched: see Fleet below."
        )
    if value is not None and money.currency and money.rate:
        look.note(_converted(value, money.currency, money.rate))
    look.note(price_line(money, found.gpu.name))


def _converted(value: Worth, code: str, rate: float) -> str:
    without, with_draft, saving = (cost.converted(amount, rate) for amount in (value.without_usd, value.with_usd, value.saving_usd))
    change = "saving nothing" if saves_nothing(value) else f"{'saving' if saving > 0 else 'an extra'} {abs(saving):,.2f}"
    spread = ""
    if value.interval:
        low, high = (cost.converted(end, rate) for end in value.interval)
        spread = f" {bounds(Interval(low, high), extra=saving < 0)}"
    return f"In {code} at {rate:g} per USD: {without:,.2f} a month without, {with_draft:,.2f} with the draft, {change}{spread}."


def price_line(money: Money, gpu: str) -> str:
    """Whose price it is, of what date; flagged when old."""
    if money.usd_per_hour is None:
        return "Correct the price or the hours to see money." if money.spoilt else f"No price for the {look.plain(gpu)} in the table."
    each = f"{money.usd_per_hour:,.2f} USD per GPU-hour, {money.hours:,g} hours a month"
    offer = money.offer
    if offer is None:
        return f"Your price: {each}."
    share = f" (one of {offer.gpus} GPUs of an instance at {offer.usd_per_hour:,.2f})" if offer.gpus > 1 else ""
    name = f"{offer.provider}, {offer.instance or offer.gpu}"
    return f"{look.plain(name)}: {each}{share}. Price of {memory_prices.stale(offer, date.today())}."


def basis(money: Money, gpu: str) -> str:
    """What the money rests on, for the copied sentence; a sentence that says why where there is none. Plain text."""
    if money.spoilt:
        return "The price or the hours that were typed cannot be read, so no saving is given."
    if money.usd_per_hour is None:
        return f"There is no price for the {gpu}, so no saving is given."
    listed = f" as of {money.offer.dated:%Y-%m-%d}" if money.offer else ""
    return f"{money.usd_per_hour:,.2f} USD per GPU-hour{listed}"


def stakeholders(text: str) -> None:
    """The sentence, to read and to copy; the page's one primary button."""
    with st.container(border=True, gap="small"):
        st.markdown("**For stakeholders**")
        st.text(text)
        with st.container(horizontal=True, vertical_alignment="center"):
            memory_copy.button(text, "Copy as sentence", "copy_sentence")
            memory_prices.download()
