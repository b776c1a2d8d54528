"""The shipped table's own rules, people's CSV files good and bad, and a refresh through the real gpuhunt where it is installed."""

import csv
import http.server
import importlib.util
import io
import re
import threading
import zipfile
from dataclasses import replace
from datetime import date
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core import prices
from core.errors import DraftgaugeError, InvalidInput
from core.plan import price_refresh
from core.prices import COLUMNS, GIB, Price
from core.settings import Settings

TODAY = date(2026, 11, 29)
HEADER = ",".join(COLUMNS)
ROW = "Own,box,H100 SXM,1,2.5,2026-11-01,invoice"


def test_shipped_table_is_dated_sourced_and_of_known_gpus():
    table = prices.load()
    names = {gpu.name for gpu in prices.gpus()}
    assert len(table) >= 20
    assert all(price.gpu in names and "http" in price.source and date(2026, 5, 1) <= price.dated <= TODAY for price in table)
    assert len({(price.provider, price.instance, price.gpu) for price in table}) == len(table)
    assert prices.parse_csv(prices.to_csv(table), TODAY) == table


def test_age_and_staleness():
    price = replace(prices.load()[0], dated=date(2026, 8, 31))
    assert (price.age_days(TODAY), price.stale(TODAY)) == (90, False)
    assert price.stale(date(2026, 11, 30))
    assert {price.provider for price in prices.load() if price.stale(TODAY)} == {"Modal"}


def test_find_is_cheapest_first_and_empty_without_a_price():
    found = prices.find(prices.load(), "h100 sxm")
    assert [price.usd_per_gpu_hour for price in found] == sorted(price.usd_per_gpu_hour for price in found)
    assert {price.gpus for price in found} == {1, 2, 4, 8}
    assert [price.usd_per_hour for price in prices.find(found, "H100 SXM", 8)] == [31.92]
    for gpu in ("RTX 3090", "MI300X", "A10G", "TPU v9"):
        assert prices.find(prices.load(), gpu) == ()


def known(name):
    gpu = prices.find_gpu(name)
    assert gpu is not None
    return gpu


def test_usable_memory_is_read_or_said_to_be_estimated():
    a10, l4 = known("A10"), known("L4")
    assert a10.usable_bytes == a10.planning_bytes == int(21.99 * GIB)
    assert "21.99 GiB usable of 24 GB" in a10.planning_note
    assert l4.usable_bytes is None
    assert l4.planning_bytes < 24 * GIB * 0.92
    assert "not known" in l4.planning_note
    assert prices.find_gpu("unheard of") is None
    seen = [gpu.usable_bytes / GIB / gpu.label_gb for gpu in prices.gpus() if gpu.usable_bytes]
    assert abs(prices.LEAST_SEEN_SHARE - min(seen)) < 5e-4
    assert all(gpu.planning_bytes < gpu.label_gb * GIB for gpu in prices.gpus())
    assert all(bool(gpu.usable_source) == bool(gpu.usable_bytes) and gpu.source for gpu in prices.gpus())


def test_bandwidth_and_arithmetic():
    h100, t4 = known("H100 SXM"), known("T4")
    assert (h100.bandwidth_bytes_per_s, h100.bf16_flops_per_s) == (3.35e12, 989e12)
    assert t4.bf16_flops_per_s is None


def test_own_csv_in_any_order_with_bom_and_empty_cells():
    own = b"\xef\xbb\xbfGPU, gpus,provider,usd_per_hour,dated,instance,source\r\nMy GPU,8,me,12.80,2026-11-30,,\r\n\r\n"
    assert prices.parse_csv(own, TODAY) == (Price("me", "", "My GPU", 8, 12.8, date(2026, 11, 30), ""),)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("", "is empty"),
        (" \n", "is empty"),
        (HEADER, "no prices below"),
        (HEADER.replace("gpu,", "card,") + "\n" + ROW, "card"),
        (HEADER.replace(",", ";") + "\n" + ROW, "Its first line must be"),
        (HEADER + ",gpu\n" + ROW + ",x", "Its first line must be"),
        (f"{HEADER}\n{ROW},more", "has 8 cells"),
        (f'{HEADER}\n"Own', "not CSV"),
        (f"{HEADER}\n{ROW}\n{ROW.replace('2.5', '3')}", "Row 3 of the prices repeats Own box H100 SXM"),
        (f"{HEADER}\n{ROW}".encode("utf-16"), "not UTF-8"),
        (f"{HEADER}\n{ROW}\n{'x' * 1_000_001}", "at most 1,000,000"),
        ("\n".join([HEADER, *(ROW.replace("box", f"box{i}") for i in range(2001))]), "more than 2,000 rows"),
    ],
)
def test_files_that_cannot_be_read(content, sentence):
    with pytest.raises(InvalidInput, match=re.escape(sentence)):
        prices.parse_csv(content, TODAY)


@pytest.mark.parametrize(
    ("column", "cell", "sentence"),
    [
        ("usd_per_hour", '"1,29"', "'1,29', with a comma"),
        ("usd_per_hour", "$1.29", "'$1.29', with a currency"),
        ("usd_per_hour", "1.29 EUR", "currency"),
        ("usd_per_hour", "-1.29", "negative"),
        ("usd_per_hour", "0", "above zero"),
        ("usd_per_hour", "nan", "not an amount"),
        ("usd_per_hour", "10001", "at most 10,000"),
        ("usd_per_hour", "", "has no usd_per_hour"),
        ("provider", "", "has no provider"),
        ("gpu", "  ", "has no gpu"),
        ("gpus", "0", "'0' gpus"),
        ("gpus", "1.5", "'1.5' gpus"),
        ("gpus", "99999999999999999999", "gpus"),
        ("gpus", "\N{SUPERSCRIPT TWO}", "gpus"),
        ("dated", "5.11.2026", "'5.11.2026'"),
        ("dated", "2026-02-30", "'2026-02-30'"),
        ("dated", "2026-12-01", "in the future"),
        ("instance", '=HYPERLINK("http://x")', "run as a formula"),
        ("provider", "@SUM(A1)", "run as a formula"),
        ("source", "+cmd|' /C calc'!A0", "run as a formula"),
        ("gpu", "-2+3", "run as a formula"),
        ("provider", '"a\nb"', "control characters"),
        ("provider", "\N{ZERO WIDTH SPACE}x", "control characters"),
        ("instance", "x" * 301, "more than 300"),
    ],
)
def test_cells_that_cannot_be_used(column, cell, sentence):
    cells = dict(zip(COLUMNS, ROW.split(","), strict=True)) | {
        column: cell if column == "usd_per_hour" or cell.startswith('"') else f'"{cell.replace(chr(34), chr(34) * 2)}"'
    }
    with pytest.raises(InvalidInput, match=re.escape(sentence)) as caught:
        prices.parse_csv(f"{HEADER}\n{','.join(cells.values())}", TODAY)
    assert "ow 2 of the prices" in str(caught.value)


def test_an_edited_table_is_held_to_the_same_rules():
    row: dict[str, str] = dict(zip(COLUMNS, ROW.split(","), strict=True))
    assert prices.from_rows([row], TODAY) == prices.parse_csv(f"{HEADER}\n{ROW}", TODAY)
    with pytest.raises(InvalidInput, match=re.escape("row 1 of the prices is '2,5'")):
        prices.from_rows([row | {"usd_per_hour": "2,5"}], TODAY)


def test_a_formula_is_never_written():
    with pytest.raises(InvalidInput, match="formula"):
        prices.to_csv([replace(prices.load()[0], provider="=1+1")])


@given(st.binary(max_size=200) | st.text(max_size=200) | st.text(max_size=80).map(lambda text: f"{HEADER}\n{text}"))
def test_any_file_is_prices_or_a_sentence(content):
    try:
        table = prices.parse_csv(content, TODAY)
    except InvalidInput:
        return
    assert prices.parse_csv(prices.to_csv(table), TODAY) == table


@given(st.floats(1e-6, 9_999))
def test_any_price_comes_back_as_written(usd):
    price = Price("a", "b", "c", 1, round(usd, 6), TODAY, "")
    assert prices.parse_csv(prices.to_csv([price]), TODAY) == (price,)


def item(name, gpu="H100", memory=80.0, price=2.0, count=1, provider="nebius", spot=False, location="x"):
    return SimpleNamespace(
        provider=provider, instance_name=name, location=location, price=price, gpu_count=count, gpu_name=gpu, gpu_memory=memory, spot=spot
    )


def test_offers_keep_known_gpus_once_in_the_cheapest_region():
    items = [
        item("gpu-h100-sxm", location="dear", price=3.0),
        item("gpu-h100-sxm", location="cheap", price=2.95),
        item("h100"),  # form factor not told
        item("box", "A10", 24.0),
        item("box", "A10", 20.0),
        item("own", "B9000", 24.0),
        item("spot", "L4", 24.0, spot=True),
        item("free", "L4", 24.0, price=0.0),
        item("elsewhere", "L4", 24.0, provider="unlisted"),
    ]
    table = price_refresh.offers(items, {"nebius": TODAY, "unlisted": TODAY})
    assert table == (
        Price("Nebius", "box", "A10", 1, 2.0, TODAY, "gpuhunt, nebius, x"),
        Price("Nebius", "gpu-h100-sxm", "H100 SXM", 1, 2.95, TODAY, "gpuhunt, nebius, cheap"),
    )
    assert {*price_refresh.GPUS.values(), *(gpu for forms in price_refresh.FORMS.values() for gpu in forms.values())} == {
        gpu.name for gpu in prices.gpus()
    }


@pytest.mark.skipif(importlib.util.find_spec("gpuhunt") is not None, reason="gpuhunt is installed")
def test_without_gpuhunt_the_shipped_table_stays(tmp_path):
    with pytest.raises(DraftgaugeError, match=r"gpuhunt is not installed .* The shipped prices stay in use\."):
        price_refresh.refresh({}, Settings(data=tmp_path))


CATALOG_COLUMNS = (
    *("instance_name", "location", "price", "cpu", "memory", "gpu_count", "gpu_name", "gpu_memory", "spot"),
    *("disk_size", "gpu_vendor", "flags", "cpu_arch", "provider_data"),
)


class Catalogs(http.server.BaseHTTPRequestHandler):
    """Serves what gpuhunt asks for, of each provider: a version, then a zipped CSV, without rows except for nebius."""

    def do_GET(self):
        provider = self.path.split("/")[1]
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"20261128" if self.path.endswith("version") else catalog(provider))

    def log_message(self, format, *args):
        """Keep the test's output clean."""


def catalog(provider):
    text, packed = io.StringIO(), io.BytesIO()
    rows = csv.DictWriter(text, CATALOG_COLUMNS)
    rows.writeheader()
    shared = {
        "location": "eu",
        "cpu": 8,
        "memory": 32,
        "gpu_count": 1,
        "disk_size": "",
        "gpu_vendor": "nvidia",
        "flags": "",
        "cpu_arch": "x86",
        "provider_data": "{}",
    }
    if provider == "nebius":
        for usd, spot in ((2.95, False), (1.25, True)):
            rows.writerow(shared | {"instance_name": "gpu-h100-sxm", "price": usd, "gpu_name": "H100", "gpu_memory": 80, "spot": spot})
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr(f"{provider}.csv", text.getvalue())
    return packed.getvalue()


@pytest.fixture
def catalogs(monkeypatch):
    pytest.importorskip("gpuhunt")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Catalogs)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    monkeypatch.setenv("GPUHUNT_CATALOG_URL", f"http://127.0.0.1:{server.server_port}")
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_gpuhunt_itself_is_read(catalogs, tmp_path):
    answer = price_refresh.refresh({}, Settings(data=tmp_path))
    assert prices.parse_csv(answer["csv"], TODAY) == (
        Price("Nebius", "gpu-h100-sxm", "H100 SXM", 1, 2.95, date(2026, 11, 28), "gpuhunt, nebius, eu"),
    )
    assert answer["rows"] == 1


def test_no_network_is_a_sentence(catalogs, monkeypatch, tmp_path):
    monkeypatch.setenv("GPUHUNT_CATALOG_URL", "http://127.0.0.1:9")
    with pytest.raises(DraftgaugeError, match=r"cannot be refreshed: .*\. Check the network"):
        price_refresh.refresh({}, Settings(data=tmp_path))
