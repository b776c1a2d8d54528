"""What is known of a target and its drafts: from the real planner, from the embedded pair and edited copies of its draft."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest

from core.candidates import AskAgain, Known, Setting, View, bytes_per_parameter, gather, read_again
from core.devices import CPU, gpu
from core.model_info import ModelInfo, Weights
from core.planner import Answer, Failed, Planner, Ready, Waiting
from core.settings import Settings
from tests import pair_models

H100 = gpu("H100", 3350)


@pytest.fixture(scope="module")
def planner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Planner]:
    folder = tmp_path_factory.mktemp("candidates")
    pair_models.make(folder / "models")
    made = Planner(Settings(data=folder / "data", model_roots=[folder / "models"]))
    yield made
    made.close()


def seen(planner: Planner, *drafts: str, target: str = "demo:target") -> View:
    return pair_models.known(planner, target, drafts)


def test_the_demo_pair_fits_with_its_sizes_and_an_estimate(planner: Planner) -> None:
    view = seen(planner, "demo:draft")
    draft = view.drafts[0]
    assert draft.verdict_value is not None
    assert (draft.verdict_value.kind, draft.fits, draft.problem) == ("identical", True, "")
    assert draft.model.sizes is not None
    assert (draft.model.sizes.parameters, draft.model.sizes.layers, draft.model.sizes.bytes_per_token) == (1_210_944, 1, 768)
    assert view.target.sizes is not None
    assert view.target.sizes.bytes_per_token == 32 * 768
    assert draft.estimate is not None
    assert draft.estimate.low < draft.estimate.c < draft.estimate.high < 0.2
    assert view.best is draft
    assert not view.waiting


def test_each_draft_stands_for_itself(planner: Planner) -> None:
    addresses = ("folder:permuted", "folder:padded", "folder:other", "folder:mute", "folder:wordless", "folder:gone")
    drafts = {draft.model.address: draft for draft in seen(planner, *addresses).drafts}
    kinds = {address: draft.verdict_value.kind for address, draft in drafts.items() if draft.verdict_value}
    assert kinds == {"folder:permuted": "same_size_different_map", "folder:padded": "padded", "folder:other": "different"}
    assert not any(draft.fits for draft in drafts.values())
    assert drafts["folder:permuted"].refusals[0].sentence.startswith("Different token maps: 4,095 of 4,096 common ids")
    assert "has no head that writes it" in drafts["folder:mute"].problem
    assert "no tokenizer" in drafts["folder:wordless"].problem
    assert "There is no model folder 'gone'" in drafts["folder:gone"].problem


def test_the_best_is_the_one_with_the_most_to_gain(planner: Planner) -> None:
    view = seen(planner, "demo:target", "folder:permuted", "demo:draft")
    assert view.best is view.drafts[2]
    assert view.drafts[0].estimate is not None
    assert view.drafts[0].estimate.c == pytest.approx(1.0)


def test_only_six_drafts_are_asked_for(planner: Planner) -> None:
    assert len(seen(planner, *[f"folder:none{at}" for at in range(7)]).drafts) == 6


@pytest.mark.parametrize("task", ["describe", "profile", "compare"])
def test_one_part_that_hangs_holds_up_no_other(planner: Planner, task: str) -> None:
    seen(planner, "demo:draft", "folder:padded")
    stuck = "folder:padded" if task == "describe" else 4224 if task == "profile" else "vocabulary"

    def ask(asked: str, arguments: dict[str, Any]) -> Answer:
        padded = arguments.get("model") == stuck or arguments.get("config", {}).get("vocab_size") == stuck
        if asked == task and (padded or task == "compare"):
            return Waiting("Reading")
        return planner.ask(asked, arguments)

    view = gather(ask, "demo:target", ["demo:draft", "folder:padded"], Setting())
    assert view.waiting
    assert view.drafts[0].model.sizes is not None
    assert (view.drafts[0].verdict_value is None) == (task == "compare")
    assert (view.drafts[1].verdict_value is None) == (task != "profile")


def test_a_dead_target_asks_for_no_comparison(planner: Planner) -> None:
    view = seen(planner, "demo:draft", target="folder:mute")
    assert view.target.problem.startswith("mute reads text")
    assert view.drafts[0].verdict is None
    assert view.best is None


def test_another_device_gives_another_estimate(planner: Planner) -> None:
    seen(planner, "demo:draft")
    on_gpu = gather(planner.ask, "demo:target", ["demo:draft"], Setting(H100)).drafts[0].estimate
    on_cpu = gather(planner.ask, "demo:target", ["demo:draft"], Setting()).drafts[0].estimate
    assert on_gpu is not None
    assert on_cpu is not None
    assert on_gpu.c < on_cpu.c, "on a GPU starting layers decides: 1 against 32"


def test_a_draft_on_another_device_is_priced_there_and_warned_of(planner: Planner) -> None:
    seen(planner, "demo:draft")
    together = gather(planner.ask, "demo:target", ["demo:draft"], Setting(H100)).drafts[0]
    apart = gather(planner.ask, "demo:target", ["demo:draft"], Setting(H100, draft_device=CPU)).drafts[0]
    assert together.estimate is not None
    assert apart.estimate is not None
    assert apart.estimate.c != together.estimate.c
    sentence = "The target runs on H100, the draft on CPU, one thread."
    assert [sentence in [said.sentence for said in draft.advice] for draft in (together, apart)] == [False, True]


@pytest.mark.parametrize(
    ("weights", "on_cpu", "on_gpu"),
    [
        (None, 4.0, 2.0),
        (Weights(bytes=200, parameters=100, bytes_by_dtype={"BF16": 200}), 4.0, 2.0),
        (Weights(bytes=60, parameters=100, quantisation="gptq"), 0.6, 0.6),
        (Weights(bytes=60, parameters=None, quantisation="gptq"), 4.0, 2.0),
    ],
)
def test_weights_count_as_they_are_held(planner: Planner, weights: Weights | None, on_cpu: float, on_gpu: float) -> None:
    info = seen(planner, "demo:draft").target.usable
    assert info is not None
    changed = info.model_copy(update={"weights": weights})
    assert bytes_per_parameter(changed, Setting()) == on_cpu
    assert bytes_per_parameter(changed, Setting(H100)) == on_gpu
    unpacked = changed.model_copy(update={"ref": changed.ref.model_copy(update={"source": "gguf"})})
    assert bytes_per_parameter(unpacked, Setting()) == 4.0, "Transformers unpacks GGUF files"


@pytest.mark.parametrize(
    ("address", "name"),
    [("Qwen/Qwen3-0.6B@main", "Qwen3-0.6B"), ("a" * 500, "a" * 59 + "…"), ("/", "/"), ("gpt2", "gpt2")],
)
def test_names_are_short(address: str, name: str) -> None:
    assert gather(lambda *_: Waiting("Reading"), address, [], Setting()).target.name == name


def test_reading_again_asks_for_the_model_and_for_what_failed(planner: Planner) -> None:
    seen(planner, "demo:draft")
    done: list[str] = []

    def ask(task: str, arguments: dict[str, Any], *, again: bool = False) -> Answer:
        if again:
            done.append(task)
        return Failed("No room.") if task == "profile" else planner.ask(task, arguments)

    door: AskAgain = ask
    read_again(door, "demo:target", "demo:draft")
    assert done == ["profile", "profile", "describe"]


def test_the_age_is_the_answer_s(planner: Planner) -> None:
    seen(planner, "demo:draft")

    def old(task: str, arguments: dict[str, Any]) -> Answer:
        answer = planner.ask(task, arguments)
        return dataclasses.replace(answer, age_s=7200.0) if isinstance(answer, Ready) else answer

    info = gather(old, "demo:target", ["demo:draft"], Setting()).target.info
    assert isinstance(info, Known)
    assert info.age_s == 7200.0
    assert isinstance(info.value, ModelInfo)
