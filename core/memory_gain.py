"""What the draft gives back, before anything is drawn: the speedup with its origin, the money it makes, and both in sentences.

USD of ONE GPU a month, at one request at a time. The speedup comes from a run, or from a slider and is then called what-if.
"""

import re
from dataclasses import dataclass
from typing import Literal

from core import cost, numbers
from core.analysis import Analysis
from core.intervals import Interval
from core.memory import Fit
from core.policies import Drafting, PromptLookup, describe
from core.recommend import Verdict

Origin = Literal["confirmed", "replayed", "what-if"]
GB, MB = 1e9, 1e6
GIB, MIB = 2**30, 2**20
FORMS = {"sxm", "pcie"}


@dataclass(frozen=True)
class Gain:
    """A speedup of decoding over plain, with the interval that is shown, and what is known of it.

    device: where it was measured, "" for a what-if. traffic: whether the interval is for traffic like the prompts, or for these alone.
    plain_tokens_per_s: measured on that device.
    """

    speedup: float
    interval: Interval | None
    origin: Origin
    verdict: Verdict | None = None
    setting: str = ""
    device: str = ""
    traffic: bool = False
    needs_no_draft: bool = False
    plain_tokens_per_s: float | None = None


@dataclass(frozen=True)
class Worth:
    """A gain in USD a month: without the draft, with it, and the saving (negative: an extra cost) with its interval."""

    without_usd: float
    with_usd: float
    saving_usd: float
    interval: Interval | None


def of_run(analysis: Analysis) -> Gain:
    """The gain that a run measured, with the wider interval where there is one."""
    advice = analysis.advice
    where = analysis.run.environment
    return Gain(
        speedup=advice.speedup,
        interval=advice.for_traffic or advice.on_these_prompts,
        origin="confirmed" if advice.confirmed else "replayed",
        verdict=advice.verdict,
        setting=describe(advice.policy),
        device=where.device_name if where else analysis.run.spec.device,
        traffic=advice.for_traffic is not None,
        needs_no_draft=isinstance(advice.policy, PromptLookup),
        plain_tokens_per_s=1 / analysis.costs.plain_step_s,
    )


def gamma(analysis: Analysis | None) -> int | None:
    """The draft length that a run recommends; None without one."""
    policy = analysis.advice.policy if analysis else None
    return policy.limit if isinstance(policy, Drafting) else None


def what_if(speedup: float) -> Gain:
    """A gain that nobody measured."""
    return Gain(speedup, None, "what-if")


def worth(gain: Gain, usd_per_hour: float, hours: float) -> Worth:
    """The gain in money. Raises InvalidInput as `core.cost` does."""
    without = cost.monthly_cost(usd_per_hour, hours)
    saving = cost.monthly_saving(usd_per_hour, gain.speedup, hours)
    interval = cost.saving_interval(usd_per_hour, gain.interval, hours) if gain.interval else None
    return Worth(without, without - saving, saving, interval)


def same_gpu(device: str, gpu: str) -> bool:
    """Whether a device, named as its driver names it ("NVIDIA H100 80GB HBM3"), is the GPU of the table ("H100 SXM").

    Cautious: a doubtful match is none, because tokens per second would be taken over.
    """
    has, wants = _words(device), _words(gpu)
    model = wants - FORMS - _sizes(wants)
    form = not FORMS & wants or ("pcie" in has if "pcie" in wants else not {"pcie", "nvl"} & has)
    memory = not _sizes(has) or _sizes(wants) <= _sizes(has)
    return bool(model) and model <= has and form and memory


def _words(name: str) -> set[str]:
    """The words in small letters; "80 GB" is one, SXM4 is sxm."""
    joined = re.sub(r"(\d+)\s+GB", r"\1GB", name, flags=re.IGNORECASE)
    return {re.sub(r"^sxm\d?$", "sxm", word) for word in re.split(r"[\s,/-]+", joined.lower()) if word}


def _sizes(words: set[str]) -> set[str]:
    return {word for word in words if re.fullmatch(r"\d+gb", word)}


def size(bytes_: float) -> str:
    """Bytes for a headline: 14 GB, 3.1 GB, 46 MB; decimal units."""
    if bytes_ >= 10 * GB:
        return f"{bytes_ / GB:,.0f} GB"
    return f"{bytes_ / GB:.1f} GB" if bytes_ >= 0.995 * GB else f"{bytes_ / MB:,.0f} MB"


def cache(bytes_: float) -> str:
    """Bytes of cache: 4.00 GiB, 12 MiB; binary units."""
    return f"{bytes_ / GIB:,.2f} GiB" if bytes_ >= GIB else f"{bytes_ / MIB:,.1f} MiB"


def usd(amount: float) -> str:
    """An amount without its sign: 1,057 USD, and cents below 10."""
    return f"{abs(amount):,.0f} USD" if abs(amount) >= 10 else f"{abs(amount):,.2f} USD"


def bounds(interval: Interval | None, *, extra: bool = False) -> str:
    """An interval of a saving: [637, 749]. extra: of an extra cost, so that it holds the amount that is named; empty when there is none."""
    if interval is None:
        return ""
    low, high = (-interval.high, -interval.low) if extra else interval
    digits = 0 if max(abs(low), abs(high)) >= 10 else 2
    return f"[{low:,.{digits}f}, {high:,.{digits}f}]"


def saves_nothing(value: Worth) -> bool:
    """Whether the saving rounds to nothing."""
    return abs(value.saving_usd) < 0.005


def headline(found: Fit, gain: Gain, value: Worth | None) -> str:
    """The page's one sentence, in Markdown."""
    taken = f"takes {size(draft_bytes(found))}"
    if found.verdict == "does not fit":
        load = numbers.counted(found.sequences, "sequence")
        verb = "does" if found.sequences == 1 else "do"
        return f"{load} of {found.context:,} tokens {verb} not fit one {found.gpu.name}: {cache(found.parts.missing_bytes)} are missing"
    if value is None:
        return f"The draft {taken}"
    if gain.verdict == "undecided":
        return f"The draft {taken}; whether it saves money is not decided yet"
    money = _money(value)
    if gain.origin == "what-if":
        return f"What if {numbers.ratio(gain.speedup)}: the draft {taken} and {money}"
    elsewhere = f"{numbers.ratio(gain.speedup)} measured elsewhere"
    here = same_gpu(gain.device, found.gpu.name)
    if gain.verdict == "leave_off":
        start = "Leave the draft off" if here else f"At {elsewhere}, leave the draft off"
        return f"{start}: it {taken} and {money.replace('saves', 'saves only')}"
    if not here:
        return f"The draft {taken} and, at {elsewhere}, {money}"
    return f"The draft {taken} and {money}"


def _money(value: Worth) -> str:
    if saves_nothing(value):
        return "saves nothing"
    if value.saving_usd > 0:
        return f"saves :green[{usd(value.saving_usd)} a month]"
    return f":orange[costs {usd(value.saving_usd)} more a month]"


def draft_bytes(found: Fit) -> int:
    """What the draft takes: its weights, and its cache of the sequences asked for."""
    return found.parts.draft_weights_bytes + found.parts.draft_kv_bytes


def concurrency(found: Fit) -> str:
    """What the draft costs of concurrency, in words that end a clause."""
    lost = found.concurrency_lost
    if lost is None:
        return f"no request of {found.context:,} tokens fits even without it"
    requests = f"{numbers.counted(found.alone.sequences, 'request')} of {found.context:,} tokens"
    if not lost:
        return f"costs no concurrency ({requests} with it and without)"
    return f"costs {share(lost)} of concurrency ({found.together.sequences:,} instead of {requests})"


def share(lost: float) -> str:
    """The share of concurrency that the draft costs: none only where it is none, 100 % only where it is all."""
    if 0 < lost < 0.01:
        return "less than 1 %"
    return "more than 99 %" if 0.99 < lost < 1 else f"{lost * 100:.0f} %" if lost else "nothing"


def sentence(names: tuple[str, str], found: Fit, gain: Gain, value: Worth | None, other: tuple[str, float | None], price: str) -> str:
    """For stakeholders, as plain text: memory, concurrency, money with its interval, and how the speedup is known.

    price: what the money rests on, in a few words; where there is no money, the sentence that says why.
    """
    target, draft = names
    start = f"On one {found.gpu.name} the draft {draft} takes {size(draft_bytes(found))} beside {target} and {concurrency(found)}"
    if found.verdict == "does not fit":
        return f"{start}. {found.reason}"
    if value is None:
        return f"{start}. {price}"
    amount = usd(value.saving_usd)
    code, rate = other
    if code and rate:
        amount += f" ({abs(cost.converted(value.saving_usd, rate)):,.0f} {code} at {rate:g})"
    verb = "saves" if value.saving_usd >= 0 else "costs an extra"
    spread = f", 95 % interval {bounds(value.interval, extra=value.saving_usd < 0)}" if value.interval else ""
    return f"{start}; at one request at a time it {verb} {amount} a month{spread} ({price}; {known(gain, found.gpu.name)})."


def known(gain: Gain, gpu: str) -> str:
    """How the speedup is known, in words."""
    speed = numbers.ratio(gain.speedup)
    if gain.origin == "what-if":
        return f"what-if speedup {speed}, not measured"
    way = "measured" if gain.origin == "confirmed" else "predicted from a measured run"
    verdict = {"undecided": ", not decided yet", "leave_off": ", too little to leave it on"}.get(gain.verdict or "", "")
    elsewhere = "" if same_gpu(gain.device, gpu) else ", not on this GPU"
    return f"speedup {speed} {way} on {gain.device}{elsewhere}{verdict}"
