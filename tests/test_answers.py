"""Answers written in batches are those that the target writes alone; kept ones are not written twice; memory that does not suffice."""

import dataclasses

import pytest
import torch

from core import demo
from core.decoding import Decoding
from core.errors import DeviceError, ModelError
from core.policies import Plain
from core.runs import Message, Prompt, RunSpec
from core.worker import batch
from core.worker.answers import Answers
from core.worker.batch import write
from core.worker.generate import run_policy
from core.worker.inputs import encode_prompts
from core.worker.models import Place
from tests.models import spec_of, write_pair
from tests.pairs import load_pair

TOKENS = 24
GREEDY, SAMPLED = Decoding(), Decoding(sample=True, temperature=0.8, top_p=0.9)
PLACE = Place(demo.FOLDER / "target", files="1")


@pytest.fixture(scope="module")
def pair():
    torch.set_num_threads(1)
    return load_pair(spec())


def spec(prompts=6, **changes):
    whole = RunSpec(target=demo.TARGET, draft=demo.DRAFT, prompts=demo.prompts()[:prompts], max_new_tokens=TOKENS)
    return whole.model_copy(update=changes)


@pytest.fixture(scope="module")
def prompts(pair):
    """Of six different lengths."""
    whole = encode_prompts(pair, spec())
    return [prompt[:, : prompt.shape[1] - 9 * at] for at, prompt in enumerate(whole)]


def written(pair, prompts, decoding, seed=0):
    found = dict(write(pair, prompts, TOKENS, decoding, seed))
    return [found[at] for at in range(len(prompts))]


@pytest.fixture(scope="module")
def greedy(pair, prompts):
    """All of them, written in one batch."""
    return written(pair, prompts, GREEDY)


@pytest.mark.parametrize("decoding", [GREEDY, Decoding(repetition_penalty=1.3)], ids=["greedy", "penalty"])
def test_a_batch_writes_in_float32_what_the_target_writes_alone(pair, prompts, decoding):
    together = written(pair, prompts, decoding)
    assert {each.batch for each in together} == {6}
    for prompt, answer in zip(prompts, together, strict=True):
        assert answer.tokens.tolist() == run_policy(pair, prompt, Plain(), TOKENS, decoding).tokens.tolist()
        assert answer.p is None


def test_answers_end_with_their_first_end_of_text(pair, prompts, greedy):
    """Such a token is made the end that rows end at most different places, and go on with padding in the batch."""
    before_end = [each.tokens.tolist() for each in greedy]
    end = max({token for row in before_end for token in row}, key=lambda token: len({row.index(token) for row in before_end if token in row}))
    ended = dataclasses.replace(pair, eos_ids=(end,))
    before = pair.target.generation_config
    pair.target.generation_config = type(before)(eos_token_id=list(ended.eos_ids), pad_token_id=0)
    try:
        together = written(ended, prompts, GREEDY)
        alone = [run_policy(ended, prompt, Plain(), TOKENS).tokens for prompt in prompts]
    finally:
        pair.target.generation_config = before
    assert [each.tokens.tolist() for each in together] == [each.tolist() for each in alone]
    assert [len(each.tokens) for each in together] == [row.index(end) + 1 if end in row else TOKENS for row in before_end]
    assert len({len(each.tokens) for each in together}) > 2


def test_sampled_answers_repeat_with_their_seed_and_keep_the_p_they_were_drawn_with(pair, prompts):
    first, again, other = (written(pair, prompts, SAMPLED, seed) for seed in (1, 1, 2))
    assert [each.tokens.tolist() for each in first] == [each.tokens.tolist() for each in again]
    assert [each.tokens.tolist() for each in first] != [each.tokens.tolist() for each in other]
    for prompt, answer in zip(prompts, first, strict=True):
        text = torch.cat([prompt, torch.from_numpy(answer.tokens).long()[None]], dim=1)
        with torch.no_grad():
            logits = pair.target(input_ids=text).logits[0, prompt.shape[1] - 1 : -1] / SAMPLED.temperature
        everything = logits.softmax(-1).gather(1, text[0, prompt.shape[1] :, None])[:, 0].numpy()
        assert answer.p is not None
        assert answer.p.shape == answer.tokens.shape
        assert (answer.p >= everything - 1e-5).all()  # a nucleus of 0.9 makes what is left more probable, by 1 / 0.9 at most
        assert (answer.p <= everything / 0.9 + 1e-5).all()


def test_a_batch_that_does_not_fit_is_halved_and_nothing_is_written_twice(pair, prompts, greedy, monkeypatch):
    real, sizes = batch._write, []

    def small_memory(pair, chosen, *rest):
        sizes.append(len(chosen))
        if len(chosen) > 2:
            raise RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 bytes.")
        return real(pair, chosen, *rest)

    monkeypatch.setattr(batch, "_write", small_memory)
    assert [each.tokens.tolist() for each in written(pair, prompts, GREEDY)] == [each.tokens.tolist() for each in greedy]
    assert sizes == [6, 3, 1, 1, 1, 1, 1, 1]


def test_a_prompt_that_does_not_fit_alone_is_named_and_other_errors_are_not_hidden(pair, prompts, monkeypatch):
    def none(*_given):
        raise torch.OutOfMemoryError("no")

    monkeypatch.setattr(batch, "_write", none)
    with pytest.raises(DeviceError, match=rf"Not even one prompt of {min(p.shape[1] for p in prompts)} tokens"):
        written(pair, prompts, GREEDY)

    def broken(*_given):
        raise RuntimeError("something else")

    monkeypatch.setattr(batch, "_write", broken)
    with pytest.raises(RuntimeError, match="something else"):
        written(pair, prompts, GREEDY)


def test_scores_that_are_no_numbers_are_named(tmp_path):
    pair = load_pair(spec_of(write_pair(tmp_path)))
    with torch.no_grad():
        pair.target.lm_head.weight[3] = torch.nan
    with pytest.raises(ModelError, match=r"The target target gives scores that are not numbers \(NaN\)"):
        written(pair, [torch.tensor([[5, 6, 7]])], GREEDY)


def answers(kept, pair, prompts, **changes):
    found = dict(kept.of(spec(**changes), pair, PLACE, prompts))
    assert sorted(found) == list(range(len(prompts)))
    return [found[at] for at in range(len(prompts))]


def test_only_what_is_new_is_written(pair, prompts):
    kept = Answers()
    first = answers(kept, pair, prompts[:3])
    more = answers(kept, pair, prompts[1:5])
    assert [each.reused for each in first] == [False] * 3
    assert [each.reused for each in more] == [True, True, False, False]
    assert [each.tokens.tolist() for each in more[:2]] == [each.tokens.tolist() for each in first[1:]]
    assert {each.batch for each in more[2:]} == {2}


@pytest.mark.parametrize(
    ("changes", "reused"),
    [
        ({"draft": demo.TARGET, "group": "other", "stop": ("x",), "confirm_s": 1.0}, True),
        ({"decoding": Decoding(warpers_once=True)}, True),
        ({"decoding": Decoding(repetition_penalty=1.1)}, False),
        ({"seed": 1}, False),
        ({"dtype": "bfloat16"}, False),
    ],
)
def test_an_answer_depends_on_the_target_and_not_on_the_draft(pair, prompts, changes, reused):
    kept = Answers()
    answers(kept, pair, prompts[:1])
    assert answers(kept, pair, prompts[:1], **changes)[0].reused is reused


def test_files_written_anew_are_another_target(pair, prompts):
    kept = Answers()
    answers(kept, pair, prompts[:1])
    [(_, again)] = kept.of(spec(), pair, dataclasses.replace(PLACE, files="2"), prompts[:1])
    assert not again.reused


def test_the_oldest_answers_make_room(pair, prompts):
    kept = Answers(most_tokens=2 * TOKENS)
    for at in (0, 1, 2):
        answers(kept, pair, prompts[at : at + 1])
    assert [answers(kept, pair, prompts[at : at + 1])[0].reused for at in (2, 1, 0)] == [True, True, False]


def test_prompts_go_through_the_chat_template_when_asked(tmp_path):
    from transformers import AutoTokenizer

    refs = write_pair(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(refs[0].path)
    tokenizer.chat_template = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}{% if add_generation_prompt %}<answer>{% endif %}"
    tokenizer.save_pretrained(refs[0].path)
    one = spec_of(refs, 1)
    turns = (Message(role="system", content="be brief"), Message(role="user", content="hello"))
    asked = one.model_copy(update={"chat_template": True, "prompts": (Prompt(text="hello"), Prompt(text="hello", messages=turns))})
    pair = load_pair(asked)
    plain, alone, conversation = (pair.tokenizer.decode(ids[0]) for ids in [*encode_prompts(pair, one), *encode_prompts(pair, asked)])
    assert plain == one.prompts[0].text
    assert alone == "<user>hello<answer>"
    assert conversation == "<system>be brief<user>hello<answer>"
