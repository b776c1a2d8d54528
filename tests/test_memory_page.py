"""The page memory_cost in every state: without a run, with one, leave it off, sizes awaited or refused, and everything a person can mistype."""

import time
from collections.abc import Iterator
from datetime import date, timedelta
from math import ceil

import pytest
from streamlit.testing.v1 import AppTest

from core import answers, builtin, memory_gain, prices
from core.memory import CacheProfile, LayerCache
from core.model_info import ModelInfo, Weights
from core.planner import Planner, Task
from core.runs import ModelRef, Run
from core.settings import Settings
from core.store import Store
from core.ui import memory_pair, memory_prices, memory_show, memory_typed
from tests import synthetic
from tests.apps import metric, ok, open_page, texts

pytestmark = pytest.mark.usefixtures("app_site", "planner")

TARGET, DRAFT = "meta-llama/Llama-3.1-8B", "meta-llama/Llama-3.2-1B"
LLAMA = {"target": TARGET, "draft": DRAFT}
ON_A10 = {**LLAMA, "gpu": "A10", "context": "1024", "sequences": "1"}
# The built-in pair, sized as published: 8.03B and 1.24B parameters, 128 and 32 KiB of cache per token in bf16.
BIG = CacheProfile(
    "llama",
    "LlamaForCausalLM",
    8_030_261_248,
    8_030_261_248,
    525_336_576,
    128_256,
    4096,
    131_072,
    (LayerCache("full", 8, 128, 128, None, 4096),) * 32,
)
SMALL = CacheProfile(
    "llama", "LlamaForCausalLM", 1_235_814_400, 1_235_814_400, 262_668_288, 128_256, 2048, 131_072, (LayerCache("full", 8, 64, 64, None, 2048),) * 16
)
BIG_BYTES, SMALL_BYTES = 16_060_522_496, 2_471_628_800
GIB = 2**30


def known(settings: Settings, address: str, profile: CacheProfile, weight_bytes: int) -> None:
    """Keep the answers of both jobs, as the planner would have kept them."""
    config = {"model_type": "llama", "name": address}
    weights = Weights(bytes=weight_bytes, parameters=profile.parameters)
    info = ModelInfo(ref=ModelRef(source="hub", name=address, path=address), read_s=time.time(), config=config, weights=weights)
    keep(settings, "describe", {"model": address}, info.model_dump(mode="json"))
    keep(settings, "profile", {"config": config}, profile.to_json())


def keep(settings: Settings, task: str, arguments: dict[str, object], data: object) -> None:
    answers.keep(settings.data / "plan" / "answers", answers.key(task, arguments), answers.Made(data, time.time()))


@pytest.fixture
def planner(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Planner]:
    """A real planner that knows the synthetic run's folders, sized like the Llamas; other models are refused, and prices are out of reach."""
    for address, profile, size in (("folder:big_model", BIG, BIG_BYTES), ("folder:small_model", SMALL, SMALL_BYTES)):
        known(settings, address, profile, size)
    refuse = Task("tests.plan_jobs:refuse", 20)
    opened = Planner(settings, tasks={"describe": refuse, "profile": refuse, "prices": refuse}, light=1)
    monkeypatch.setattr(memory_pair, "planner", lambda: opened)
    monkeypatch.setattr(memory_prices, "planner", lambda: opened)
    yield opened
    opened.close()


def chip(app: AppTest, label: str) -> str:
    return next(str(shown.delta) for shown in app.metric if shown.label == label)


def type_in(app: AppTest, **values: str) -> AppTest:
    for key, value in values.items():
        app.text_input(key=key).set_value(value)
    return ok(app.run())


def copied(app: AppTest) -> str:
    """The sentence for stakeholders."""
    return next(str(text.value) for text in app.text if str(text.value).startswith("On one "))


def table(app: AppTest, column: str) -> list[dict[str, object]]:
    return next(frame.value.to_dict("records") for frame in app.dataframe if column in frame.value)


def on_gpu(run: Run, name: str) -> Run:
    assert run.environment
    return run.model_copy(update={"environment": run.environment.model_copy(update={"device_name": name, "device": "cuda:0"})})


def gone(app: AppTest) -> None:
    """No result of any kind is shown."""
    assert not app.metric
    assert not [text for text in app.text if "On one" in str(text.value)]


def test_llama_pair_on_one_h100_as_calculated_by_hand():
    app = open_page("memory_cost", **LLAMA, gpu="H100 SXM", price="4.29", speedup="1.52", context="8192", sequences="16")
    cost = 4.29 * 720
    saving = cost * (1 - 1 / 1.52)
    assert round(saving, 1) == 1056.7
    draft = SMALL_BYTES + 16 * 8192 * 32 * 1024
    assert f"{draft / 1e9:.1f}" == "6.8"
    assert app.title[0].value == "What if 1.52x: the draft takes 6.8 GB and saves :green[1,057 USD a month]"
    assert "Of 3,088.80 USD per H100 SXM, at one request at a time." in texts(app)
    assert ":gray-badge[:material/tune: what-if]" in texts(app)
    assert metric(app, "USD per month") == f"{cost - saving:,.0f}" == "2,032"
    assert chip(app, "USD per month") == "-1,057 of 3,089"
    assert metric(app, "USD per 1M tokens") == "not measured", "no speed was measured on this GPU, and none was typed"


def test_first_pair_is_there_without_network_or_run():
    app = open_page("memory_cost")
    assert [app.selectbox(key=f"_memory_{role}").value for role in ("target", "draft")] == [TARGET, DRAFT]
    assert app.query_params["target"] == TARGET
    assert app.title[0].value.startswith("What if 1.30x: the draft takes 6.8 GB and saves ")
    assert "weights estimated as parameters x dtype" in texts(app)


def test_context_begins_within_the_limit_of_each_new_pair():
    app = open_page("memory_cost")
    assert app.text_input(key="context").value == "8,192"
    app.selectbox(key="_memory_target").set_value("Qwen/Qwen2-7B")
    app.selectbox(key="_memory_draft").set_value("Qwen/Qwen2-0.5B")
    assert ok(app.run()).text_input(key="context").value == "8,192"
    app.selectbox(key="_memory_target").set_value("HuggingFaceTB/SmolLM-1.7B")
    app.selectbox(key="_memory_draft").set_value("HuggingFaceTB/SmolLM-135M")
    ok(app.run())
    assert app.text_input(key="context").value == "2,048"
    cache = {row["Role"]: row["Cache at 2,048, MiB"] for row in table(app, "Parameters")}
    assert cache == {"target": 384, "draft": 45}, "192 and 22.5 KiB per token"
    assert app.query_params["draft"] == "HuggingFaceTB/SmolLM-135M"


def test_concurrency_is_what_fits_one_after_the_other():
    budget = int(int(79.11 * GIB) * 0.9)
    overhead = 2 * GIB
    plain = 4 * 128_256  # fp32 logits of one position
    drafted = 4 * (128_256 * 6 + 128_256 * 5)  # six positions of the target, five of the draft
    alone = (budget - BIG_BYTES - overhead) // (8192 * 131_072 + plain)
    together = (budget - BIG_BYTES - SMALL_BYTES - overhead) // (8192 * (131_072 + 32_768) + drafted)
    app = open_page("memory_cost", **LLAMA, gpu="H100 SXM")
    assert metric(app, "Sequences at 8,192") == str(together)
    assert chip(app, "Sequences at 8,192") == f"-{alone - together} of {alone}"
    lost = round((1 - together / alone) * 100)
    assert f"costs {lost} % of concurrency ({together} instead of {alone} requests of 8,192 tokens)" in copied(app)


def test_sentence_for_stakeholders_has_every_part():
    app = open_page("memory_cost", **LLAMA, gpu="H100 SXM", price="4.29", speedup="1.52", currency="eur", rate="0.92")
    sentence = copied(app)
    assert sentence.startswith("On one H100 SXM the draft Llama-3.2-1B takes 6.8 GB beside Llama-3.1-8B and costs ")
    assert sentence.endswith(
        "at one request at a time it saves 1,057 USD (972 EUR at 0.92) a month (4.29 USD per GPU-hour; what-if speedup 1.52x, not measured)."
    )
    assert "2,841\\.70 a month without, 1,869\\.54 with the draft, saving 972\\.16" in texts(app) or "saving 972.16" in texts(app)


def test_bar_and_models_tables_hold_the_bytes():
    app = open_page("memory_cost", **LLAMA, gpu="H100 SXM", context="4,096", sequences="1")
    parts = {row["Part"]: row["Bytes"] for row in table(app, "Bytes")}
    assert parts["target weights"] == BIG_BYTES
    assert parts["draft weights"] == SMALL_BYTES
    assert parts["target cache"] == 512 * 2**20, "128 KiB x 4,096"
    assert parts["draft cache"] == 128 * 2**20
    assert parts["overhead"] == 2 * GIB
    assert parts["left to others by the usable share"] == int(79.11 * GIB) - int(int(79.11 * GIB) * 0.9)
    models = table(app, "Parameters")
    assert [(row["Model"], row["Parameters"], row["Cache, bytes per token"], row["Cache at 4,096, MiB"]) for row in models] == [
        ("Llama-3.1-8B", 8_030_261_248, 131_072, 512),
        ("Llama-3.2-1B", 1_235_814_400, 32_768, 128),
    ]


def test_cache_format_and_weights_are_independent():
    app = open_page("memory_cost", **LLAMA, context="4096", sequences="1", kv="fp8", weights="int4")
    parts = {row["Part"]: row["Bytes"] for row in table(app, "Bytes")}
    assert parts["target cache"] == 256 * 2**20
    assert parts["target weights"] == BIG.parameters // 2
    assert "weights estimated as parameters x dtype" in texts(app).replace("\\", "")


def test_gpus_are_judged_each_by_its_own_memory():
    shown = texts(open_page("memory_cost", **LLAMA, context="8192", sequences="16"))
    assert ":green-badge[:material/check: H200 SXM]" in shown
    assert ":green-badge[:material/check: H100 SXM]" in shown
    assert ":gray-badge[:material/close: T4]" in shown
    assert all(f"{gpu.name}]" in shown or f"{gpu.name}, tight]" in shown for gpu in prices.gpus())


def test_more_than_fits_is_said_first_and_no_money_where_not_one_request_fits():
    app = open_page("memory_cost", **LLAMA, gpu="A10", sequences="64")
    assert app.title[0].value.startswith("64 sequences of 8,192 tokens do not fit one A10: ")
    assert app.title[0].value.endswith(" GiB are missing")
    assert metric(app, "Sequences at 8,192") == "0"
    assert metric(app, "USD per month") == "none"
    assert "would need" in copied(app)
    assert "saves" not in copied(app)


def test_run_with_interval_carries_it_to_money(store: Store):
    run = on_gpu(synthetic.run(), "NVIDIA H100 80GB HBM3")
    app = open_page("memory_cost", run=synthetic.keep(store, run), price="4.29")
    gain = memory_gain.of_run(analysed(run))
    assert gain.interval
    assert gain.speedup > 1
    cost = 4.29 * 720
    low, high = (cost * (1 - 1 / end) for end in gain.interval)
    saving = cost * (1 - 1 / gain.speedup)
    assert app.title[0].value == f"The draft takes 6.8 GB and saves :green[{saving:,.0f} USD a month]"
    assert f"**[{low:,.0f}, {high:,.0f}]** for traffic like these prompts, of 3,088.80 USD" in texts(app)
    assert ":green-badge[:material/verified: confirmed]" in texts(app)
    assert f"95 % interval [{low:,.0f}, {high:,.0f}]" in copied(app)
    plain = 4.29 / 3600 / (1 / synthetic.PLAIN_S) * 1e6
    shown = float(metric(app, "USD per 1M tokens").replace(",", ""))
    assert shown == pytest.approx(plain / gain.speedup, rel=0.02), "plain steps take 10 ms in this run, give or take its noise"
    assert app.selectbox(key="gpu").value == "H100 SXM", "begins with the GPU it was measured on"
    assert "elsewhere" not in texts(app)
    assert not [s for s in app.slider if s.key == "speedup"]


def analysed(run: Run):
    from core.analysis import Analysis, analyse

    found = analyse(run)
    assert isinstance(found, Analysis)
    return found


def test_a_multiple_measured_elsewhere_is_called_so_and_gives_no_price_per_token(store: Store):
    app = open_page("memory_cost", run=synthetic.keep(store, synthetic.run()), gpu="H100 SXM", price="4.29")
    assert "measured elsewhere, saves :green[" in app.title[0].value
    assert "measured on Test CPU, not on the H100 SXM: on another device the multiple differs" in texts(app)
    assert "measured on Test CPU, not on this GPU" in copied(app)
    assert metric(app, "USD per 1M tokens") == "not measured"
    typed = type_in(app, tokens_s="100")
    gain = memory_gain.of_run(analysed(synthetic.run()))
    assert metric(typed, "USD per 1M tokens") == f"{4.29 / 3600 / 100 * 1e6 / gain.speedup:,.2f}"


def test_leave_it_off_says_the_extra_cost(store: Store):
    run = on_gpu(synthetic.run(c=0.60, best=1, alpha=0.3), "NVIDIA H100 80GB HBM3")
    app = open_page("memory_cost", run=synthetic.keep(store, run), price="4.29")
    gain = memory_gain.of_run(analysed(run))
    assert gain.verdict == "leave_off"
    assert gain.speedup < 1
    extra = 4.29 * 720 * (1 / gain.speedup - 1)
    assert app.title[0].value == f"Leave the draft off: it takes 6.8 GB and :orange[costs {extra:,.0f} USD more a month]"
    assert chip(app, "USD per month") == f"+{extra:,.0f} of 3,089"
    assert gain.interval
    low, high = (4.29 * 720 * (1 / end - 1) for end in reversed(gain.interval))
    assert 0 < low < extra < high
    assert f"**[{low:,.0f}, {high:,.0f}]** more for traffic like these prompts" in texts(app)
    assert f"95 % interval [{low:,.0f}, {high:,.0f}]" in copied(app)
    assert f"it costs an extra {extra:,.0f} USD a month" in copied(app)


def test_undecided_is_not_called_a_saving(store: Store):
    app = open_page("memory_cost", run=synthetic.keep(store, synthetic.run(prompts=1)))
    assert app.title[0].value == "The draft takes 6.8 GB; whether it saves money is not decided yet"
    assert "not decided yet" in copied(app)
    saved = chip(app, "USD per month").removeprefix("-").split(" of ")[0]
    assert f"So far it saves {saved} USD a month of " in texts(app)


def test_an_interval_that_is_not_decided_says_of_what_it_is(store: Store):
    app = open_page("memory_cost", run=synthetic.keep(store, synthetic.run(prompts=3)))
    saved = chip(app, "USD per month").removeprefix("-").split(" of ")[0]
    assert f"So far it saves {saved} USD a month, **[" in texts(app)


def test_run_without_times_takes_the_slider(store: Store):
    early = synthetic.run(status="cancelled").model_copy(update={"generations": (), "passes": (), "draft_prefill_s": ()})
    app = open_page("memory_cost", run=synthetic.keep(store, early), speedup="2.0", price="4.29")
    assert app.title[0].value == "What if 2.00x: the draft takes 6.8 GB and saves :green[1,544 USD a month]"


def test_a_new_pair_starts_from_the_run(store: Store):
    app = open_page("memory_cost", run=synthetic.keep(store, synthetic.run()))
    next(button for button in app.button if button.label == "Another pair").click()
    ok(app.run())
    assert "run" not in app.query_params
    assert [app.selectbox(key=f"_memory_{role}").value for role in ("target", "draft")] == list(memory_pair.FIRST)


def test_awaited_sizes_are_no_numbers(planner: Planner, settings: Settings, monkeypatch: pytest.MonkeyPatch):
    """The job hangs for as long as the test looks."""
    monkeypatch.setattr(planner, "_tasks", {"describe": Task("tests.plan_jobs:hang", 60), "profile": Task("tests.plan_jobs:hang", 60)})
    app = open_page("memory_cost", target="owner/slow", draft=DRAFT, sequences="32")
    assert app.title[0].value == "Sizing the pair"
    assert "slow: " in texts(app)
    assert "Llama" not in texts(app), "only what is awaited is listed"
    gone(app)


def test_sizes_that_cannot_be_told_are_a_sentence_with_a_second_try(planner: Planner):
    app = open_page("memory_cost", target="owner/odd", draft=DRAFT)
    wait_for(lambda: type(planner.ask("describe", {"model": "owner/odd"})).__name__ == "Failed")
    ok(app.run())
    assert app.title[0].value == "The memory of this pair cannot be told"
    assert "**odd.**" in texts(app)
    assert [button.label for button in app.button if button.label == "Try again"]
    gone(app)


def wait_for(condition) -> None:
    for _ in range(200):
        if condition():
            return
        time.sleep(0.1)
    raise TimeoutError


def test_unknown_gpu_needs_its_memory_and_has_no_price():
    app = open_page("memory_cost", **LLAMA, gpu="Foo 9000")
    assert "The GPU 'Foo 9000' is not in the list. Type its usable memory in GiB" in texts(app).replace("\\", "")
    gone(app)
    type_in(app, gpu_gib="100")
    assert app.title[0].value == "The draft takes 6.8 GB"
    assert metric(app, "USD per month") == "no price"
    assert "There is no price for the Foo 9000, so no saving is given." in copied(app)
    type_in(app, price="2")
    assert metric(app, "USD per month") == f"{2 * 720 / 1.3:,.0f}"


def test_a_known_gpu_without_a_price_shows_none():
    app = open_page("memory_cost", **LLAMA, gpu="MI300X")
    assert not prices.find(prices.load(), "MI300X")
    assert app.title[0].value == "The draft takes 6.8 GB"
    assert metric(app, "USD per month") == "no price"
    assert "No price for the MI300X, so no money is given" in texts(app)


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ({"context": "200000"}, "A context of 200,000 tokens is beyond the target's limit of 131,072"),
        ({"context": "0"}, "The context is '0'. Type a number from 1 to 100,000,000 tokens"),
        ({"context": "8,19"}, "Write a decimal point instead of the comma"),
        ({"context": "many"}, "The context is 'many', which is not a number"),
        ({"context": "10.5"}, "The context is '10.5'. It must be a whole number"),
        ({"sequences": "-1"}, "Sequences is '-1'. Type a number from 1 to 1,048,576"),
        ({"sequences": "99999999999"}, "Sequences is '99999999999'"),
        ({"overhead": "-2"}, "The overhead is '-2'. Type a number from 0 to 10,000 GiB"),
        ({"gamma": "1000"}, "The draft length is '1000'. Type a number from 1 to 64 tokens"),
        ({"gpu": "Foo", "gpu_gib": "0"}, "The memory of 'Foo' is '0'. Type a number from 0.1 to 10,000 GiB"),
    ],
)
def test_a_value_that_cannot_be_used_is_a_sentence_and_no_result(query: dict[str, str], sentence: str):
    app = open_page("memory_cost", **LLAMA, **query)
    assert sentence in texts(app).replace("\\", "")
    assert app.title[0].value == "Correct a value to see what the draft takes"
    gone(app)


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ({"price": "4,29"}, "The price is '4,29', with a comma"),
        ({"price": "€4"}, "The price is '€4', with a currency"),
        ({"price": "0"}, "The price is '0'; it must be above zero"),
        ({"hours": "1000"}, "Hours a month is '1000'. Type a number from 1 to 744 hours"),
    ],
)
def test_a_price_that_cannot_be_read_takes_the_money_away_and_leaves_the_memory(query: dict[str, str], sentence: str):
    app = open_page("memory_cost", **LLAMA, **query)
    assert sentence in texts(app).replace("\\", "")
    assert app.title[0].value == "The draft takes 6.8 GB"
    assert metric(app, "USD per month") == "no price"
    assert chip(app, "USD per month") == "correct it"
    assert "cannot be read, so no money is given" in texts(app)


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ({"engine": "foo"}, "Engine: the address asks for 'foo', which is not in the list. vLLM is used."),
        ({"kv": "int3"}, "Cache format: the address asks for 'int3'"),
        ({"weights": "int3"}, "Weights: the address asks for 'int3'"),
        ({"offer": "Nobody, 0 USD"}, "Offer: the address asks for 'Nobody, 0 USD'"),
        ({"share": "7"}, "Usable share is '7'. Type a number from 0.5 to 1. 0.9 is used."),
        ({"speedup": "fast"}, "Speedup, what-if is 'fast', which is not a number. Type a number from 0.25 to 6. 1.3 is used."),
        ({"currency": "euro", "rate": "0.9"}, "The currency is 'euro'. Type its three letters, such as EUR."),
        ({"currency": "EUR"}, "Another currency needs its three letters and a rate"),
        ({"currency": "EUR", "rate": "0,9"}, "The rate is '0,9', with a comma"),
        ({"tokens_s": "fast"}, "Plain tokens/s is 'fast', which is not a number"),
    ],
)
def test_what_the_address_asks_for_in_vain_is_said_and_what_is_used_instead(query: dict[str, str], sentence: str):
    app = open_page("memory_cost", **LLAMA, **query)
    assert sentence in texts(app).replace("\\", "")
    assert app.title[0].value.startswith("What if 1.30x: the draft takes 6.8 GB")


def test_a_hostile_address_is_shown_as_text():
    app = open_page("memory_cost", target="<b>x</b>![a](http://host/a.png)", draft=DRAFT, gpu="![a](http://host/a.png)")
    assert "![a](http" not in texts(app)


def test_offers_of_the_gpu_single_ones_first_then_the_cheapest():
    app = open_page("memory_cost", **LLAMA, gpu="H100 SXM")
    options = app.selectbox(key="offer").options
    single = sorted(price.usd_per_hour for price in prices.find(prices.load(), "H100 SXM", 1))
    assert [option.rsplit(" ", 2)[1] for option in options[: len(single)]] == [f"{price:.2f}" for price in single]
    app.selectbox(key="offer").set_value("Lambda, 8x H100 SXM, 31.92 USD")
    ok(app.run())
    assert "Of 2,872.80 USD per H100 SXM" in texts(app), "31.92 / 8 x 720"
    assert "one of 8 GPUs of an instance at 31.92" in texts(app)
    app.selectbox(key="gpu").set_value("A10")
    ok(app.run())
    assert app.selectbox(key="offer").value == "Lambda, 1x A10, 1.29 USD", "an offer of another GPU is not kept"


def test_every_price_shows_its_date_and_an_old_one_is_flagged():
    today = date(2026, 11, 29)
    fresh = prices.Price("P", "i", "A10", 1, 1.0, today - timedelta(days=90), "s")
    assert memory_prices.stale(fresh, today) == "2026-08-31"
    old = prices.Price("P", "i", "A10", 1, 1.0, today - timedelta(days=91), "s")
    assert memory_prices.stale(old, today) == "2026-08-30 :orange-badge[:material/event_busy: 91 days old]"
    listed = prices.find(prices.load(), "A10", 1)[0]
    assert f"Price of {listed.dated:%Y-%m-%d}" in texts(open_page("memory_cost", **ON_A10))


def test_edited_prices_are_used_and_said_to_live_in_the_session():
    app = AppTest.from_file("../app.py", default_timeout=30)
    for key, value in ON_A10.items():
        app.query_params[key] = value
    own = prices.parse_csv("provider,instance,gpu,gpus,usd_per_hour,dated,source\nMine,one,A10,1,2.00,2026-01-02,own\n", date(2026, 11, 29))
    app.session_state[memory_prices.TABLE] = own
    app.switch_page("pages/memory_cost.py")
    ok(app.run())
    assert "Mine, one" in texts(app).replace("\\", "")
    assert "Of 1,440.00 USD per A10" in texts(app)
    assert "kept in this session only" in texts(app)
    next(button for button in app.button if button.label == "Use the shipped prices").click()
    ok(app.run())
    assert "The shipped prices" in texts(app)
    assert "Lambda, 1x A10" in texts(app).replace("\\", "")


def test_an_uploaded_table_takes_the_place_of_the_shipped_one():
    app = open_page("memory_cost", **ON_A10)
    app.file_uploader[0].set_value(
        ("mine.csv", b"provider,instance,gpu,gpus,usd_per_hour,dated,source\nMine,one,A10,2,4.00,2026-01-02,own\n", "text/csv")
    )
    ok(app.run())
    assert "Of 1,440.00 USD per A10" in texts(app), "4.00 / 2 x 720"


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"a,b\n1,2\n", "The price file has the columns a, b. Its first line must be: provider,instance,gpu,gpus,usd_per_hour,dated,source"),
        (b'provider,instance,gpu,gpus,usd_per_hour,dated,source\nMine,one,A10,1,"1,29",2026-01-02,own\n', "with a comma"),
        (b"", "The price file is empty"),
    ],
)
def test_a_file_with_wrong_columns_or_values_is_a_sentence_and_changes_nothing(content: bytes, sentence: str):
    app = open_page("memory_cost", **ON_A10)
    app.file_uploader[0].set_value(("mine.csv", content, "text/csv"))
    ok(app.run())
    assert sentence in texts(app).replace("\\", "")
    assert "The shipped prices" in texts(app)
    assert "Of 928.80 USD per A10" in texts(app)


def test_a_refresh_that_fails_is_a_sentence_and_the_table_stays(planner: Planner):
    app = open_page("memory_cost", **ON_A10)
    next(button for button in app.button if button.label == "Refresh with gpuhunt").click()
    ok(app.run())
    wait_for(lambda: type(planner.ask("prices", {})).__name__ == "Failed")
    ok(app.run())
    assert app.error
    assert "Of 928.80 USD per A10" in texts(app)


def test_a_refresh_that_works_brings_its_table(planner: Planner, settings: Settings):
    app = open_page("memory_cost", **ON_A10)
    keep(settings, "prices", {}, {"csv": "provider,instance,gpu,gpus,usd_per_hour,dated,source\nNew,one,A10,1,1.00,2026-01-02,gpuhunt\n", "rows": 1})
    app.session_state[memory_prices.ASKED] = True
    ok(app.run())
    assert "Of 720.00 USD per A10" in texts(app)


FLEET = {
    "requests": "1,000,000",
    "prompt": "500",
    "answer": "200",
    "fleet_tokens_s": "50",
    "prompt_s": "20000",
    "at_once": "1",
    "busy": "1",
    "peak": "1",
}


def test_fleet_of_single_requests_as_calculated_by_hand():
    """With one request at once a GPU needs prompt / prompt speed + answer / speed of it, and the draft reads the prompt too."""
    app = open_page("memory_cost", **LLAMA, gpu="H100 SXM", price="4.29", speedup="1.52", **FLEET)
    share = SMALL.parameters / BIG.parameters
    plain_s = 500 / 20000 + 200 / 50
    drafted_s = 500 / 20000 * (1 + share) + 200 / (50 * 1.52)
    plain, drafted = (ceil(1_000_000 / 86_400 * seconds) for seconds in (plain_s, drafted_s))
    assert metric(app, "GPUs without draft") == str(plain) == "47"
    assert metric(app, "GPUs with draft") == str(drafted) == "31"
    saved = (plain - drafted) * 4.29 * 720
    assert f"**For this traffic the draft saves {saved:,.0f} USD a month.**" in texts(app)
    rows = {row["Assumption"]: row["Value"] for row in table(app, "Assumption")}
    assert rows["Requests"] == "1,000,000"
    assert rows["Plain speed"] == "50"
    assert rows["Speedup"] == "1.52"
    assert float(str(rows["Draft's prompt pass"])) == pytest.approx(share, rel=1e-3)


def test_fleet_is_folded_until_it_is_asked_for():
    assert "GPUs without draft" not in [m.label for m in open_page("memory_cost", **LLAMA).metric]


def test_fleet_names_where_drafting_stops_paying():
    app = open_page("memory_cost", **LLAMA, gpu="H100 SXM", speedup="1.2", **(FLEET | {"at_once": "64", "knee": "20", "per_round": "2"}))
    assert "Drafting stops paying from about " in texts(app)


@pytest.mark.parametrize(
    ("field", "sentence"),
    [
        ({"requests": "0"}, "Requests a day is '0'"),
        ({"busy": "2"}, "Busy share is '2'. Type a number from 0.01 to 1"),
        ({"answer": "abc"}, "Answer tokens is 'abc', which is not a number"),
        ({"per_round": "1"}, "speedup is 1.3"),
    ],
)
def test_fleet_values_that_cannot_be_used_are_sentences(field: dict[str, str], sentence: str):
    app = open_page("memory_cost", **LLAMA, **(FLEET | field))
    assert sentence in texts(app).replace("\\", "")
    assert "GPUs without draft" not in [m.label for m in app.metric]


def test_fleet_carries_the_interval_of_a_run(store: Store):
    run = on_gpu(synthetic.run(), "NVIDIA H100 80GB HBM3")
    app = open_page("memory_cost", run=synthetic.keep(store, run), price="4.29", requests="5,000,000", answer="300")
    gain = memory_gain.of_run(analysed(run))
    assert gain.interval
    chip_shown = chip(app, "GPUs with draft")
    low, high = (int(end.replace(",", "")) for end in chip_shown.strip("[]").split(", "))
    assert low <= int(metric(app, "GPUs with draft").replace(",", "")) <= high
    assert low < high
    assert float(app.text_input(key="drafted").placeholder) > 0, "replayed from the run"


@pytest.mark.parametrize(
    ("device", "gpu", "same"),
    [
        ("NVIDIA H100 80GB HBM3", "H100 SXM", True),
        ("NVIDIA H100 PCIe", "H100 SXM", False),
        ("NVIDIA H100 PCIe", "H100 PCIe", True),
        ("NVIDIA H100 NVL", "H100 SXM", False),
        ("NVIDIA A100-SXM4-40GB", "A100 40GB", True),
        ("NVIDIA A100-SXM4-40GB", "A100 80GB SXM", False),
        ("NVIDIA A100 80GB PCIe", "A100 80GB PCIe", True),
        ("NVIDIA A10G", "A10", False),
        ("Tesla T4", "T4", True),
        ("AMD EPYC", "A10", False),
        ("", "A10", False),
    ],
)
def test_a_device_is_a_gpu_of_the_table_only_when_there_is_no_doubt(device: str, gpu: str, same: bool):
    assert memory_gain.same_gpu(device, gpu) is same


@pytest.mark.parametrize(
    ("bytes_", "words"),
    [(14_000_000_000, "14 GB"), (9_960_000_000, "10.0 GB"), (3_060_000_000, "3.1 GB"), (996_000_000, "1.0 GB"), (46_400_000, "46 MB")],
)
def test_sizes_are_written_in_decimal_units(bytes_: float, words: str):
    assert memory_gain.size(bytes_) == words


@pytest.mark.parametrize(("typed", "value"), [("8,192", 8192), (" 0.5 ", 0.5), (".25", 0.25), ("1,057.50", 1057.5)])
def test_numbers_may_be_grouped(typed: str, value: float):
    assert memory_typed.number("n", typed, 0, 1e6) == value


def test_a_copied_sentence_names_its_price_and_day():
    listed = prices.find(prices.load(), "A10", 1)[0]
    assert f" a month ({listed.usd_per_hour:.2f} USD per GPU-hour as of {listed.dated:%Y-%m-%d}; what-if speedup 1.30x" in copied(
        open_page("memory_cost", **LLAMA, gpu="A10", context="128", sequences="1", weights="int4")
    )


def test_a_price_that_cannot_be_read_is_not_called_missing_in_the_sentence():
    sentence = copied(open_page("memory_cost", **LLAMA, gpu="H100 SXM", price="4,29"))
    assert "There is no price" not in sentence
    assert sentence.endswith("The price or the hours that were typed cannot be read, so no saving is given.")


def test_a_rate_with_letters_is_not_asked_for_in_usd():
    shown = texts(open_page("memory_cost", **LLAMA, currency="EUR", rate="0.9 EUR")).replace("\\", "")
    assert "The rate is '0.9 EUR', with a currency or other letters. Type the number alone, such as 0.9." in shown


def test_no_concurrency_lost_is_said_without_a_percentage():
    app = open_page("memory_cost", **LLAMA, gpu="H100 SXM", context="131072", sequences="1", kv="float32")
    assert metric(app, "Sequences at 131,072") == "1"
    assert chip(app, "Sequences at 131,072") == "none lost"
    assert "and costs no concurrency (1 request of 131,072 tokens with it and without)" in copied(app)
    assert "The draft costs no concurrency." in texts(app)


@pytest.mark.parametrize(("lost", "words"), [(0.0, "nothing"), (0.004, "less than 1 %"), (0.237, "24 %"), (0.996, "more than 99 %"), (1.0, "100 %")])
def test_a_share_is_not_rounded_to_none_or_all(lost: float, words: str):
    assert memory_gain.share(lost) == words


def test_the_gpus_are_judged_for_a_load_that_is_named():
    shown = texts(open_page("memory_cost", **LLAMA, context="8192", sequences="16"))
    assert "**Which GPUs hold 16 sequences of 8,192 tokens**" in shown
    assert "Tight: less than 5 % of what the engine may take is free." in shown


def test_fleet_refuses_requests_longer_than_the_context():
    app = open_page("memory_cost", **LLAMA, **(FLEET | {"prompt": "8,000", "answer": "200"}))
    assert "A request of 8,200 tokens (8,000 of prompt and 200 of answer) is longer than the context of 8,192" in texts(app).replace("\\", "")
    assert "GPUs without draft" not in [m.label for m in app.metric]


MIXTRAL = {"target": "mistralai/Mixtral-8x7B-v0.1", "draft": "mistralai/Mistral-7B-v0.3", "gpu": "B200"}


def test_fleet_reads_only_the_active_experts_of_one_request_and_says_what_it_leaves_out():
    app = open_page("memory_cost", **MIXTRAL, requests="1,000,000")
    active = 12_879_925_248 * 2
    by_hand = 0.8 * 8000e9 / (active + 8192 * 131_072)
    assert float(app.text_input(key="fleet_tokens_s").placeholder) == pytest.approx(by_hand, rel=1e-3)
    assert float(app.text_input(key="cache_share").placeholder) == pytest.approx(8192 * 131_072 / (active + 8192 * 131_072), abs=6e-4)
    assert "Mixtral-8x7B-v0.1 is a mixture of experts" in texts(app).replace("\\", "")
    assert "mixture of experts" not in texts(open_page("memory_cost", **LLAMA, requests="1,000,000")).split("What this rests on")[0]


def test_fleet_that_saves_nothing_has_no_interval_of_nothing_and_shows_the_parts_of_a_gpu(store: Store):
    run = on_gpu(synthetic.run(), "NVIDIA H100 80GB HBM3")
    app = open_page("memory_cost", run=synthetic.keep(store, run), price="4.29", requests="1,000")
    assert metric(app, "GPUs without draft") == metric(app, "GPUs with draft") == "1"
    assert "saves nothing of 3,089 USD a month.**" in texts(app)
    assert "before they are rounded up" in texts(app)


def test_fleet_of_a_short_context_begins_within_it():
    app = open_page("memory_cost", target="openai-community/gpt2-large", draft="distilbert/distilgpt2", requests="1000")
    assert (app.text_input(key="prompt").value, app.text_input(key="answer").value) == ("768", "256")


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("meta-llama/Llama-3.1-8B", "holds here: 2 x 32 layers x 8 KV heads x 128 wide x 2 bytes = 131,072 bytes per token."),
        (
            "Qwen/Qwen3-Next-80B-A3B-Instruct",
            "would say 2 x 48 layers x 2 KV heads x 256 wide x 2 bytes = 98,304 bytes per token; built layer by layer it is 24,576, "
            "and 77,856,768 bytes of running state per sequence.",
        ),
        ("google/flan-t5-large", "= 98,304 bytes per token, and 98,304 per token of the encoder's input."),
        ("mistralai/Mistral-7B-v0.1", "= 131,072 bytes per token, up to the window, beyond which window layers keep no more."),
        ("deepseek-ai/DeepSeek-V2-Lite", "knows no layers of this kind: built layer by layer it is 31,104 bytes per token."),
    ],
)
def test_textbook_formula_says_what_it_does_not_know(address: str, said: str):
    assert said in memory_show.textbook(builtin.find(address).profile)


def test_encoder_input_is_said_to_be_as_long_as_the_context():
    app = open_page("memory_cost", target="google/flan-t5-large", draft="google-t5/t5-small", gpu="A10", context="512", sequences="1")
    assert "Its input is taken as long as the context, so 98,304 bytes per token come on top" in texts(app)
    cache = {row["Role"]: row["Cache at 512, MiB"] for row in table(app, "Parameters")}
    assert cache["target"] == 96, "512 x 2 x 98,304 bytes"


def test_leave_it_off_elsewhere_is_no_verdict_for_this_gpu(store: Store):
    run = synthetic.run(c=0.60, best=1, alpha=0.3)
    app = open_page("memory_cost", run=synthetic.keep(store, run), gpu="H100 SXM", price="4.29")
    gain = memory_gain.of_run(analysed(run))
    assert app.title[0].value.startswith(f"At {gain.speedup:.2f}x measured elsewhere, leave the draft off: it takes 6.8 GB and :orange[costs ")
    assert "if this GPU gained what Test CPU did" in texts(app)
    assert f"speedup {gain.speedup:.2f}x on Test CPU" in texts(app)


def test_the_table_behind_the_curves_has_the_contexts_where_they_meet_the_limit():
    app = open_page("memory_cost", **LLAMA, gpu="H100 SXM")
    rows = {row["Context, tokens"]: row for row in table(app, "Context, tokens")}
    fixed = BIG_BYTES + SMALL_BYTES + 2 * GIB
    for tokens, sequences in ((21_232, 16), (5_280, 64)):
        size = fixed + sequences * (tokens * 163_840 + 4 * 128_256 * 11)
        assert rows[tokens][f"{sequences} sequences, GiB"] == pytest.approx(size / GIB)
        assert size <= int(int(79.11 * GIB) * 0.9) < size + sequences * 16 * 163_840, "one more page of 16 tokens each is too much"


def test_money_of_the_fleet_says_how_the_speedup_is_known(store: Store):
    first = texts(open_page("memory_cost", **LLAMA, gpu="H100 SXM", **FLEET)).replace("\\", "")
    assert "what-if speedup 1.30x, not measured" in first.split("For this traffic")[1]
    app = open_page("memory_cost", run=synthetic.keep(store, synthetic.run()), gpu="H100 SXM", requests="50,000")
    assert "measured on Test CPU, not on this GPU" in texts(app).split("For this traffic")[1].split("GPUs without the draft and")[0]
    assert "[0.00, 0.00]" not in texts(app)
