"""What must be said beside an engine's settings: what carries over from a run, what does not, and what each request must hold."""

import json
from dataclasses import dataclass
from typing import Literal

from core import numbers
from core.analysis import Analysis
from core.placement import exact, format_words
from core.policies import Drafting, FixedGamma, Plain, Policy, PromptLookup, describe, to_transformers
from core.runs import Run

Server = Literal["vLLM", "SGLang", "llama.cpp", "TGI"]
NO_TOP_K = {"vLLM": -1, "SGLang": -1, "llama.cpp": 0}
PENALTY = {"vLLM": "repetition_penalty", "SGLang": "repetition_penalty", "llama.cpp": "repeat_penalty"}


@dataclass(frozen=True)
class Situation:
    """A run and the policy that is to be deployed."""

    analysis: Analysis
    policy: Policy

    @property
    def run(self) -> Run:
        """The run that was measured."""
        return self.analysis.run

    @property
    def confirmed(self) -> bool:
        """Whether the policy was really run."""
        return isinstance(self.policy, Plain) or self.analysis.is_confirmed(self.policy)

    @property
    def encoder_decoder(self) -> bool:
        """Whether encoders read the prompts."""
        return self.run.environment is not None and self.run.environment.encoder_decoder

    @property
    def exact(self) -> bool:
        """Whether the policy is a fixed draft length, which every engine with a draft model can do."""
        return isinstance(self.policy, Drafting) and self.policy == FixedGamma(self.policy.limit)

    @property
    def fixed(self) -> int:
        """The draft length for an engine that has no other: the policy's own, or this run's best."""
        return self.policy.limit if self.exact and isinstance(self.policy, Drafting) else self.analysis.best_fixed

    @property
    def lookup_names(self) -> str:
        """The arguments of prompt lookup in Transformers."""
        return " and ".join(to_transformers(self.policy))

    @property
    def drafts_by_chance(self) -> bool:
        """Whether the draft was sampled here, which other engines do not do by themselves."""
        return isinstance(self.policy, Drafting) and self.run.spec.decoding.sample

    def fixed_words(self, engine: str) -> str:
        """What a fixed draft length stands for."""
        if self.exact:
            return f"Always {numbers.counted(self.fixed, 'token')} a round."
        known = self.analysis.known(FixedGamma(self.fixed))
        how = "measured" if self.analysis.is_confirmed(FixedGamma(self.fixed)) else "replayed"
        return (
            f"Always {numbers.counted(self.fixed, 'token')} a round: {engine} has no setting for {describe(self.policy)}, and this is the best "
            f"fixed length of the run, {numbers.ratio(known)} {how}."
        )


def carries_over(found: Situation, engine: Server) -> tuple[str, ...]:
    """Which of a run's numbers hold in another engine."""
    run, costs = found.run, found.analysis.costs
    where = run.environment
    on = f"Transformers {where.transformers} on {where.device_name}" if where else "Transformers"
    measured = f"c {numbers.cost(costs.c)} was measured in {on}, one request at a time"
    if isinstance(found.policy, Plain):
        return (f"{measured}. {engine} has other kernels and a loop of its own: a draft that does not pay here may pay there: measure it once.",)
    note = f"{measured}. {engine} has other kernels, which change c, v and h, and so the speedup and the best length; batches do too."
    return (note,) if isinstance(found.policy, PromptLookup) else (note, _alpha(found, engine))


def _alpha(found: Situation, engine: Server) -> str:
    alpha, greedy = found.analysis.alpha, found.analysis.alpha_greedy_draft
    if greedy is None:
        return f"Acceptance carries over: expect an alpha of {_value(alpha.value, alpha.for_traffic)} for these prompts."
    return (
        f"{engine} by default drafts greedily whatever the temperature: expect an alpha of {_value(greedy.value, greedy.for_traffic)} there, "
        f"not the {alpha.value:.2f} of a draft that samples."
    )


def _value(value: float, bounds: tuple[float, float] | None) -> str:
    return f"{value:.2f} {numbers.interval(bounds)}".strip()


def request(found: Situation, engine: Literal["vLLM", "SGLang", "llama.cpp"]) -> str:
    """What each request must hold to be decoded as measured: engines have defaults of their own."""
    decoding = found.run.spec.decoding
    wanted: dict[str, float] = {"temperature": 0}
    if decoding.sample:
        wanted = {"temperature": decoding.temperature, "top_p": decoding.top_p, "top_k": decoding.top_k or NO_TOP_K[engine]}
        if engine == "llama.cpp":
            wanted["min_p"] = 0
    if decoding.repetition_penalty != 1:
        wanted[PENALTY[engine]] = decoding.repetition_penalty
    door = "/v1/chat/completions, which applies the chat template" if found.run.spec.chat_template else "/v1/completions, without a chat template"
    stop = f', and "stop": {json.dumps(found.run.spec.stop, ensure_ascii=False)}' if found.run.spec.stop else ""
    return f"Ask at {door}, with {json.dumps(wanted)}{stop} in each request: that is how it was measured."


def transformers_notes(found: Situation) -> tuple[str, ...]:
    """What must hold where the script runs, so that its rounds are those that were measured."""
    spec, where, policy = found.run.spec, found.run.environment, found.policy
    notes: list[str] = []
    if where:
        threads = f", with {numbers.counted(where.threads, 'thread')}" if spec.device == "cpu" else ""
        versions = f"Transformers {where.transformers}, torch {where.torch}"
        notes.append(f"Measured with {versions} on {where.device_name}{threads}; other versions may draft differently.")
    if isinstance(policy, Drafting) and policy.threshold:
        learns = where is not None and where.scikit_learn
        notes.append(
            "scikit-learn was installed, so the library adapted the threshold as it went; it needs it there too."
            if learns
            else "Keep scikit-learn out of that environment: with it the library adapts the threshold as it goes, and other rounds come out."
        )
    if not isinstance(policy, Plain):
        notes.append("The library drafts for one request at a time only; batches raise an error.")
        if spec.stop:
            notes.append("It cannot stop at a string while it drafts: the script cuts the answer afterwards, so the rest is computed in vain.")
        if spec.decoding.sample:
            notes.append("Sampled texts differ from call to call, with a draft and without; their distribution is the same.")
        elif not exact(spec):
            notes.append(
                f"In {format_words(spec)} a check and a single step round differently: a text may part from plain where two tokens nearly tie."
            )
    if spec.decoding.sample and spec.decoding.draft_temperature is not None and isinstance(policy, Drafting):
        notes.append("A temperature of the draft's own is no setting of the library: the script sets it in a part that a new version may change.")
    sources = {spec.target.source, spec.draft.source}
    if found.run.imported is not None and sources != {"hub"}:
        notes.append("Its folders are those of the machine where the pair was measured: put yours in their place.")
    elif "demo" in sources:
        notes.append("The demo pair lies in Draftgauge's own folder, so the script runs on this machine.")
    return (*notes, *_decoder_mask(found))


def _decoder_mask(found: Situation) -> tuple[str, ...]:
    if not found.encoder_decoder or not isinstance(found.policy, Drafting):
        return ()
    return ("Keep the decoder_attention_mask: without it the library's draft reads its text twice from the second round on.",)
