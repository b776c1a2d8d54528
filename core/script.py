"""A whole script for one pair, to be copied and run as it is: both models, the draft's settings, the decoding, one answer.

Written for Transformers 5.24 and free of it here: only text is made. What a measurement sets aside is set aside in the
script too, so that its rounds are those that were measured. Every name and value stands in it as a Python literal, so that
no name becomes code. Not covered: pairs whose vocabularies differ, other engines (`core.deploy`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath

from core.decoding import Decoding
from core.measured import Dtype
from core.policies import Drafting, Plain, Policy, PromptLookup, describe, to_transformers
from core.runs import ModelRef, Placement

GREEDY = Decoding()
USUAL = Placement()
EXAMPLE = "def add(a, b):"
WARPERS = {"temperature": "TemperatureLogitsWarper", "top_k": "TopKLogitsWarper", "top_p": "TopPLogitsWarper"}


@dataclass(frozen=True)
class Service:
    """What a script serves, and how: models by their folder, GGUF file or Hub id at its revision.

    dtype: None for the files' own; device: "" for where the library puts a model. static_cache: plain decoding compiled over a
    static cache. placement: as of a run; in fewer bits only with a dtype and a device. stop: strings that end an answer.
    encoder_decoder: whether an encoder reads the prompt.
    """

    target: ModelRef
    draft: ModelRef
    policy: Policy
    decoding: Decoding = GREEDY
    dtype: Dtype | None = None
    device: str = ""
    chat_template: bool = False
    stop: tuple[str, ...] = ()
    max_new_tokens: int = 40
    static_cache: bool = False
    placement: Placement = USUAL
    encoder_decoder: bool = False

    @property
    def loader(self) -> str:
        """The library's class that loads both models."""
        return "AutoModelForSeq2SeqLM" if self.encoder_decoder else "AutoModelForCausalLM"


def script(service: Service) -> str:
    """Python that loads the models, writes one answer to a prompt from its command line, and prints it.

    Beside that it leaves `target`, `draft` where one is used, `inputs_for(prompt)` and `options` for `target.generate`.
    Raises InvalidInput for the oracle, which cannot be run.
    """
    parts = [_imports(service), _models(service), _defaults(service), _draft_settings(service), _inputs(service), _options(service), _answer(service)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _imports(service: Service) -> str:
    sampling = service.decoding
    names = [service.loader, "AutoTokenizer", "GenerationConfig"]
    if service.placement.quantization:
        names.append("BitsAndBytesConfig")
    if sampling.sample and sampling.warpers_once:
        names += ["LogitsProcessorList", *(WARPERS[name] for name in _used(sampling))]
    lines = [f"# {describe(service.policy).capitalize()}. For Transformers 5.24; run it with a prompt: python script.py PROMPT"]
    if _has_own_temperature(service):
        lines.append("import copy")
    lines += [
        "import sys",
        "",
        *(["import torch"] if service.dtype or service.encoder_decoder else []),
        f"from transformers import {', '.join(sorted(names))}",
    ]
    return "\n".join(lines)


def _models(service: Service) -> str:
    dtype, how = 'dtype="auto"' if service.dtype is None else f"dtype=torch.{service.dtype}", service.placement
    device = f".to({_quoted(service.device)})" if service.device else ""
    moved = "" if how.spread or how.quantization else device
    lines = [
        f"tokenizer = AutoTokenizer.from_pretrained({_place(service.target)})",
        f"target = {service.loader}.from_pretrained({', '.join([_place(service.target), dtype, *_kept(service)])}){moved}.eval()",
    ]
    if isinstance(service.policy, Drafting):
        beside = f".to({_quoted(how.draft_device)})" if how.draft_device else ".to(target.device)" if how.spread else device or ".to(target.device)"
        told = ", ".join([_place(service.draft), dtype, *_attention(service)])
        lines.append(f"draft = {service.loader}.from_pretrained({told}){beside}.eval()")
    return "\n".join(lines)


def _kept(service: Service) -> list[str]:
    """How the target's weights are kept and spread, as the worker has it."""
    how = service.placement
    fewer = {
        "": [],
        "8bit": ["quantization_config=BitsAndBytesConfig(load_in_8bit=True)"],
        "4bit": [
            f'quantization_config=BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=torch.{service.dtype})'
        ],
    }
    spread = ['device_map="auto"'] if how.spread else [f'device_map={{"": {_quoted(service.device)}}}'] if how.quantization else []
    return [*_attention(service), *fewer[how.quantization], *spread]


def _attention(service: Service) -> list[str]:
    return [f"attn_implementation={_quoted(service.placement.attention)}"] if service.placement.attention else []


def _place(ref: ModelRef) -> str:
    """As Python literals, whatever the names hold."""
    if ref.source == "gguf":
        file = PurePath(ref.path)
        return f"{_quoted(str(file.parent))}, gguf_file={_quoted(file.name)}"
    return f"{_quoted(ref.path)}, revision={_quoted(ref.revision)}" if ref.revision else _quoted(ref.path)


def _quoted(value: object) -> str:
    """A Python literal, text in double quotes unless it holds some."""
    literal = repr(value)
    return f'"{literal[1:-1]}"' if literal.startswith("'") and '"' not in literal else literal


def _listed(texts: Sequence[str]) -> str:
    return f"[{', '.join(map(_quoted, texts))}]"


def _defaults(service: Service) -> str:
    both, whose = ("(target, draft)", ", the draft's too") if isinstance(service.policy, Drafting) else ("(target,)", "")
    kept = "the end of text and the decoder's first tokens are" if service.encoder_decoder else "the end of text is"
    own = ", decoder_start_token_id=start[0], bad_words_ids=never" if service.encoder_decoder else ""
    return "\n".join(
        [
            f"# A model's own defaults (temperature, penalties, suppressed tokens) are set aside{whose}: only {kept} kept.",
            "end = target.generation_config.eos_token_id",
            "end = tokenizer.eos_token_id if end is None else end",
            "ends = [] if end is None else [end] if isinstance(end, int) else list(end)",
            *(_FIRST_TOKENS if service.encoder_decoder else ()),
            f"for model in {both}:",
            f"    model.generation_config = GenerationConfig(eos_token_id=ends or None, pad_token_id=ends[0] if ends else None{own})",
        ]
    )


_FIRST_TOKENS = (
    "own = target.generation_config",
    "start = [own.bos_token_id if own.decoder_start_token_id is None else own.decoder_start_token_id]",
    "start += [] if own.forced_bos_token_id is None else [own.forced_bos_token_id]",
    "never = [word for word in own.bad_words_ids or [] if len(word) == 1] or None",
)
_DECODER_MASK = (
    "    # Without a mask of the decoder's own, Transformers 5.24 hands the draft its text twice from the second round on: little is accepted then.",
    '    inputs["decoder_attention_mask"] = torch.ones_like(inputs["decoder_input_ids"])',
)


def _draft_settings(service: Service) -> str:
    if not isinstance(service.policy, Drafting):
        return ""
    settings = to_transformers(service.policy).items()
    lines = ["# The library reads these from the draft alone; as arguments of generate they are ignored without a word."]
    lines += [f"draft.generation_config.{name} = {_quoted(value)}" for name, value in settings]
    return "\n".join([*lines, *(_own_temperature(service.decoding) if _has_own_temperature(service) else [])])


def _has_own_temperature(service: Service) -> bool:
    return isinstance(service.policy, Drafting) and service.decoding.sample and service.decoding.draft_temperature is not None


def _own_temperature(decoding: Decoding) -> list[str]:
    return [
        "",
        "# The library has no setting for a temperature of the draft's own, so the draft builds its processors here.",
        "build = draft._get_logits_processor",
        "",
        "",
        "def own_processors(generation_config, **rest):",
        "    own = copy.copy(generation_config)",
        f"    own.temperature, own.top_k, own.top_p = {decoding.draft_temperature!r}, {decoding.top_k!r}, {decoding.top_p!r}",
        '    return build(generation_config=own, **{**rest, "logits_processor": None})',
        "",
        "",
        "draft._get_logits_processor = own_processors",
    ]


def _inputs(service: Service) -> str:
    lines = ["", "def inputs_for(prompt):"]
    how = "prompt"
    if service.chat_template:
        lines += [
            '    turn = [{"role": "user", "content": prompt}]',
            "    text = tokenizer.apply_chat_template(turn, tokenize=False, add_generation_prompt=True)",
        ]
        how = "text, add_special_tokens=False"
    call = f'tokenizer({how}, return_tensors="pt", return_token_type_ids=False).to(target.device)'
    if not service.encoder_decoder:
        return "\n".join([*lines, f"    return {call}", ""])
    lines += [f"    inputs = {call}", '    inputs["decoder_input_ids"] = torch.tensor([start], device=target.device)']
    return "\n".join([*lines, *(_DECODER_MASK if isinstance(service.policy, Drafting) else ()), "    return inputs", ""])


def _used(decoding: Decoding) -> list[str]:
    """The warpers that do something, in the order in which the library applies them."""
    off = {"temperature": 1.0, "top_k": 0, "top_p": 1.0}
    return [name for name in WARPERS if getattr(decoding, name) != off[name]]


def _options(service: Service) -> str:
    """Everything explicit, because the library's own top_k is 50."""
    decoding, policy = service.decoding, service.policy
    options: dict[str, str] = {"max_new_tokens": repr(service.max_new_tokens), "do_sample": repr(decoding.sample)}
    if decoding.sample:
        once = decoding.warpers_once
        options |= {
            "temperature": repr(1.0 if once else decoding.temperature),
            "top_k": repr(0 if once else decoding.top_k),
            "top_p": repr(1.0 if once else decoding.top_p),
        }
        if once:
            warpers = ", ".join(f"{WARPERS[name]}({getattr(decoding, name)!r})" for name in _used(decoding))
            options["logits_processor"] = f"LogitsProcessorList([{warpers}])"
    options["repetition_penalty"] = repr(decoding.repetition_penalty)
    if isinstance(policy, Drafting):
        options["assistant_model"] = "draft"
    elif isinstance(policy, PromptLookup):
        options |= {name: repr(value) for name, value in to_transformers(policy).items()}
    elif service.static_cache:
        options["cache_implementation"] = _quoted("static")
    if service.stop and isinstance(policy, Plain):
        options |= {"stop_strings": _listed(service.stop), "tokenizer": "tokenizer"}
    note = "# Processors given from outside act once on the draft; temperature, top-k and top-p as settings would act twice.\n"
    lines = [f'    "{name}": {value},' for name, value in options.items()]
    return (note if "logits_processor" in options else "") + "\n".join(["options = {", *lines, "}"])


def _answer(service: Service) -> str:
    known = "len(start)" if service.encoder_decoder else 'inputs["input_ids"].shape[1]'
    lines = [
        f"inputs = inputs_for(sys.argv[1] if len(sys.argv) > 1 else {_quoted(EXAMPLE)})",
        "output = target.generate(**inputs, **options)",
        f"text = tokenizer.decode(output[0, {known} :], skip_special_tokens=True)",
    ]
    if service.stop and not isinstance(service.policy, Plain):
        lines += [
            "# The library cannot stop at a string while it drafts: the answer is written to its end, and cut here.",
            f"for stop in {_listed(service.stop)}:",
            "    text = text.split(stop)[0]",
        ]
    return "\n".join([*lines, "print(text)"])
