"""Whether two tokenizers number their tokens alike: the verdict on a target and a draft.

The draft's proposals reach the target as ids. Where the same id stands for different tokens the
library does not complain: the answer stays right, because the target decides, but almost nothing
is accepted. So the maps (token -> id) are compared, not only their sizes. Units: tokens and ids;
a vocabulary's `size` is the number of embedding rows that its config states.
The token-level intersection is counted as vLLM does at its start (vllm/v1/spec_decode/vocab_mapping.py, `VocabMapping`, read
2026-11-30; the algorithm is Timor et al. 2025, arXiv:2502.05202): strings that both maps hold once each one's space mark is written as
a space, at ids that both models have a row for; it states their share of each `vocab_size`. vLLM finds the mark by
tokenizing " a"; here it is read off the map, which may tell a handful of tokens otherwise. Not covered: which
engine takes which verdict (`core.engines`), and how tokenizers are read (`core.plan.vocabulary`).
"""

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from typing import Literal
from unicodedata import normalize

from core.record import Record

Kind = Literal["identical", "padded", "tail_differs", "few_differ", "same_size_different_map", "different"]
Likeness = Literal["same", "differs", "unknown"]
Names = dict[int, str]

FEW_SHARE_PERMILLE = 1
FEW_IDS = 256
MOST_UNLIKE_PERCENT = 1
"""Of the larger map, ids that differ or stand on one side alone: up to here they are added, reserved and padding tokens, as fine-tunes
have them. More is another vocabulary, of which a draft would have to write tokens that it was not trained on.
"""
SAMPLES = 256
"""Enough to hold every differing id of a `few_differ` verdict."""
LONGEST_SAMPLE = 60
BYTE_LEVEL_SPACE, METASPACE = "Ġ", "▁"
"""How byte-level and SentencePiece vocabularies write the space before a word."""
SPACES = frozenset({BYTE_LEVEL_SPACE, METASPACE, " "})
BYTES = frozenset({BYTE_LEVEL_SPACE, "<0x0A>"})
"""A token that every byte-level vocabulary has, and one of those that fall back to bytes: both can spell any text."""

WORDS: dict[Kind, str] = {
    "identical": "same tokens",
    "padded": "padded",
    "tail_differs": "tail differs",
    "few_differ": "few differ",
    "same_size_different_map": "same size, other tokens",
    "different": "different",
}


@dataclass(frozen=True)
class Vocabulary:
    """A tokenizer as far as pairs depend on it.

    tokens: token -> id, added tokens included; size: the config's vocab_size; special: ids by role ("eos_token": 2).
    added: special and added tokens. normaliser and pre_tokenizer: their settings as text, "" for none, None where the source
    does not say. chat_template: its text, "" for none.
    """

    tokens: Mapping[str, int]
    size: int
    special: Mapping[str, int] = field(default_factory=dict[str, int])
    added: frozenset[str] = frozenset()
    normaliser: str | None = None
    pre_tokenizer: str | None = None
    chat_template: str | None = None


class IdDifference(Record):
    """What one id stands for on each side; None where that side has no such id."""

    id: int
    target: str | None
    draft: str | None


class SpecialDifference(Record):
    """A role, such as eos_token, with different ids; None where a side has no such role."""

    role: str
    target: int | None
    draft: int | None


class VocabVerdict(Record):
    """How the draft's map compares with the target's.

    common_ids: ids that both maps use; different_ids: those of them that stand for different tokens; only_target_ids and
    only_draft_ids: ids of one map alone; tail_from: the first id that differs when nothing below it does, else None.
    differences: the first of all these ids in order, at most 256; example: one of them in words, "" without any.
    shared_tokens: strings that both know, under whatever id; translatable_tokens: the same with the space marks of the two
    families taken for one, as Transformers does between different tokenizers. intersection_tokens: what vLLM would draft from.
    foreign: no character of the one's own tokens occurs in the other's, and neither spells text byte by byte, so that no text can be written in both.
    beyond_target and beyond_draft: ids at or above that side's own vocab_size, which its model cannot embed.
    """

    kind: Kind
    target_size: int
    draft_size: int
    target_tokens: int
    draft_tokens: int
    common_ids: int
    different_ids: int
    only_target_ids: int
    only_draft_ids: int
    tail_from: int | None
    differences: tuple[IdDifference, ...]
    example: str
    shared_tokens: int
    translatable_tokens: int
    intersection_tokens: int
    beyond_target: int
    beyond_draft: int
    special: tuple[SpecialDifference, ...]
    normaliser: Likeness
    pre_tokenizer: Likeness
    chat_template: Likeness
    foreign: bool = False

    @property
    def native(self) -> bool:
        """Whether the pair may run natively in Transformers: equal sizes, and maps that agree where a draft proposes."""
        return self.target_size == self.draft_size and self.kind in ("identical", "tail_differs", "few_differ")

    @property
    def cut(self) -> str:
        """That rows of an embedding were cut off, and whose: far more tokens lack one than a few special ones could; "" where not."""
        sides = (("target", self.beyond_target, self.target_tokens), ("draft", self.beyond_draft, self.draft_tokens))
        for role, beyond, tokens in sides:
            if 100 * beyond > tokens:
                return (
                    f"{beyond:,} of the {tokens:,} tokens of the {role}'s tokenizer have no row in its embedding, which was pruned: the first text "
                    "that holds one would end the run. Choose the whole model."
                )
        return ""

    @property
    def hopeless(self) -> str:
        """That no proposal could ever be accepted, even as text, and why; "" where one could."""
        if not self.foreign:
            return ""
        return (
            "Both vocabularies have no character in common: the target has no tokens for anything that the draft writes, so it could never accept "
            "a proposal, and drafting would only cost time. Choose a draft of the same languages."
        )

    @property
    def mostly_other(self) -> bool:
        """Whether most common ids stand for other tokens, so that hardly any draft could be accepted."""
        return 2 * self.different_ids > self.common_ids

    @property
    def intersection_of_target(self) -> float:
        """Share of the target's embedding rows, 0..1."""
        return self.intersection_tokens / max(self.target_size, 1)

    @property
    def intersection_of_draft(self) -> float:
        """Share of the draft's embedding rows, 0..1."""
        return self.intersection_tokens / max(self.draft_size, 1)

    @property
    def word(self) -> str:
        """The kind in a few words, for a badge."""
        return WORDS[self.kind]

    @property
    def sentence(self) -> str:
        """The verdict in one line."""
        return f"{_finding(self)}{_sizes(self)}."


def compare(target: Vocabulary, draft: Vocabulary) -> VocabVerdict:
    """The verdict on a pair. Swapping the two swaps its fields and keeps its kind. 256,000 tokens each take under a second."""
    ours, theirs = _names(target.tokens), _names(draft.tokens)
    common = ours.keys() & theirs.keys()
    different = {id_ for id_ in common if ours[id_] != theirs[id_]}
    unlike = sorted(different | (ours.keys() ^ theirs.keys()))
    tail_from = unlike[0] if unlike and unlike[0] > max(common - different, default=-1) else None
    same_size = target.size == draft.size
    shared = target.tokens.keys() & draft.tokens.keys()
    return VocabVerdict(
        kind=_kind(max(len(ours), len(theirs)), len(common), len(different), len(unlike), tail=tail_from is not None, same_size=same_size),
        target_size=target.size,
        draft_size=draft.size,
        target_tokens=len(target.tokens),
        draft_tokens=len(draft.tokens),
        common_ids=len(common),
        different_ids=len(different),
        only_target_ids=len(ours.keys() - theirs.keys()),
        only_draft_ids=len(theirs.keys() - ours.keys()),
        tail_from=tail_from,
        differences=tuple(_difference(id_, ours, theirs) for id_ in unlike[:SAMPLES]),
        example=_example(draft.tokens, ours, theirs, unlike),
        shared_tokens=len(shared),
        translatable_tokens=_translatable(target.tokens, draft.tokens, shared),
        intersection_tokens=_intersection(target, draft, shared),
        beyond_target=_beyond(ours, target.size),
        beyond_draft=_beyond(theirs, draft.size),
        special=_special(target.special, draft.special),
        normaliser=_likeness(target.normaliser, draft.normaliser),
        pre_tokenizer=_likeness(target.pre_tokenizer, draft.pre_tokenizer),
        chat_template=_likeness(target.chat_template, draft.chat_template),
        foreign=shared <= target.added | draft.added | SPACES and _foreign(target, draft),
    )


def _kind(larger: int, common: int, different: int, unlike: int, *, tail: bool, same_size: bool) -> Kind:
    """The map beats the size. larger: ids of the larger map; unlike: ids that differ or stand on one side alone."""
    if not unlike:
        return "identical" if same_size else "padded"
    if 100 * unlike <= MOST_UNLIKE_PERCENT * larger:
        if tail:
            return "tail_differs"
        if different <= FEW_IDS and 1000 * different <= FEW_SHARE_PERMILLE * common:
            return "few_differ"
    return "same_size_different_map" if same_size else "different"


def _names(tokens: Mapping[str, int]) -> Names:
    """The token of each id; spellings that share an id are joined in order."""
    names = dict(zip(tokens.values(), tokens.keys(), strict=True))
    if len(names) < len(tokens):
        spellings: dict[int, list[str]] = {}
        for token, id_ in tokens.items():
            spellings.setdefault(id_, []).append(token)
        names |= {id_: " = ".join(sorted(several)) for id_, several in spellings.items() if len(several) > 1}
    return names


def _shown(token: str) -> str:
    return token if len(token) <= LONGEST_SAMPLE else token[: LONGEST_SAMPLE - 1] + "…"


def _difference(id_: int, ours: Names, theirs: Names) -> IdDifference:
    target, draft = (_shown(names[id_]) if id_ in names else None for names in (ours, theirs))
    return IdDifference(id=id_, target=target, draft=draft)


def _example(draft: Mapping[str, int], ours: Names, theirs: Names, unlike: list[int]) -> str:
    """A token that moved says more than an id that changed its token, and that more than an id of one side alone."""
    both = [id_ for id_ in unlike if id_ in ours and id_ in theirs]
    for id_ in both:
        token = ours[id_]
        if draft.get(token, id_) != id_:
            return f"{_shown(token)!r} is {id_} for the target and {draft[token]} for the draft"
    for id_ in both or unlike:
        mine, other = (repr(_shown(names[id_])) if id_ in names else "nothing" for names in (ours, theirs))
        return f"id {id_} is {mine} for the target and {other} for the draft"
    return ""


def _beyond(names: Names, size: int) -> int:
    return sum(id_ >= size for id_ in names) if max(names, default=-1) >= size else 0


def _translatable(target: Mapping[str, int], draft: Mapping[str, int], shared: Set[str]) -> int:
    mine, other = _space_mark(target), _space_mark(draft)
    if mine == other:
        return len(shared)
    return len(target.keys() & {mine + token[1:] if token.startswith(other) else token for token in draft})


def _intersection(target: Vocabulary, draft: Vocabulary, shared: Set[str]) -> int:
    """Ids of the draft that stand for a string of the target's, both within their embeddings."""
    ours, theirs = target.tokens, draft.tokens
    if _space_mark(ours) != _space_mark(theirs) or _has_spaces(ours) or _has_spaces(theirs):
        ours, theirs = _spaced(ours), _spaced(theirs)
        shared = ours.keys() & theirs.keys()
    return len({theirs[text] for text in shared if ours[text] < target.size and theirs[text] < draft.size})


def _foreign(target: Vocabulary, draft: Vocabulary) -> bool:
    """Whether no text can be written in both: case, width and marks of spaces aside, they share no character, nor are they made of bytes."""
    if any(BYTES & vocabulary.tokens.keys() for vocabulary in (target, draft)):
        return False
    return not _characters(target) & _characters(draft)


def _characters(vocabulary: Vocabulary) -> set[str]:
    """Those of its own tokens, whatever their case and width."""
    written = set[str]().union(*(vocabulary.tokens.keys() - vocabulary.added)) - SPACES
    return set(normalize("NFKD", "".join(sorted(written)).casefold()))


def _has_spaces(tokens: Mapping[str, int]) -> bool:
    """Whether a token begins with a space as it is, as some added ones do."""
    return any(token[:1] == " " for token in tokens)


def _spaced(tokens: Mapping[str, int]) -> dict[str, int]:
    """Each token with its space mark as a space; of two that become one the first counts."""
    mark = _space_mark(tokens)
    return {" " + token[1:] if token[:1] == mark else token: id_ for token, id_ in reversed(list(tokens.items()))}


def _space_mark(tokens: Mapping[str, int]) -> str:
    """Each family has its bare mark as a token; a letter Ġ may well be one of SentencePiece's."""
    return METASPACE if METASPACE in tokens else BYTE_LEVEL_SPACE


def _special(target: Mapping[str, int], draft: Mapping[str, int]) -> tuple[SpecialDifference, ...]:
    roles = sorted(target.keys() | draft.keys())
    pairs = [(role, target.get(role), draft.get(role)) for role in roles]
    return tuple(SpecialDifference(role=role, target=mine, draft=other) for role, mine, other in pairs if mine != other)


def _likeness(target: str | None, draft: str | None) -> Likeness:
    if target is None or draft is None:
        return "unknown"
    return "same" if target == draft else "differs"


def _finding(verdict: VocabVerdict) -> str:
    """What the maps say. Every kind names its numbers."""
    different, common = f"{verdict.different_ids:,}", f"{verdict.common_ids:,}"
    if verdict.kind in ("identical", "padded"):
        return f"Same token map: {common} of {verdict.target_tokens:,} tokens" if verdict.kind == "padded" else "Same token map"
    if verdict.kind == "tail_differs":
        tail = verdict.different_ids + verdict.only_target_ids + verdict.only_draft_ids
        return f"Same tokens below id {verdict.tail_from:,}; only the tail differs, {tail:,} {'id' if tail == 1 else 'ids'}: {verdict.example}"
    if verdict.kind == "few_differ":
        alone = verdict.only_target_ids + verdict.only_draft_ids
        if not verdict.different_ids:
            return f"Same tokens, but {alone:,} {'id is' if alone == 1 else 'ids are'} used on one side alone: {verdict.example}"
        return f"{different} of {common} common ids stand for other tokens: {verdict.example}"
    if not verdict.mostly_other and verdict.common_ids:
        return _many(verdict)
    found = f"{different} of {common} common ids stand for other tokens"
    if verdict.kind == "same_size_different_map":
        return f"Different token maps: {found}, so almost nothing would be accepted"
    return f"Different vocabularies: {found}"


def _many(verdict: VocabVerdict) -> str:
    """Maps that agree for the most part, and yet not enough to draft with each other's ids."""
    alone = verdict.only_target_ids + verdict.only_draft_ids
    others = f"{verdict.different_ids:,} of {verdict.common_ids:,} common ids stand for other tokens" if verdict.different_ids else ""
    single = f"{alone:,} {'id is' if alone == 1 else 'ids are'} used on one side alone" if alone else ""
    found = " and ".join(part for part in (others, single) if part)
    return f"Different token maps: {found}, so drafts with them are rejected; too many to overlook"


def _sizes(verdict: VocabVerdict) -> str:
    """What the configs say, after `_finding`."""
    if verdict.kind == "identical":
        return f", same size: {verdict.common_ids:,} of {verdict.target_tokens:,} tokens"
    if verdict.target_size == verdict.draft_size:
        return f"; both sizes are {verdict.target_size:,}"
    return f"; {verdict.target_size:,} embedding rows for the target, {verdict.draft_size:,} for the draft"
