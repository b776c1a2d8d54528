"""What a side-by-side run may ask for, and that the bench asks."""

import contextlib

import pytest

from core.bench import Bench
from core.errors import InvalidInput
from core.lanes import check
from core.policies import FixedGamma, Oracle, Plain, PromptLookup
from core.runs import Lane, ModelRef, Prompt, RunSpec
from core.settings import Settings
from core.store import Store
from tests.benches import ENTRY

DRAFT = ModelRef(source="folder", name="tiny", path="/nowhere/tiny")
GOOD = RunSpec(
    target=DRAFT,
    draft=DRAFT,
    prompts=(Prompt(text="x"),),
    extent="side_by_side",
    lanes=(Lane(policy=Plain()), Lane(policy=FixedGamma(2), draft=DRAFT, ensemble_weight=0.5), Lane(policy=PromptLookup(3))),
    order=(2, 0, 1),
)


def test_a_good_run_passes():
    check(GOOD)
    check(GOOD.model_copy(update={"lanes": GOOD.lanes[:2], "order": (1, 0)}))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"lanes": GOOD.lanes[:1], "order": (0,)}, "1 columns"),
        ({"lanes": GOOD.lanes * 2, "order": tuple(range(6))}, "6 columns"),
        ({"lanes": GOOD.lanes[1:], "order": (0, 1)}, "first column is plain"),
        ({"lanes": (Lane(policy=Plain(), ensemble_weight=0.5), *GOOD.lanes[1:])}, "first column is plain"),
        ({"order": (0, 1)}, "each of the 3 columns once"),
        ({"order": (0, 1, 1)}, "each of the 3 columns once"),
        ({"prompts": GOOD.prompts * 2}, "2 prompts"),
        ({"stop": ("###",)}, "stop strings"),
        ({"lanes": (*GOOD.lanes[:2], Lane(policy=Oracle()))}, "Column 3 asks for the oracle"),
        ({"lanes": (*GOOD.lanes[:2], Lane(policy=PromptLookup(3), draft=DRAFT))}, "Column 3 names the draft tiny"),
        ({"lanes": (*GOOD.lanes[:2], Lane(policy=Plain(), ensemble_weight=0.5))}, "Column 3 mixes in"),
    ],
)
def test_what_cannot_be_run_is_refused(changes, says):
    with pytest.raises(InvalidInput, match=says):
        check(GOOD.model_copy(update=changes))


def test_the_bench_asks_before_a_run_waits_and_looks_at_each_lanes_draft(settings: Settings, store: Store, spec: RunSpec) -> None:
    whole = GOOD.model_copy(update={"target": spec.target, "draft": spec.draft, "device": spec.device})
    with contextlib.closing(Bench(settings, store, prewarm=(), entry=ENTRY)) as bench:
        with pytest.raises(InvalidInput, match="each of the 3 columns once"):
            bench.submit(whole.model_copy(update={"order": (0,)}))
        with pytest.raises(InvalidInput, match="/nowhere/tiny is not below a configured root"):
            bench.submit(whole)
    assert store.queued() == []
