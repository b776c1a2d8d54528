"""The part of the page `measure` that says how each draft is measured, and offers other ways to draft.

A draft with the target's tokens is replayed. One with other tokens, and every way without a draft model, can only be really run: plain
decoding and each way write every prompt, timed side by side. What cannot be run says why before it is started. Choices stand in the address.
"""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass

import streamlit as st

from core import demo
from core.address import address
from core.candidates import Candidate, Known, Setting, View, gather
from core.engines import intersection
from core.lanes import MOST_WAYS, ways_of
from core.measured import AnyPolicy
from core.model_info import ModelInfo
from core.own_heads import Heads, block_tokens
from core.planner import Failed, Ready, Waiting
from core.policies import OwnHeads, Plain, PromptLookup, describe
from core.runs import Lane, ModelRef, Prompt, RunSpec
from core.ui import desk, look, model_cautions, numbers
from core.ui.decoding_box import KEPT, Settings
from core.ways_ask import LOOKUP, SETTINGS, USUAL_SETTINGS, Suit, early_exit, exit_refused, exits, mtp_refused, suit, usual_exits

LOOK_AGAIN_S = 1.0
WHY_REAL = (
    "Transformers does not take its tokens as they are, so nothing can be replayed: it carries every proposal over as text. The draft is run for "
    "real instead: plain decoding and each setting write every prompt, timed beside each other."
)
EXIT, MTP = "way_exit", "way_mtp"
EXIT_HELP = "The target's own first layers draft, with its output head. Models that were not trained for it draft nonsense there."
MTP_HELP = "Layers that were trained with the target to predict several tokens at once (use_mtp in Transformers)."
LOOKUP_HELP = "Copies what followed the same last tokens earlier in the text. It needs no draft, and pays where answers repeat their prompt."


@dataclass(frozen=True)
class Asked:
    """What the form holds. replayed: drafts that are measured by replay; real: drafts that are only really run, with their ways.

    more: further ways, without a draft model. ready: whether all of it can be started.
    """

    replayed: tuple[ModelRef, ...] = ()
    real: tuple[tuple[ModelRef, tuple[Lane, ...]], ...] = ()
    more: tuple[Lane, ...] = ()
    ready: bool = False

    @property
    def label(self) -> str:
        """What the button does."""
        measured = f"Measure {numbers.counted(len(self.replayed), 'draft')}" if len(self.replayed) > 1 else "Measure"
        count = sum(len(lanes) for _, lanes in self.real) + len(self.more)
        if not count:
            return measured
        return f"{measured}, and run {numbers.counted(count, 'way')} for real" if self.replayed else f"Run {numbers.counted(count, 'way')} for real"

    def specs(self, settings: Settings, target: ModelRef, prompts: tuple[Prompt, ...]) -> list[RunSpec]:
        """One run per draft, and one for the further ways unless they go with the first draft that is only really run; together in a group.

        Raises InvalidInput where the ways cannot be run.
        """
        found = [settings.spec(target, draft, prompts) for draft in self.replayed]
        real = [*self.real] or ([(target, ())] if self.more else [])
        for at, (draft, lanes) in enumerate(real):
            found.append(ways_of(settings.spec(target, draft, prompts), (Lane(policy=Plain()), *lanes, *(self.more if at == 0 else ()))))
        group = secrets.token_hex(6) if len(found) > 1 else ""
        return [spec.model_copy(update={"group": group}) for spec in found]


NOTHING = Asked()
"""Before a pair is chosen."""


def form(target: ModelRef, drafts: Sequence[ModelRef], settings: Settings, prompts: Sequence[Prompt] = ()) -> Asked:
    """How each draft is measured, the settings of those that are really run, and the other ways. Refused drafts are left out.

    prompts: those to be measured, as far as they are chosen; their length decides what is said of the models.
    """
    bundled = target == demo.TARGET and all(draft == demo.DRAFT for draft in drafts)
    view = None if bundled else _known(target, drafts)
    if view is not None and view.target.refusal:
        st.error(look.plain(view.target.refusal), icon=":material/block:")
        return NOTHING
    found = dict(zip(drafts, _suits(view, drafts, sample=settings.typed.sample), strict=True))
    if view is not None:
        for said in model_cautions.cautions(view, prompts, settings.typed.max_new_tokens):
            look.note(f":material/info: {look.plain(said)}")
    kinds = {kind: [draft for draft, each in found.items() if each and each.kind == kind] for kind in ("replayed", "real", "heads")}
    policies = _settings() if kinds["real"] else ()
    real = [(draft, tuple(Lane(policy=policy) for policy in policies)) for draft in kinds["real"]]
    real += [(draft, (Lane(policy=OwnHeads("dflash"), draft=draft),)) for draft in kinds["heads"]]
    others = _others(target, with_lookup=bool(kinds["real"]))
    more = tuple(Lane(policy=policy) for policy in others or ())
    if settings.typed.stops and (real or more):
        look.note("Stop strings are left out of what is really run: the library cannot stop there with a draft.")
    whole = None not in found.values() and others is not None and all(lanes for _, lanes in real)
    few = _few_enough((len(real[0][1]) if real else 0) + len(more))
    return Asked(tuple(kinds["replayed"]), tuple(real), more, ready=whole and few and bool(kinds["replayed"] or real or more))


def _known(target: ModelRef, drafts: Sequence[ModelRef]) -> View:
    """What is known of the models by now."""
    return gather(desk.planner().ask, address(target), [address(draft) for draft in drafts], Setting())


def _suits(view: View | None, drafts: Sequence[ModelRef], *, sample: bool) -> list[Suit | None]:
    """How each draft can be measured, and what a reader must know of it; None while that is not known. The bundled pair needs no view."""
    if view is None:
        return [Suit("replayed")] * len(drafts)
    found = [_suit(candidate, sample=sample) for candidate in view.drafts]
    for candidate, each in zip(view.drafts, found, strict=True):
        if each is not None and each.kind != "replayed":
            _say(candidate, each)
    if None in found:
        look.note(":material/hourglass_empty: Comparing both vocabularies ...")
    if view.waiting:
        st.fragment(_look_again, run_every=LOOK_AGAIN_S)(view.target.address, [candidate.model.address for candidate in view.drafts])
    return found


def _suit(candidate: Candidate, *, sample: bool) -> Suit | None:
    """None while it is not known. What cannot be read is left to the worker, which says why."""
    info = candidate.model.info
    if isinstance(info, Known) and block_tokens(info.value.config):
        return Suit("heads", f"A DFlash head, which drafts {block_tokens(info.value.config)} tokens at once from the target's own states.")
    if candidate.model.refusal:
        return Suit("refused", candidate.model.refusal)
    if candidate.verdict_value is not None:
        return suit(candidate.verdict_value, sample=sample, refusals=candidate.refusals)
    return None if isinstance(info, Waiting) or isinstance(candidate.verdict, Waiting) else Suit("replayed")


def _look_again(target: str, drafts: list[str]) -> None:
    """Nothing to see; starts the page over when the answers are there."""
    if not gather(desk.planner().ask, target, drafts, Setting()).waiting:
        st.rerun()


def _say(candidate: Candidate, found: Suit) -> None:
    """That a draft is refused, or only really run, and why."""
    name = look.plain(candidate.model.name)
    if found.kind == "refused":
        whose = "" if found.sentence.startswith(candidate.model.name) else f"{name}: "
        st.error(f"{whose}{look.plain(found.sentence)}", icon=":material/block:")
    elif found.kind == "heads":
        st.markdown(f":orange-badge[:material/timer: run for real] **{name}**. {look.plain(found.sentence)}")
    else:
        verdict = candidate.verdict_value
        word = verdict.word if verdict and verdict.kind != "different" else "other tokens"
        st.markdown(f":orange-badge[:material/translate: {word}] **{name}** :small[{look.plain(found.sentence)}]")
        st.markdown(WHY_REAL)
        if verdict:
            look.note(look.plain(intersection(verdict)))
        if found.lossy:
            st.warning(f"**Lossy.** {found.lossy}", icon=":material/blur_on:")


def _settings() -> tuple[AnyPolicy, ...]:
    """Settings of the drafts that are really run."""
    chosen = st.multiselect(
        "Settings to run",
        list(SETTINGS),
        list(USUAL_SETTINGS),
        format_func=lambda name: describe(SETTINGS[name]),
        key="way_settings",
        help="Each setting writes every prompt, so each takes about as long as plain decoding.",
        wrap=True,
        **KEPT,
    )
    if not chosen:
        look.note("Choose at least one setting.")
    return tuple(SETTINGS[name] for name in SETTINGS if name in chosen)


def _few_enough(count: int) -> bool:
    most = MOST_WAYS - 1
    if count > most:
        st.error(f"{count} ways are chosen; a run has at most {most} beside plain decoding. Leave some out.", icon=":material/error:")
    return count <= most


def _others(target: ModelRef, *, with_lookup: bool) -> tuple[AnyPolicy, ...] | None:
    """Ways without a draft model, folded; None where what was ticked is not complete. The config is read once somebody looks."""
    lookup = "way_lookup" if with_lookup else "way_lookup_too"  # a pair that is only run for real has it among its ways to begin with
    ticked = sum(bool(st.session_state.get(key)) for key in (lookup, EXIT, MTP))
    folded = st.expander(
        f"Other ways to draft{f': {ticked} chosen' if ticked else ''}", icon=":material/alt_route:", on_change="rerun", key="other_ways"
    )
    with folded:
        look.note("Really run and timed beside plain decoding; nothing is replayed for them.")
        found = [_lookup(lookup, ticked=with_lookup)]
        if folded.open or any(key in st.query_params or st.session_state.get(key) for key in (EXIT, MTP)):
            heads = _heads(target)
            found += [_early_exit(heads), _mtp(heads)]
    return None if None in found else tuple(policy for policies in found if policies for policy in policies)


def _lookup(key: str, *, ticked: bool) -> tuple[AnyPolicy, ...] | None:
    st.session_state.setdefault(key, ticked)
    if not st.checkbox("Prompt lookup", key=key, help=LOOKUP_HELP, **KEPT):
        return ()
    st.session_state.setdefault("way_lookup_tokens", LOOKUP.tokens)
    st.session_state.setdefault("way_lookup_ngram", LOOKUP.ngram)
    with st.container(horizontal=True):
        most = st.number_input("Tokens copied at most", 1, 100, key="way_lookup_tokens", **KEPT)
        ngram = st.number_input("N-gram", 1, 10, key="way_lookup_ngram", help="How many last tokens must match.", **KEPT)
    return (PromptLookup(int(most), int(ngram)),)


def _heads(target: ModelRef) -> Heads | Waiting | str:
    """What the target's config says; a sentence where that cannot be known."""
    info = desk.planner().ask("describe", {"model": address(target)})
    answer = desk.planner().ask("heads", {"config": ModelInfo.model_validate(info.data).config}) if isinstance(info, Ready) else info
    if isinstance(answer, Waiting):
        st.fragment(_look_for_heads, run_every=LOOK_AGAIN_S)(target)
        return answer
    return answer.sentence if isinstance(answer, Failed) else Heads.model_validate(answer.data)


def _look_for_heads(target: ModelRef) -> None:
    """Nothing to see; starts the page over when the answer is there."""
    info = desk.planner().ask("describe", {"model": address(target)})
    if isinstance(info, Ready):
        info = desk.planner().ask("heads", {"config": ModelInfo.model_validate(info.data).config})
    if not isinstance(info, Waiting):
        st.rerun()


def _early_exit(heads: Heads | Waiting | str) -> tuple[AnyPolicy, ...] | None:
    if not isinstance(heads, Heads):
        return _unknown("Early exit", heads, EXIT)
    if exit_refused(heads):
        return _refused("Early exit", exit_refused(heads), "no_exit")
    if not st.checkbox("Early exit", key=EXIT, help=EXIT_HELP, **KEPT):
        return ()
    names = [str(layer) for layer in exits(heads.layers)]
    key = f"way_layers_{heads.layers}"
    usual = [str(layer) for layer in usual_exits(heads.layers)]
    chosen = st.multiselect(f"Leave after layer, of {heads.layers}", names, usual, key=key, wrap=True, **KEPT)
    if not chosen:
        look.note("Choose after which layers to leave.")
        return None
    return tuple(early_exit(int(layer)) for layer in names if layer in chosen)


def _mtp(heads: Heads | Waiting | str) -> tuple[AnyPolicy, ...] | None:
    """The target's own heads, where its config ships them."""
    label = "The target's own heads (MTP)"
    if not isinstance(heads, Heads):
        return _unknown(label, heads, MTP)
    if mtp_refused(heads):
        return _refused(label, mtp_refused(heads), "no_mtp")
    return (OwnHeads("mtp"),) if st.checkbox(label, key=MTP, help=MTP_HELP, **KEPT) else ()


def _unknown(label: str, heads: Waiting | str, key: str) -> tuple[AnyPolicy, ...] | None:
    """A way of which nothing is known: of one that is ticked already, as in an address, it is awaited before anything can begin."""
    if isinstance(heads, str):
        return _refused(label, heads, f"no_{key}")
    _refused(label, f"Reading the target's config: {heads.why}", f"no_{key}")
    return None if st.session_state.get(key) or st.query_params.get(key) == "true" else ()


def _refused(label: str, why: str, key: str) -> tuple[AnyPolicy, ...]:
    """A way that cannot be chosen, with the reason below it."""
    st.checkbox(label, value=False, disabled=True, key=key)
    look.note(look.plain(why))
    return ()
