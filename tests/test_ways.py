"""A run in several ways in figures, recomputed by hand from its calls; which way is chosen; and that lists, exports and imports take it."""

from collections import defaultdict
from collections.abc import Sequence
from math import exp, log, sqrt
from statistics import mean
from typing import Any

import numpy as np
import pytest

from core import comparison, export_json, imports_json, in_short, privacy, ways
from core.analysis import Unfinished, analyse
from core.errors import InvalidInput
from core.history import Query
from core.intervals import jackknife_error, t_quantile
from core.lanes import check, check_ways, ways_of
from core.measured import Generation
from core.policies import EarlyExit, FixedGamma, Heuristic, Oracle, OwnHeads, Plain, PromptLookup, describe
from core.runs import Lane, ModelRef, Run
from core.store import Store
from core.way_calls import _these
from tests import synthetic, way_runs

SLOW: dict[str, Any] = {"c": 1.2, "alpha": 0.3}


def results(run: Run) -> Any:
    """Of lanes that were all timed, so that no test asks whether they were."""
    return ways.results(run)


def choice(run: Run) -> Any:
    return ways.choice(run)


def summary(run: Run) -> Any:
    return ways.summary(run)


def beside(block: Sequence[Generation], at: int) -> list[Generation]:
    return [g for g in (*block[at - 1 : at], *block[at + 1 : at + 2]) if isinstance(g.policy, Plain)]


def by_hand(run: Run, lane: int) -> tuple[dict[int, float], dict[int, float], list[float]]:
    """Plain and own decoding seconds by prompt, and the log speedup of every call."""
    blocks: dict[int, list[Generation]] = defaultdict(list)
    for g in run.generations:
        blocks[g.block].append(g)
    plain_s, own_s, logs = defaultdict[int, float](float), defaultdict[int, float](float), list[float]()
    for block in blocks.values():
        for at, g in enumerate(block):
            if g.lane != lane:
                continue
            near = beside(block, at)
            step_s = sum(p.total_s - p.first_token_s for p in near) / sum(p.tokens - 1 for p in near)
            prefills_s = mean(p.first_token_s for p in near) + (g.way.draft_prefill_s if g.way else 0)
            if g.drafted[0] == 0:
                prefills_s = g.first_token_s
            mine_s = g.total_s - min(prefills_s, g.first_token_s)
            plain_s[g.prompt] += step_s * (g.tokens - 1)
            own_s[g.prompt] += mine_s
            logs.append(log(step_s * (g.tokens - 1) / mine_s))
    return plain_s, own_s, logs


def test_speedups_are_ratios_of_sums_beside_plain_calls():
    run = way_runs.run()
    found = results(run)
    assert [way.name for way in found] == ["plain", *(describe(policy) for policy in way_runs.WAYS)]
    for way in found[1:]:
        plain_s, own_s, _ = by_hand(run, way.lane)
        assert way.decode is not None
        assert way.decode.value == pytest.approx(sum(plain_s.values()) / sum(own_s.values()))
        assert way.decode.traffic is not None
        above, below = (np.array([sums[prompt] for prompt in range(12)]) for sums in (plain_s, own_s))
        left_out = np.array([log(np.delete(above, at).sum() / np.delete(below, at).sum()) for at in range(12)])
        half = t_quantile(11) * sqrt(11 / 12 * ((left_out - left_out.mean()) ** 2).sum())
        assert way.decode.traffic == pytest.approx((way.decode.value * exp(-half), way.decode.value * exp(half)))
        assert half == pytest.approx(t_quantile(11) * float(jackknife_error(left_out)))


def test_end_to_end_is_of_whole_calls():
    run = way_runs.run(turns=1)
    way = results(run)[2]
    calls = [g for g in run.generations if g.lane == 2]
    plain_s = 0.0
    for g in calls:
        block = [h for h in run.generations if h.block == g.block]
        near = beside(block, block.index(g))
        plain_s += sum(p.total_s for p in near) / sum(p.tokens for p in near) * g.tokens
    assert way.end_to_end is not None
    assert way.end_to_end.value == pytest.approx(plain_s / sum(g.total_s for g in calls))
    assert way.end_to_end.value < way.decode.value, "prefills are dearer with a draft"


def test_counts_are_sums_over_the_calls():
    run = way_runs.run(turns=2)
    plain, way = results(run)[0], results(run)[2]
    calls = [g for g in run.generations if g.lane == 2]
    rounds = [n for g in calls for n in g.rounds]
    assert (way.calls, way.prompts, way.tokens, way.rounds) == (24, 12, sum(rounds), len(rounds))
    assert way.tokens_per_round == sum(rounds) / len(rounds)
    assert way.accepted == sum(n - 1 for n in rounds)
    assert way.utilisation == way.accepted / sum(k for g in calls for k in g.drafted)
    assert way.alpha_examined == way.accepted / (way.accepted + sum(g.way.rejected for g in calls if g.way))
    assert (plain.tokens_per_round, plain.utilisation, plain.alpha_examined, plain.decode) == (1.0, None, None, None)
    assert plain.tokens_per_s == pytest.approx(1 / (synthetic.PREFILL_S + 63 * synthetic.PLAIN_S) * 64, rel=0.01)


def test_the_interval_on_these_prompts_is_how_calls_of_one_prompt_scatter():
    assert all(way.decode and way.decode.these is None for way in results(way_runs.run(turns=1))[1:])
    run = way_runs.run(turns=3)
    way = results(run)[2]
    calls = [g for g in run.generations if g.lane == 2]
    _, own_s, logs = by_hand(run, 2)
    by_prompt = defaultdict[int, list[float]](list)
    for g, value in zip(calls, logs, strict=True):
        by_prompt[g.prompt].append(value)
    variance = sum((value - mean(values)) ** 2 for values in by_prompt.values() for value in values) / 24
    each_s = [exp(-value) * (g.tokens - 1) for g, value in zip(calls, logs, strict=True)]
    assert way.decode is not None
    assert way.decode.these is not None
    half = log(way.decode.these.high / way.decode.these.low) / 2
    shares = sum((s / sum(each_s)) ** 2 for s in each_s)
    assert half == pytest.approx(t_quantile(24) * sqrt(variance * shares), rel=0.01)
    assert sum(own_s.values()) > 0


def test_that_interval_covers_the_truth_in_95_of_100():
    """12 prompts of unlike length, each run twice, every time with 2 % of its own noise."""
    rng, inside, true = np.random.default_rng(3), 0, 1.4
    prompt, length = np.repeat(np.arange(12), 2), np.repeat(rng.uniform(0.5, 2.0, 12), 2)
    for _ in range(1000):
        plain_s = true * length * np.exp(rng.normal(0, 0.02, 24))
        own_s = length * np.exp(rng.normal(0, 0.02, 24))
        value = float(np.log(plain_s.sum() / own_s.sum()))
        found = _these(prompt, plain_s, own_s, value)
        assert found is not None
        inside += found.low < true < found.high
    assert 930 <= inside <= 970


def test_a_first_round_without_a_draft_is_the_prefill_and_what_was_loaded_before_it():
    """A head reads its weights in every call; that is no decoding."""
    run = way_runs.run(ways=[OwnHeads("mtp")], turns=1)
    slowed = [
        g.model_copy(update={"total_s": g.total_s + 5.0, "first_token_s": g.first_token_s + 5.0}) if g.lane == 1 else g for g in run.generations
    ]
    loads = run.model_copy(update={"generations": tuple(slowed)})
    plain, own = results(run)[1], results(loads)[1]
    assert plain.decode is not None
    assert own.decode is not None
    assert own.decode.value == pytest.approx(plain.decode.value)
    assert own.end_to_end.value < 0.3 * plain.end_to_end.value
    assert own.draft == ""
    assert own.notes == (
        "Transformers 5.24 reads the heads' weights anew in every call, which end to end holds: the first token came after 5 s, plain 0.03 s.",
        "The heads' own reading of the prompt counts as decoding.",
    )


def test_a_call_that_stood_still_is_left_out_and_counted():
    run = way_runs.run(turns=1)
    at = next(at for at, g in enumerate(run.generations) if g.lane == 2)
    frozen = list(run.generations)
    frozen[at] = frozen[at].model_copy(update={"total_s": frozen[at].total_s + 60.0})
    kept, disturbed = results(run)[2], results(run.model_copy(update={"generations": tuple(frozen)}))[2]
    assert (kept.stalled, disturbed.stalled) == (0, 1)
    assert (kept.notes, disturbed.notes) == ((), ("1 call stood still, or the plain one beside it did, and is left out.",))
    assert disturbed.decode.value == pytest.approx(kept.decode.value, rel=0.1)


@pytest.mark.parametrize(("parted", "real", "ties", "open_"), [({2: 0.5}, 1, 0, 0), ({2: 0.0001}, 0, 1, 0), ({2: None}, 0, 0, 1)])
def test_what_differs_from_plain_is_told(parted, real, ties, open_):
    way = results(way_runs.run(parted=parted, turns=1))[2]
    assert (way.compared, way.equal, way.real, way.near_ties, way.unexplained) == (12, 11, real, ties, open_)
    assert way.lossless == (real == 0)
    assert (way.verdict == "lossy") == (real == 1)


def test_sampling_with_other_tokens_is_never_chosen_however_fast():
    run = way_runs.run(ways=[FixedGamma(4), PromptLookup(10)], sampled=True, translated=True, alpha=0.95)
    draft, lookup = results(run)[1:]
    assert draft.decode.value > 1.1 * lookup.decode.value
    assert (draft.lossless, draft.verdict, lookup.lossless) == (False, "lossy", True)
    assert "not drawn from the target's distribution" in draft.reason
    chosen = choice(run)
    assert chosen.lane == 2
    assert choice(way_runs.run(ways=[FixedGamma(4), PromptLookup(10)], sampled=True, translated=False, alpha=0.95)).lane == 1


def test_an_ensemble_weight_is_lossy_whatever_was_written():
    run = way_runs.run(ways=[FixedGamma(4)], turns=1)
    lanes = (run.spec.lanes[0], Lane(policy=FixedGamma(4), ensemble_weight=0.5))
    run = run.model_copy(update={"spec": run.spec.model_copy(update={"lanes": lanes})})
    way = results(run)[1]
    assert (way.name, way.lossless, way.verdict) == ("fixed gamma 4, ensemble weight 0.5", False, "lossy")
    assert choice(run).lane is None
    assert summary(run) is None


def test_use_the_best_with_an_interval_for_having_chosen_it():
    run = way_runs.run()
    chosen = choice(run)
    best = max(results(run)[1:], key=lambda way: way.decode.value)
    assert chosen.verdict == "use"
    assert chosen.lane in chosen.flat
    assert best.lane in chosen.flat
    assert chosen.speed.value == results(run)[chosen.lane].decode.value
    assert chosen.speed.traffic.low > 1
    assert chosen.prompts == 12
    assert f"{chosen.speed.value:.2f}x measured on 12 prompts" in chosen.reasons[0]


def test_leave_it_off_where_no_way_pays():
    run = way_runs.run(ways=[FixedGamma(5), FixedGamma(10)], **SLOW)
    chosen = choice(run)
    assert chosen.verdict == "leave_off"
    assert chosen.speed.value < 1
    assert [way.verdict for way in results(run)[1:]] == ["leave_off", "leave_off"]
    found = summary(run)
    assert (found.verdict, found.confirmed, found.alpha, found.c) == ("leave_off", True, None, None)


def test_too_few_prompts_decide_nothing():
    run = way_runs.run(prompts=4)
    chosen = choice(run)
    assert (chosen.verdict, chosen.speed.traffic) == ("undecided", None)
    assert chosen.prompts_needed >= 4
    assert all(way.verdict == "undecided" for way in results(run)[1:])
    assert "8 are the least" in chosen.reasons[1]


def test_among_equals_the_one_without_a_second_model():
    """The draft's calls are given to early exit as well, so that both are as fast."""
    run = way_runs.run(ways=[FixedGamma(4), EarlyExit(3, 4, threshold=0.0)], turns=1)
    draft = {g.block: g for g in run.generations if g.lane == 1}
    same = tuple(draft[g.block].model_copy(update={"lane": 2, "policy": g.policy}) if g.lane == 2 else g for g in run.generations)
    chosen = choice(run.model_copy(update={"generations": same}))
    assert chosen.flat == (1, 2)
    assert (chosen.lane, chosen.draft) == (2, "")
    assert "needs no second model" in chosen.reasons[2]


def test_only_prompts_that_all_ways_wrote_are_compared_and_a_part_of_a_run_is_one():
    whole = way_runs.run(turns=1)
    block = max(at for at, g in enumerate(whole.generations) if g.block == 8 and g.lane == 1) + 1
    part = whole.model_copy(update={"generations": whole.generations[:block]})
    assert [way.prompts for way in results(part)] == [9, 9, 8, 8, 8]
    assert choice(part).prompts == 8
    nothing = whole.model_copy(update={"generations": whole.generations[:1]})
    assert [way.verdict for way in results(nothing)] == ["plain", *["unfinished"] * 4]
    assert choice(nothing).lane is None
    assert summary(nothing) is None


LANE = Lane(policy=FixedGamma(4))
HEAD = ModelRef(source="folder", name="head", path="/models/head")


@pytest.mark.parametrize(
    ("lanes", "changes", "says"),
    [
        ((), {}, "1 ways cannot be measured together"),
        (tuple(Lane(policy=FixedGamma(n)) for n in range(1, 7)), {}, "7 ways cannot"),
        ((LANE, LANE), {}, "Two of the ways are the same"),
        ((LANE,), {"prompts": ()}, "There is no prompt"),
        ((LANE,), {"max_new_tokens": 1}, "1 new tokens leave nothing"),
        ((Lane(policy=Oracle()),), {}, "Way 2, oracle asks for the oracle"),
        ((Lane(policy=Heuristic(5)),), {}, "carries its draft length from prompt to prompt"),
        ((Lane(policy=OwnHeads("dflash")),), {}, "needs the model that was made for this target"),
        ((Lane(policy=OwnHeads("mtp"), draft=HEAD),), {}, "names the draft head but drafts without a model"),
        ((Lane(policy=EarlyExit(2), ensemble_weight=0.5),), {}, "mixes in a draft's opinion but has no draft"),
        ((Lane(policy=OwnHeads("dflash"), draft=HEAD, ensemble_weight=0.5),), {}, "mixes in a draft's opinion"),
        ((Lane(policy=Plain(), draft=HEAD),), {}, "is plain decoding once more"),
    ],
)
def test_what_cannot_be_run_is_refused_before_it_waits(lanes, changes, says):
    spec = synthetic.run().spec.model_copy(update=changes)
    with pytest.raises(InvalidInput, match=says):
        ways_of(spec, (Lane(policy=Plain()), *lanes))


def test_a_spec_names_a_draft_that_it_uses():
    spec = synthetic.run().spec
    plain = Lane(policy=Plain())
    assert ways_of(spec, (plain, LANE)).draft == spec.draft
    assert ways_of(spec, (plain, Lane(policy=FixedGamma(2), draft=HEAD))).draft == HEAD
    alone = ways_of(spec, (plain, Lane(policy=PromptLookup(3)), Lane(policy=OwnHeads("dflash"), draft=HEAD)))
    assert alone.draft == spec.target
    with pytest.raises(InvalidInput, match="small_model is used by none of the ways"):
        check_ways(alone.model_copy(update={"draft": spec.draft}))
    with pytest.raises(InvalidInput, match="The first way is plain"):
        check_ways(ways_of(spec, (plain, LANE)).model_copy(update={"lanes": (LANE, plain)}))
    with pytest.raises(InvalidInput, match="Leave the stop strings out"):
        check_ways(ways_of(spec, (plain, LANE)).model_copy(update={"stop": ("x",)}))


@pytest.mark.parametrize("policy", [EarlyExit(2), OwnHeads("mtp")])
def test_side_by_side_shows_no_way_that_cannot_be_replayed(policy):
    spec = way_runs.run(prompts=1).spec.model_copy(
        update={"extent": "side_by_side", "lanes": (Lane(policy=Plain()), Lane(policy=policy)), "order": (0, 1)}
    )
    with pytest.raises(InvalidInput, match="measured in several ways only"):
        check(spec)


def test_lists_show_its_answer_and_its_kind(store: Store):
    run = way_runs.run()
    run_id = way_runs.keep(store, run)
    kept = store.get(run_id, traces=True)
    found = in_short.in_short(kept)
    assert found == summary(run)
    assert found is not None
    store.summarise(run_id, found)
    (entry,) = store.history(Query(kinds=("ways",))).entries
    assert (entry.kind, entry.speedup, entry.alpha, entry.c) == ("ways", found.speedup, None, None)
    assert entry.summary == found
    assert store.history(Query(kinds=("measured", "side_by_side", "shapes"))).total == 0
    assert store.history(Query()).total == 1
    assert store.get(run_id).summary == found
    assert results(store.get(run_id)) == results(run)


def test_it_says_that_it_replays_nothing():
    seen = analyse(way_runs.run())
    assert isinstance(seen, Unfinished)
    assert "replays nothing" in seen.missing
    assert seen.alpha is None


@pytest.mark.parametrize("texts", [True, False])
def test_it_says_the_same_after_a_journey(texts):
    run = way_runs.run(parted={2: 0.5})
    run = run.model_copy(update={"summary": summary(run)})
    back = imports_json.from_json(export_json.to_json(run, texts=texts))
    assert results(back) == results(run)
    assert choice(back) == choice(run)
    assert back.summary == run.summary
    assert results(privacy.without_texts(run)) == results(run)


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [("rejected", 10_000, "rejected is 10000"), ("draft_prefill_s", -1.0, "draft_prefill_s is -1"), ("prepared_s", 1e9, "prepared_s")],
)
def test_a_file_with_impossible_notes_is_refused(name, value, says):
    run = way_runs.run(turns=1)
    bad = [g.model_copy(update={"way": g.way.model_copy(update={name: value})}) if g.way else g for g in run.generations]
    with pytest.raises(InvalidInput, match=says):
        imports_json.from_json(export_json.to_json(run.model_copy(update={"generations": tuple(bad)}), texts=True))


def test_a_comparison_names_its_ways():
    rows = {row.name: row for row in comparison.rows([way_runs.run(), synthetic.run()])}
    assert rows["Kind of run"].words == ("several ways, really run", "measurement")
    assert rows["Kind of run"].topic == "kind"
    assert "prompt lookup of 10, n-gram 2" in rows["Columns"].words[0]
