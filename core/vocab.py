"""Whether two tokenizers number their tokens alike.

The draft's proposals reach the target as ids. Where the same id stands for different tokens the
library does not complain: the answer stays right, because the target decides, but almost nothing
is accepted. Special and added tokens are left out: they sit at the end, families rename them from
release to release, and a draft rarely proposes one. Units: tokens. Not covered: which engines
accept maps of different size.
"""

from collections.abc import Mapping, Set
from typing import NamedTuple

Map = Mapping[str, int]


class Difference(NamedTuple):
    """`different` of the `shared` ids that both maps use stand for different tokens; `example` says one of them in words."""

    different: int
    shared: int
    example: str


def difference(target: Map, draft: Map, added: Set[str] = frozenset()) -> Difference | None:
    """Where the maps (token -> id) disagree, or None when a draft with one can serve a target with the other.

    added: special and added tokens of either; their ids are not compared. Ids that only one map uses are its tail and no
    disagreement either.
    """
    spared = {ids[token] for token in added for ids in (target, draft) if token in ids}
    tokens, drafted = ({id_: token for token, id_ in ids.items() if id_ not in spared} for ids in (target, draft))
    shared = sorted(tokens.keys() & drafted.keys())
    different = [id_ for id_ in shared if tokens[id_] != drafted[id_]]
    if not different:
        return None
    moved = next((tokens[id_] for id_ in different if tokens[id_] in draft), None)
    if moved is None:
        example = f"id {different[0]} is {tokens[different[0]]!r} for the target and {drafted[different[0]]!r} for the draft"
    else:
        example = f"{moved!r} is {target[moved]} for the target and {draft[moved]} for the draft"
    return Difference(len(different), len(shared), example)
