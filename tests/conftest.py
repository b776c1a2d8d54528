"""Fixtures that several test files share: settings in a temporary folder, a store, a bench, a spec."""

import contextlib
import functools
import gc
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from core.bench import Bench
from core.child import Entry
from core.runs import Prompt, RunSpec
from core.settings import Settings
from core.store import Store, open_store
from tests.hub_server import HubServer, hub_server
from tests.supplies import model_folder

LONG = (
    "tests/browser/",
    "test_replay_sampling",
    "test_bench_kill",
    "test_killed_stages",
    "test_checks",
    "test_answers",
    "test_ways_worker",
    "test_measured_rounds",
    "test_side_worker",
    "test_measure.py",
    "test_web",
    "test_bench.py",
    "test_memory_page",
    "test_pair_page",
    "test_measure_decoding",
    "test_demo_pair",
    "test_download",
    "test_deploy.py",
)
"""Where the tests are that take longest, roughly in that order; they begin first, so that none is left alone at the end."""


class ByFile(LoadScopeScheduling):
    """The tests of a file stay in one process, for the fixtures they share; those with a browser too, so that only one is busy at a time."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return "browser" if file.startswith("tests/browser/") else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByFile:
    """Called once, where tests run in several processes."""
    return ByFile(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The order in which files are handed to processes."""
    items.sort(key=lambda item: next((place for place, name in enumerate(LONG) if name in item.nodeid), len(LONG)))


def pytest_collection_finish() -> None:
    """What the modules hold, now that all are read, is set aside from garbage collections, as `core.ui.heap` does for the server's pages."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _packages_are_looked_through_once() -> Iterator[None]:
    """`AppTest` reads what every installed package says of itself anew for each page, for components; that takes longer than the page."""
    with pytest.MonkeyPatch.context() as patch:
        if "streamlit" in sys.modules:
            from streamlit.components.v2 import manifest_scanner

            patch.setattr(manifest_scanner, "scan_component_manifests", functools.cache(manifest_scanner.scan_component_manifests))
        yield


@pytest.fixture(scope="session", autouse=True)
def _nothing_is_timed_again() -> Iterator[None]:
    """Beside other tests no core is quiet, so that a measurement would time nearly every call three times; `test_quiet` is about that."""
    with pytest.MonkeyPatch.context() as patch:
        if "core.worker.timing" in sys.modules:
            patch.setattr("core.worker.timing._REPEATS", 0)
        yield


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Everything below one temporary folder, device locks too."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return Settings(data=tmp_path / "data", model_roots=[tmp_path / "models"], threads=1)


@pytest.fixture
def store(settings: Settings) -> Iterator[Store]:
    opened = open_store(settings)
    yield opened
    opened.close()


@pytest.fixture
def spec(settings: Settings) -> RunSpec:
    """A pair of folders that look like models, and two prompts."""
    target, draft = (model_folder(settings.model_roots[0] / name) for name in ("target", "draft"))
    prompts = (Prompt(text="def add(a, b):", label="code"), Prompt(text="Once upon a time", label="prose"))
    return RunSpec(target=target, draft=draft, prompts=prompts, max_new_tokens=8)


@pytest.fixture
def bench(settings: Settings, store: Store) -> Iterator[Bench]:
    """A bench whose worker does the jobs of `tests.jobs`."""
    with contextlib.closing(Bench(settings, store, entry=Entry("tests.jobs:by_seed", "tests.jobs:devices"))) as opened:
        yield opened


@pytest.fixture
def cold_bench(settings: Settings, store: Store) -> Iterator[Bench]:
    """The same without a worker until there is work, for tests that only look at pages."""
    with contextlib.closing(Bench(settings, store, prewarm=(), entry=Entry("tests.jobs:by_seed", "tests.jobs:devices"))) as opened:
        yield opened


@pytest.fixture
def app_site(settings: Settings, store: Store, cold_bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The pages over this test's store, with a synthetic run in the example's place."""
    from core import demo
    from core.ui import desk
    from tests import synthetic

    run = synthetic.run("example")
    monkeypatch.setattr(desk, "_open", lambda: (store, cold_bench))
    monkeypatch.setattr(desk, "settings", lambda: settings)
    monkeypatch.setattr(desk, "example", lambda: run)
    monkeypatch.setattr(demo, "prompts", lambda: run.spec.prompts)
    desk._analysis.clear()
    kept = desk.planner
    kept.clear()  # of another test, over another folder
    yield
    desk._analysis.clear()
    for made in kept.made():
        made.close()
    kept.clear()


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[HubServer]:
    """A Hub on this machine with the demo target as acme/target; no token, and an empty cache of the Hugging Face tools."""
    from huggingface_hub import constants

    from tests.hub_models import ID, demo_repo

    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "shared"))
    with hub_server() as server:
        server.repos[ID] = demo_repo()
        yield server
