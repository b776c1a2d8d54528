"""The replay against the unmodified library, round by round, on small random models in fp32.

The draft is the target with noise on its weights, so that about half of its tokens are right; the
tails are rolled out here with the library's own generate.
"""

import numpy as np
import pytest
import torch
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM
from transformers.generation.streamers import BaseStreamer

from core.policies import Confidence, Drafting, FixedGamma, Heuristic, PromptLookup, TransformersDefault, to_transformers
from core.replay import carried_limit, rounds_of
from core.trace import LONGEST_TAIL, Lookup, PromptTrace, Tails

VOCABULARY, BUDGET, PROMPT = 48, 40, 9


class Sizes(BaseStreamer):
    """How many tokens each round put out, and how many passes of the draft came before it."""

    def __init__(self, draft):
        self.sizes, self.drafted, self.passes = [], [], 0
        self.hook = draft.register_forward_hook(self.count)

    def count(self, *_):
        self.passes += 1

    def put(self, value):
        self.sizes.append(value.numel())
        self.drafted.append(self.passes)
        self.passes = 0

    def end(self):
        pass


@pytest.fixture(scope="module")
def pair():
    torch.set_num_threads(1)
    torch.manual_seed(3)
    shape = LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=2, initializer_range=0.35
    )
    target, draft = LlamaForCausalLM(shape).eval(), LlamaForCausalLM(shape).eval()
    draft.load_state_dict(target.state_dict())
    with torch.no_grad():
        for weight in draft.parameters():
            weight.add_(torch.randn_like(weight) * 0.05)
    return target, draft


def config(eos):
    return GenerationConfig(max_new_tokens=BUDGET, do_sample=False, eos_token_id=eos, pad_token_id=VOCABULARY - 1)


def prompt(seed):
    return torch.randint(0, VOCABULARY - 2, (1, PROMPT), generator=torch.Generator().manual_seed(seed))


def generate(pair, ids, eos, **more):
    """The answer, and the tokens and the draft's passes of each round (the streamer's first call is the prompt)."""
    streamer = Sizes(pair[1])
    try:
        out = pair[0].generate(ids, attention_mask=torch.ones_like(ids), generation_config=config(eos), streamer=streamer, **more)
    finally:
        streamer.hook.remove()
    return out[0, ids.shape[1] :], streamer.sizes[1:], streamer.drafted[1:]


@torch.no_grad()
def record(pair, ids, eos):
    draft = pair[1]
    answer = generate(pair, ids, eos)[0]
    text = torch.cat([ids[0], answer])
    chances = draft(text[None]).logits[0, PROMPT - 1 : -1].float().softmax(-1)
    choice = chances.argmax(-1)
    wrong = (choice != answer).nonzero()[:, 0].tolist()
    tails = [roll_out(draft, text[: PROMPT + at], choice[at], eos) for at in wrong]
    return PromptTrace(
        prompt_tokens=PROMPT,
        answer=answer.numpy().astype(np.int32),
        pieces=("",) * len(answer),
        ended="eos" if answer[-1] == eos else "length",
        budget=BUDGET,
        accept=(choice == answer).numpy().astype(np.float32),
        confidence=chances.max(-1).values.numpy(),
        draft_choice=choice.numpy().astype(np.int32),
        draft_eos=(choice == eos).numpy(),
        tails=Tails(
            np.array(wrong, np.int32),
            np.array([row for row, _ in tails], np.float32).reshape(len(wrong), LONGEST_TAIL),
            np.array([end for _, end in tails], np.int16),
        ),
        lookup={n: look_up(text.tolist(), answer.tolist(), n, eos) for n in (1, 2, 3)},
    )


def roll_out(draft, text, token, eos):
    text = torch.cat([text, token[None]])
    row, end = [float("nan")] * LONGEST_TAIL, -1
    if token == eos:
        return row, end
    for column in range(LONGEST_TAIL):
        chances = draft(text[None]).logits[0, -1].float().softmax(-1)
        row[column] = chances.max().item()
        text = torch.cat([text, chances.argmax()[None]])
        if text[-1] == eos:
            return row, column
    return row, end


def look_up(text, answer, ngram, eos):
    """Larger n-gram first, leftmost match, cut before the end of text."""
    candidates, matched = [], []
    for at in range(len(answer)):
        seen = text[: PROMPT + at]
        found = first_match(seen, ngram)
        found = found[: found.index(eos)] if eos in found else found
        candidates.append(len(found))
        same = [a == b for a, b in zip(found, answer[at:], strict=False)]
        matched.append([*same, False].index(False))
    return Lookup(np.array(candidates, np.int16), np.array(matched, np.int16))


def first_match(seen, ngram):
    for size in range(min(ngram, len(seen) - 1), 0, -1):
        for at in range(len(seen) - size):
            if seen[at : at + size] == seen[-size:]:
                return seen[at + size : at + size + LONGEST_TAIL]
    return []


def end_of_text(pair, ids):
    """A token that the target writes in the middle of its answer, taken as the end of text."""
    answer = generate(pair, ids, VOCABULARY - 1)[0].tolist()
    late = [token for at, token in enumerate(answer) if at > 12 and token not in answer[:at]]
    return late[0] if late else VOCABULARY - 1


@pytest.fixture(scope="module")
def recorded(pair):
    """Prompts whose answers end by length, and by an end of text: (ids, eos, trace)."""
    rows = []
    for seed in range(4):
        ids = prompt(seed)
        eos = VOCABULARY - 1 if seed < 2 else end_of_text(pair, ids)
        rows.append((ids, eos, record(pair, ids, eos)))
    return rows


def test_the_texts_are_worth_testing(recorded):
    traces = [trace for _, _, trace in recorded]
    assert {trace.ended for trace in traces} == {"length", "eos"}
    assert 0.2 < np.mean(np.concatenate([trace.accept for trace in traces])) < 0.95


def configure(draft, policy):
    for name, value in to_transformers(policy).items():
        setattr(draft.generation_config, name, value)


DRAFTING = [
    *(FixedGamma(g) for g in (1, 2, 3, 5, 8, 12, 20)),
    *(Confidence(t) for t in (0.2, 0.6)),
    TransformersDefault(),
    *(Heuristic(start, persistent, threshold) for start in (5, 20) for persistent in (True, False) for threshold in (0.0, 0.4)),
]


@pytest.mark.parametrize("policy", DRAFTING, ids=str)
def test_drafting_equals_generate_round_by_round(pair, recorded, policy: Drafting):
    """Over consecutive calls: tokens of each round, drafted tokens, and the limit carried on."""
    configure(pair[1], policy)
    carried = None
    for ids, eos, trace in recorded:
        answer, sizes, passes = generate(pair, ids, eos, assistant_model=pair[1])
        assert answer.tolist() == trace.answer.tolist()
        rounds = rounds_of(trace, policy, start=carried)
        assert [r.emitted for r in rounds] == sizes
        assert [r.drafted for r in rounds] == [r.drafted_low for r in rounds] == passes
        carried = carried_limit(trace, policy, start=carried)
        assert pair[1].generation_config.num_assistant_tokens == carried


@pytest.mark.parametrize("policy", [PromptLookup(n, g) for n in (2, 5, 10, 20) for g in (1, 2, 3)], ids=str)
def test_prompt_lookup_equals_generate_round_by_round(pair, recorded, policy):
    for ids, eos, trace in recorded:
        widths = []
        hook = pair[0].register_forward_pre_hook(lambda _, __, given, seen=widths: seen.append(given["input_ids"].shape[1]), with_kwargs=True)
        try:
            answer, sizes, _ = generate(pair, ids, eos, **to_transformers(policy))
        finally:
            hook.remove()
        assert answer.tolist() == trace.answer.tolist()
        rounds = rounds_of(trace, policy)
        assert [r.emitted for r in rounds] == sizes
        assert [r.drafted for r in rounds] == [widths[0] - PROMPT, *(width - 1 for width in widths[1:])]
