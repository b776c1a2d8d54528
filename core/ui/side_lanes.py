"""The settings of the assisted columns: policy, draft length, confidence threshold, another draft, and what each means before it is run."""

from collections.abc import Sequence

import streamlit as st

from core import demo
from core.address import address, resolve
from core.candidates import Setting, gather
from core.errors import InvalidInput
from core.measured import AnyPolicy
from core.policies import Confidence, Drafting, FixedGamma, Heuristic, Policy, PromptLookup, TransformersDefault, describe
from core.runs import Lane, ModelRef
from core.side_ask import fit
from core.ui import look
from core.ui.desk import planner, settings
from core.vocab import VocabVerdict

LOOK_AGAIN_S = 1.0
RECOMMENDED, DEFAULT, FIXED, UNSURE, MOVING = "recommended", "default", "fixed", "confidence", "heuristic"
KINDS = {
    DEFAULT: "The library's default: up to 20, stop below 0.4",
    FIXED: "Fixed gamma",
    UNSURE: "Up to gamma, stop when unsure",
    MOVING: "Heuristic: longer when right, shorter when wrong",
}
GAMMA_HELP = "Draft length: the most tokens that are proposed in a round."
THRESHOLD_HELP = "Drafting stops after a token that the draft gives less than this probability. 0 never stops."
WEIGHT_HELP = "Transformers' assistant_ensemble_weight: the draft has a say in the text, which is then not the target's own. 0 leaves it off."
MOST_GAMMA = 100
ASSISTED_KEY = "side_policy_assisted"


def assisted(recommended: Policy | None, target: ModelRef | None, draft: ModelRef | None, *, sample: bool) -> Lane | None:
    """The second column: the pair's draft, with the recommended policy first where there is one. None while it cannot be run.

    sample: whether tokens are drawn.
    """
    options = ([RECOMMENDED] if isinstance(recommended, Drafting) else []) + list(KINDS)
    policy = _policy("assisted", options, recommended)
    weight = _weight()
    if policy is None or not _usable(target, draft, sample=sample, weighted=weight is not None):
        return None
    return Lane(policy=policy, ensemble_weight=weight)


def put(lanes: Sequence[Lane]) -> None:
    """Put the assisted columns of a run into the form; for callbacks. What the fields cannot hold stays the library's default."""
    state = st.session_state
    second, *more = lanes
    _put_policy("assisted", second.policy)
    state["side_weight"] = second.ensemble_weight or 0.0
    state["side_third"] = "none"
    for lane in more:
        if isinstance(lane.policy, PromptLookup):
            state["side_third"], state["side_lookup_tokens"], state["side_lookup_ngram"] = "lookup", lane.policy.tokens, lane.policy.ngram
            continue
        state["side_third"] = "draft" if lane.draft else "policy"
        state["side_other"] = address(lane.draft) if lane.draft else None
        _put_policy("third", lane.policy)


def _put_policy(name: str, policy: AnyPolicy) -> None:
    state = st.session_state
    if not isinstance(policy, Drafting) or policy == TransformersDefault():
        state[f"side_policy_{name}"] = DEFAULT
        return
    kind = FIXED if policy == FixedGamma(policy.limit) else UNSURE if policy.schedule == "constant" else MOVING
    state[f"side_policy_{name}"] = kind
    state[f"side_gamma_{name}"] = policy.limit
    state[f"side_threshold_{name}_{kind}"] = policy.threshold


def third(offered: Sequence[str], target: ModelRef | None, draft: ModelRef | None, *, sample: bool) -> tuple[Lane, ...] | None:
    """The optional third column: none, another policy, another draft, or prompt lookup. None while it cannot be run."""
    kinds = {"none": "No third column", "policy": "Another policy", "draft": "Another draft", "lookup": "Prompt lookup"}
    kind = st.selectbox("Third column", list(kinds), format_func=kinds.__getitem__, key="side_third", bind="query-params", persist_state="session")
    match kind:
        case "policy":
            policy = _policy("third", list(KINDS), None)
            return None if policy is None else (Lane(policy=policy),)
        case "draft":
            return _other_draft(offered, target, draft, sample=sample)
        case "lookup":
            st.session_state.setdefault("side_lookup_tokens", 10)
            st.session_state.setdefault("side_lookup_ngram", 2)
            with st.container(horizontal=True):
                most = st.number_input("Tokens copied at most", 1, MOST_GAMMA, key="side_lookup_tokens", bind="query-params", persist_state="session")
                ngram = st.number_input(
                    "N-gram", 1, 10, key="side_lookup_ngram", bind="query-params", persist_state="session", help="How many last tokens must match."
                )
            return (Lane(policy=PromptLookup(int(most), int(ngram))),)
        case _:
            return ()


def _other_draft(offered: Sequence[str], target: ModelRef | None, draft: ModelRef | None, *, sample: bool) -> tuple[Lane, ...] | None:
    typed = st.selectbox(
        "Other draft",
        offered,
        index=None,
        accept_new_options=True,
        key="side_other",
        bind="query-params",
        persist_state="session",
        placeholder="Choose or type a model",
    )
    policy = _policy("third", list(KINDS), None)
    if not typed or not typed.strip():
        look.note("Choose the draft of the third column.")
        return None
    try:
        other = resolve(typed.strip(), settings())
    except InvalidInput as error:
        st.error(look.plain(str(error)), icon=":material/error:")
        return None
    if policy is None or not _usable(target, other, sample=sample):
        return None
    return (Lane(policy=policy, draft=None if other == draft else other),)


def _policy(name: str, options: Sequence[str], recommended: Policy | None) -> Policy | None:
    words = KINDS | ({RECOMMENDED: f"Recommended: {describe(recommended)}"} if recommended else {})
    kind = st.selectbox(
        "Policy", list(options), format_func=words.__getitem__, key=f"side_policy_{name}", bind="query-params", persist_state="session"
    )
    if kind == RECOMMENDED:
        return recommended
    if kind == DEFAULT:
        return TransformersDefault()
    with st.container(horizontal=True):
        st.session_state.setdefault(f"side_gamma_{name}", 4)
        gamma = st.number_input("Gamma", 1, MOST_GAMMA, key=f"side_gamma_{name}", bind="query-params", persist_state="session", help=GAMMA_HELP)
        if kind == FIXED:
            return FixedGamma(int(gamma))
        key = f"side_threshold_{name}_{kind}"
        st.session_state.setdefault(key, 0.4 if kind == UNSURE else 0.0)
        threshold = st.number_input(
            "Confidence threshold", 0.0, 1.0, step=0.1, key=key, bind="query-params", persist_state="session", help=THRESHOLD_HELP
        )
    if kind == UNSURE:
        return Confidence(float(threshold), int(gamma))
    return Heuristic(int(gamma), persistent=False, threshold=float(threshold))


def _weight() -> float | None:
    with st.expander("Lossy option: let the draft change the text"):
        st.session_state.setdefault("side_weight", 0.0)
        weight = st.number_input(
            "Ensemble weight", 0.0, 0.99, step=0.1, key="side_weight", bind="query-params", persist_state="session", help=WEIGHT_HELP
        )
        if weight:
            st.markdown(":orange-badge[:material/blur_on: lossy] :small[The answer will not be the target's own.]")
    return float(weight) or None


def _usable(target: ModelRef | None, draft: ModelRef | None, *, sample: bool, weighted: bool = False) -> bool:
    """Whether this draft can work for this target, said in a sentence where it is not simply yes."""
    if target is None or draft is None:
        return False
    verdict = _verdict(target, draft)
    if isinstance(verdict, VocabVerdict):
        found = fit(verdict, sample=sample, weighted=weighted)
        if found.kind == "refused":
            st.error(look.plain(found.sentence), icon=":material/error:")
        elif found.kind == "translated":
            st.markdown(f":orange-badge[:material/translate: re-encoded] :small[{look.plain(found.sentence)}]")
        elif verdict.kind != "identical":
            look.note(look.plain(found.sentence))
        return found.kind != "refused"
    if verdict is None:
        return True
    if verdict:
        st.error(look.plain(verdict), icon=":material/error:")
        return False
    look.note(":material/hourglass_empty: Comparing both vocabularies ...")
    st.fragment(_look_again, run_every=LOOK_AGAIN_S)(target, draft)
    return False


def _look_again(target: ModelRef, draft: ModelRef) -> None:
    """Nothing to see; starts the page over when the answer is there."""
    if _verdict(target, draft) != "":
        st.rerun()


def _verdict(target: ModelRef, draft: ModelRef) -> VocabVerdict | str | None:
    """How the vocabularies compare; a sentence where they cannot be, "" while that is not known. None for the bundled pair: it fits."""
    if (target, draft) == (demo.TARGET, demo.DRAFT):
        return None
    view = gather(planner().ask, address(target), [address(draft)], Setting())
    refusal = view.target.refusal or view.drafts[0].model.refusal
    return refusal or view.drafts[0].verdict_value or view.target.problem or view.drafts[0].problem
