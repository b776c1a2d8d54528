"""GPUs, and what renting them costs: a small dated table, a person's own CSV, and how old each price is.

Prices are on-demand list prices in USD per hour of the whole instance, before tax; memory labels are
in the vendor's GB, usable memory in bytes as programs report it, bandwidth in bytes per second.
`core/prices.csv` and `core/gpus.csv` carry a source per row. Left out on purpose: prices that are
approximate, older than another of the same offer, without a currency or date, or of an unclear form
factor. A GPU without a price has none: `find` is empty, never zero.
"""

import csv
import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from functools import cache
from pathlib import Path

from core import cost
from core.errors import InvalidInput

GIB = 2**30
STALE_DAYS = 90
COLUMNS = ("provider", "instance", "gpu", "gpus", "usd_per_hour", "dated", "source")
MAY_BE_EMPTY = frozenset({"instance", "source"})
MOST_BYTES = 1_000_000
MOST_ROWS = 2_000
MOST_CELL = 300
MOST_GPUS = 1_024
MOST_USD_PER_HOUR = 10_000
FORMULA_STARTS = ("=", "+", "-", "@")
LEAST_SEEN_SHARE = 0.916
"""The smallest usable share of its label among the GPUs of the table whose memory was read (the A10)."""
FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Gpu:
    """One GPU. `usable_bytes` is what programs report as its total memory, None where nobody's reading is known.

    label_gb: the number in its name. bf16_flops_per_s: dense, vendor's figure; None where not known or without bf16 units.
    """

    name: str
    label_gb: int
    usable_bytes: int | None
    usable_source: str
    bandwidth_bytes_per_s: float
    bf16_flops_per_s: float | None
    source: str

    @property
    def planning_bytes(self) -> int:
        """Memory to plan with: as read, else a cautious estimate; `planning_note` says which."""
        return self.usable_bytes or int(self.label_gb * LEAST_SEEN_SHARE * GIB)

    @property
    def planning_note(self) -> str:
        """Where `planning_bytes` comes from, as a sentence."""
        gib = self.planning_bytes / GIB
        if self.usable_bytes:
            return f"{gib:.2f} GiB usable of {self.label_gb} GB on the label ({self.usable_source})."
        share = f"{LEAST_SEEN_SHARE:.1%} of the label, the smallest share seen on another GPU"
        return f"Estimate: the usable memory of the {self.name} is not known. {gib:.1f} GiB is {share}."


@dataclass(frozen=True)
class Price:
    """USD per hour of one instance with `gpus` GPUs, as listed on `dated`."""

    provider: str
    instance: str
    gpu: str
    gpus: int
    usd_per_hour: float
    dated: date
    source: str

    @property
    def usd_per_gpu_hour(self) -> float:
        """The instance's price / its GPUs."""
        return self.usd_per_hour / self.gpus

    def age_days(self, today: date) -> int:
        """Days since the price was listed."""
        return (today - self.dated).days

    def stale(self, today: date) -> bool:
        """Whether the price is older than 90 days."""
        return self.age_days(today) > STALE_DAYS


@cache
def load() -> tuple[Price, ...]:
    """The shipped prices."""
    return _parse((FOLDER / "prices.csv").read_text("utf-8"), latest=date.max)


@cache
def gpus() -> tuple[Gpu, ...]:
    """The shipped GPUs, smallest label first."""
    with (FOLDER / "gpus.csv").open(encoding="utf-8", newline="") as file:
        return tuple(_gpu(row) for row in csv.DictReader(file))


def find_gpu(name: str) -> Gpu | None:
    """The GPU of that name, whatever the case; None where it is not known."""
    return next((gpu for gpu in gpus() if gpu.name.casefold() == name.strip().casefold()), None)


def find(table: Iterable[Price], gpu: str, count: int | None = None) -> tuple[Price, ...]:
    """The prices of a GPU (in instances with `count` of them), cheapest per GPU first; empty where there is none."""
    wanted = gpu.strip().casefold()
    rows = [price for price in table if price.gpu.casefold() == wanted and count in (None, price.gpus)]
    return tuple(sorted(rows, key=lambda price: (price.usd_per_gpu_hour, price.provider, price.instance)))


def parse_csv(content: str | bytes, today: date | None = None) -> tuple[Price, ...]:
    """A person's own prices, with the columns of `COLUMNS` in any order. Raises InvalidInput with a sentence for anything else.

    Dates may lie at most one day ahead of `today` (time zones).
    """
    if isinstance(content, bytes):
        try:
            content = content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise InvalidInput(f"The price file is not UTF-8 (byte {error.start}). Save it as CSV in UTF-8.") from error
    return _parse(content.removeprefix("\ufeff"), latest=(today or date.today()) + timedelta(days=1))


def from_rows(rows: Iterable[Mapping[str, str]], today: date | None = None) -> tuple[Price, ...]:
    """Prices from rows of text, as an edited table gives them. Raises InvalidInput as `parse_csv` does."""
    return _prices(enumerate(rows, start=1), (today or date.today()) + timedelta(days=1))


def to_csv(table: Iterable[Price]) -> str:
    """The table as CSV that `parse_csv` reads back. Raises InvalidInput for a cell that a spreadsheet would run."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for price in table:
        texts = (price.provider, price.instance, price.gpu, price.source)
        provider, instance, gpu, source = (_text(text, "A price") for text in texts)
        writer.writerow([provider, instance, gpu, price.gpus, f"{Decimal(repr(price.usd_per_hour)):f}", price.dated.isoformat(), source])
    return out.getvalue()


def _gpu(row: Mapping[str, str]) -> Gpu:
    usable, tflops = row["usable_gib"], row["bf16_tflops"]
    return Gpu(
        name=row["gpu"],
        label_gb=int(row["label_gb"]),
        usable_bytes=int(float(usable) * GIB) if usable else None,
        usable_source=row["usable_source"],
        bandwidth_bytes_per_s=float(row["bandwidth_gb_s"]) * 1e9,
        bf16_flops_per_s=float(tflops) * 1e12 if tflops else None,
        source=row["source"],
    )


def _parse(text: str, latest: date) -> tuple[Price, ...]:
    if len(text) > MOST_BYTES:
        raise InvalidInput(f"The price file has {len(text):,} characters; at most {MOST_BYTES:,} are read. Leave out what you do not need.")
    if not text.strip():
        raise InvalidInput(f"The price file is empty. Its first line must be: {','.join(COLUMNS)}")
    try:
        lines = [(number, line) for number, line in enumerate(csv.reader(io.StringIO(text, newline=""), strict=True), start=1) if line]
    except csv.Error as error:
        raise InvalidInput(f"The price file is not CSV ({error}). Save it as CSV with commas between the columns.") from error
    (_, header), *body = lines
    names = [name.strip().lower() for name in header]
    if sorted(names) != sorted(COLUMNS):
        raise InvalidInput(f"The price file has the columns {', '.join(names)[:MOST_CELL]}. Its first line must be: {','.join(COLUMNS)}")
    for number, line in body:
        if len(line) != len(COLUMNS):
            raise InvalidInput(f"Row {number} of the prices has {len(line)} cells; it must have {len(COLUMNS)}. Quote cells that hold commas.")
    return _prices(((number, dict(zip(names, line, strict=True))) for number, line in body), latest)


def _prices(rows: Iterable[tuple[int, Mapping[str, str]]], latest: date) -> tuple[Price, ...]:
    offers: dict[tuple[str, str, str, int], Price] = {}
    for number, row in rows:
        price = _price(f"Row {number} of the prices", row, latest)
        offer = (price.provider.casefold(), price.instance.casefold(), price.gpu.casefold(), price.gpus)
        if offer in offers:
            raise InvalidInput(f"Row {number} of the prices repeats {price.provider} {price.instance} {price.gpu}. Keep one of the two.")
        offers[offer] = price
        if len(offers) > MOST_ROWS:
            raise InvalidInput(f"The prices have more than {MOST_ROWS:,} rows. Leave out what you do not need.")
    if not offers:
        raise InvalidInput("There are no prices below the line of column names. Add a row for each instance.")
    return tuple(offers.values())


def _price(where: str, row: Mapping[str, str], latest: date) -> Price:
    cells = {name: row.get(name, "").strip() for name in COLUMNS}
    for name, cell in cells.items():
        if not cell and name not in MAY_BE_EMPTY:
            raise InvalidInput(f"{where} has no {name}. Fill it in or remove the row.")
    return Price(
        provider=_text(cells["provider"], where),
        instance=_text(cells["instance"], where),
        gpu=_text(cells["gpu"], where),
        gpus=_count(cells["gpus"], where),
        usd_per_hour=cost.parse_amount(cells["usd_per_hour"], f"usd_per_hour in {where[0].lower()}{where[1:]}", MOST_USD_PER_HOUR),
        dated=_date(cells["dated"], where, latest),
        source=_text(cells["source"], where),
    )


def _text(cell: str, where: str) -> str:
    """A cell without its outer blanks. Refuses what a spreadsheet would run as a formula, control characters and long texts."""
    text = cell.strip()
    if not (text.isprintable() and len(text) <= MOST_CELL):
        raise InvalidInput(f"{where} has a cell with control characters or more than {MOST_CELL} characters: {text[:40]!r}. Shorten or retype it.")
    if text.startswith(FORMULA_STARTS):
        raise InvalidInput(f"{where} has the cell {text[:40]!r}, which a spreadsheet would run as a formula. Remove its first character.")
    return text


def _count(cell: str, where: str) -> int:
    if not (cell.isascii() and cell.isdecimal() and len(cell) <= 6 and 1 <= int(cell) <= MOST_GPUS):
        raise InvalidInput(f"{where} has {cell[:40]!r} gpus; write a whole number from 1 to {MOST_GPUS:,}.")
    return int(cell)


def _date(cell: str, where: str, latest: date) -> date:
    try:
        day = date.fromisoformat(cell)
    except ValueError as error:
        raise InvalidInput(f"{where} is dated {cell[:40]!r}. Write the day as 2026-11-05.") from error
    if day > latest:
        raise InvalidInput(f"{where} is dated {cell[:40]!r}, which lies in the future. Write the day on which the price was read.")
    return day
