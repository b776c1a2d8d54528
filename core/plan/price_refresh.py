"""Today's prices through the optional package `gpuhunt`, as a job of its own because it needs the network.

gpuhunt (https://github.com/dstackai/gpuhunt, tried with 0.1.34) downloads one catalog per provider, in USD per
hour of the instance. Kept are on-demand instances with a GPU of `core/gpus.csv`, each once, in its
cheapest region; an A100 or H100 with 80 GB only where the instance's name tells the form factor.
Absence of the package, no network and an empty answer are sentences, and the shipped table stays.
"""

import importlib
from collections.abc import Iterable
from datetime import UTC, date, datetime
from typing import Any

from core import prices
from core.errors import DraftgaugeError
from core.prices import Price
from core.settings import Settings

STAYS = "The shipped prices stay in use."
PROVIDERS = {
    "lambdalabs": "Lambda",
    "nebius": "Nebius",
    "runpod": "RunPod",
    "aws": "AWS",
    "gcp": "GCP",
    "azure": "Azure",
    "verda": "Verda",
    "oci": "OCI",
}
GPUS = {
    ("T4", 16): "T4",
    ("L4", 24): "L4",
    ("A10", 24): "A10",
    ("A10G", 24): "A10G",
    ("RTX3090", 24): "RTX 3090",
    ("RTX4090", 24): "RTX 4090",
    ("L40S", 48): "L40S",
    ("A100", 40): "A100 40GB",
    ("GH200", 96): "GH200",
    ("H200", 141): "H200 SXM",
    ("B200", 180): "B200",
    ("MI300X", 192): "MI300X",
}
FORMS = {("A100", 80): {"sxm": "A100 80GB SXM", "pcie": "A100 80GB PCIe"}, ("H100", 80): {"sxm": "H100 SXM", "pcie": "H100 PCIe"}}


def refresh(arguments: dict[str, Any], settings: Settings) -> dict[str, Any]:
    """{"csv": a table as `prices.to_csv` writes it, "rows": its length}. Raises DraftgaugeError with a sentence."""
    try:
        gpuhunt: Any = importlib.import_module("gpuhunt")
    except ImportError as error:
        raise DraftgaugeError(f"Prices cannot be refreshed: the package gpuhunt is not installed (pip install gpuhunt). {STAYS}") from error
    catalog = gpuhunt.Catalog(auto_reload=False)
    try:
        catalog.load()
        items = catalog.query(provider=sorted(PROVIDERS), min_gpu_count=1, spot=False)
    except Exception as error:  # gpuhunt lets errors of any library through
        raise DraftgaugeError(f"Prices cannot be refreshed: {_short(error)}. Check the network and try again. {STAYS}") from error
    days = {name: _day(loaded.version) for name, loaded in catalog.catalog.items()}
    table = offers(items, days)
    if not table:
        raise DraftgaugeError(f"Prices cannot be refreshed: gpuhunt lists none for the known GPUs. Try again later. {STAYS}")
    return {"csv": prices.to_csv(table), "rows": len(table)}


def offers(items: Iterable[Any], days: dict[str, date]) -> tuple[Price, ...]:
    """Catalog items as prices: known GPUs only, each instance once, in its cheapest region. days: the date of each provider's catalog."""
    cheapest: dict[tuple[str, str, str, int], Price] = {}
    for item in items:
        price = _price(item, days)
        if price is None:
            continue
        offer = (price.provider.casefold(), price.instance.casefold(), price.gpu.casefold(), price.gpus)
        if offer not in cheapest or price.usd_per_hour < cheapest[offer].usd_per_hour:
            cheapest[offer] = price
    return tuple(cheapest[offer] for offer in sorted(cheapest))[: prices.MOST_ROWS]


def _price(item: Any, days: dict[str, date]) -> Price | None:
    gpu = _gpu(item)
    if gpu is None or item.spot or item.provider not in days.keys() & PROVIDERS or not 0 < item.price <= prices.MOST_USD_PER_HOUR:
        return None
    return Price(
        provider=PROVIDERS[item.provider],
        instance=str(item.instance_name),
        gpu=gpu,
        gpus=int(item.gpu_count),
        usd_per_hour=round(float(item.price), 6),
        dated=days[item.provider],
        source=f"gpuhunt, {item.provider}, {item.location}",
    )


def _gpu(item: Any) -> str | None:
    """Our name of an item's GPU; None where it is not known or its form factor is not told."""
    kind = (str(item.gpu_name), round(float(item.gpu_memory or 0)))
    name = str(item.instance_name).lower()
    forms = [gpu for form, gpu in FORMS.get(kind, {}).items() if form in name]
    return forms[0] if len(forms) == 1 else GPUS.get(kind)


def _day(version: str) -> date:
    """The day on which a catalog was published, from its version (20261128 or 20261128-2); else today, when it was read."""
    try:
        return datetime.strptime(version[:8], "%Y%m%d").replace(tzinfo=UTC).date()
    except ValueError:
        return datetime.now(UTC).date()


def _short(error: Exception) -> str:
    """An error and its cause in one line."""
    cause = error.__cause__
    return " ".join(f"{error}{f' ({cause})' if cause else ''}".split())[:300].rstrip(".")
