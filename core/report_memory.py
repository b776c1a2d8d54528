"""The memory and the money of a report: the pair on one GPU, what the draft takes there and what its speedup is worth.

Units: bytes of ONE GPU, USD a month at one request at a time. Measured is only the speedup; memory is sized, prices are listed.
"""

from dataclasses import dataclass

from core import cost, memory_gain, prices
from core.analysis import Analysis
from core.errors import InvalidInput
from core.memory import CacheProfile, Fit, GpuMemory, model_memory
from core.memory_fit import DEFAULT_OVERHEAD_BYTES
from core.memory_served import DEFAULT_CONTEXT, DEFAULT_GAMMA, DEFAULT_GPU, DEFAULT_SEQUENCES, DEFAULT_UTILISATION, Setting, fitted
from core.model_info import Weights
from core.prices import Price


@dataclass(frozen=True)
class Model:
    """One model's sizes: its cache, layer by layer, and its files' bytes where they are known."""

    profile: CacheProfile
    weights: Weights | None = None


@dataclass(frozen=True)
class Served:
    """The pair on one GPU, as the memory page begins with it, and the cheapest listed price of that GPU; None where there is none."""

    setting: Setting
    found: Fit
    gpu_note: str
    price: Price | None


def served(analysis: Analysis, target: Model, draft: Model) -> Served:
    """On the GPU of the run where it is a known one, else on the default. Raises InvalidInput where a size is impossible."""
    where = analysis.run.environment
    device = where.device_name if where else ""
    known = next((gpu for gpu in prices.gpus() if memory_gain.same_gpu(device, gpu.name)), None) or prices.find_gpu(DEFAULT_GPU)
    if known is None:
        raise InvalidInput(f"The GPU {DEFAULT_GPU} is missing from the table of GPUs. Install Draftgauge again.")
    context = min(DEFAULT_CONTEXT, target.profile.context or DEFAULT_CONTEXT)
    gamma = memory_gain.gamma(analysis) or DEFAULT_GAMMA
    big, small = (model_memory(model.profile, model.weights) for model in (target, draft))
    setting = Setting(big, small, context, DEFAULT_SEQUENCES, DEFAULT_UTILISATION, DEFAULT_OVERHEAD_BYTES, "vLLM", gamma)
    gpu = GpuMemory(known.name, known.planning_bytes, f"{known.label_gb} GB")
    single = sorted(prices.find(prices.load(), known.name), key=lambda price: price.gpus != 1)
    return Served(setting, fitted(setting, gpu), known.planning_note, single[0] if single else None)


def sentence(analysis: Analysis, shown: Served) -> str:
    """For stakeholders: memory, concurrency, money with its interval, and how the speedup is known."""
    spec, gain = analysis.run.spec, memory_gain.of_run(analysis)
    price, name = shown.price, shown.found.gpu.name
    value = memory_gain.worth(gain, price.usd_per_gpu_hour, cost.HOURS_PER_MONTH) if price else None
    basis = f"{price.usd_per_gpu_hour:,.2f} USD per GPU-hour as of {price.dated:%Y-%m-%d}" if price else f"There is no price for the {name}."
    return memory_gain.sentence((spec.target.name, spec.draft.name), shown.found, gain, value, ("", None), basis)


def assumptions(analysis: Analysis, shown: Served) -> list[str]:
    """What those numbers rest on, a sentence each."""
    setting, price, name = shown.setting, shown.price, shown.found.gpu.name
    gain = memory_gain.of_run(analysis)
    lines = [
        f"{setting.sequences} sequences of {setting.context:,} tokens in {setting.engine}, cache in {setting.target.kv_dtype}, "
        f"{setting.utilisation * 100:.0f} % of the memory usable, {setting.overhead_bytes / 2**30:g} GiB for activations and graphs.",
        shown.gpu_note,
    ]
    if price:
        lines.append(
            f"Price: {price.provider}, {price.instance or price.gpu}, listed on {price.dated:%Y-%m-%d}; {cost.HOURS_PER_MONTH:.0f} hours a month."
        )
    if not memory_gain.same_gpu(gain.device, name):
        lines.append(f"The speedup was measured on {gain.device}, not on the {name}; there it may be another.")
    if gain.needs_no_draft:
        lines.append("The setting above copies from the prompt and needs no draft model, so none of the draft's memory is taken with it.")
    lines.append("The money holds at one request at a time; what drafting gains shrinks as requests are batched.")
    return [*lines, *shown.found.notes]
