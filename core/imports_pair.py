"""The method's two numbers, typed or in a small file: alpha (acceptance) and c (cost of a draft step / a target step), gamma if known."""

import re

from core.errors import InvalidInput
from core.imports_counts import NUMBER, Found
from core.record import Imported

NAMES = {"alpha": "alpha", "\u03b1": "alpha", "acceptance": "alpha", "c": "c", "cost": "c", "gamma": "gamma", "\u03b3": "gamma"}
LONGEST = 2_000
_NAMED = re.compile(rf'"?\b({"|".join(sorted(NAMES, key=len, reverse=True))})\b"?\s*[:=]?\s*(-?{NUMBER}|-?inf|nan)\b', re.IGNORECASE)
_BARE = re.compile(rf"^\s*({NUMBER})\s*[,;\s]\s*({NUMBER})\s*$")
_TABLE = re.compile(rf"^\s*(alpha\s*[,;]\s*c(?:\s*[,;]\s*gamma)?)\s*\n\s*({NUMBER}(?:\s*[,;]\s*{NUMBER})+)\s*$", re.IGNORECASE)
EXAMPLE = "alpha 0.70, c 0.10"


def from_text(text: str) -> Found:
    """From "alpha 0.7, c 0.1, gamma 5", a row under these names, or two bare numbers. Raises InvalidInput."""
    values = _values(text) if len(text) <= LONGEST else {}
    if "alpha" not in values:
        raise InvalidInput(f"There is nothing here that can be imported. Choose a run of Draftgauge, an engine's record, or write '{EXAMPLE}'.")
    alpha, c, gamma = values["alpha"], values.get("c"), values.get("gamma")
    if not 0 <= alpha <= 1:
        raise InvalidInput(f"alpha is {alpha:g}; it is a share from 0 to 1.")
    if c is not None and not 0 <= c <= 100:
        raise InvalidInput(f"c is {c:g}; it is the cost of a draft step in target steps, 0 or more, mostly below 1.")
    if gamma is not None and not (1 <= gamma <= 1000 and gamma == int(gamma)):
        raise InvalidInput(f"gamma is {gamma:g}; it is a number of tokens from 1 to 1000.")
    how = " c was not given." if c is None else ""
    definition = (
        f"Given by a person, as the method defines them: alpha is the chance that a draft token is accepted, c a draft step / a target step.{how}"
    )
    return Found(Imported(source="alpha_c", alpha=alpha, c=c, gamma=None if gamma is None else int(gamma), definition=definition))


def _values(text: str) -> dict[str, float]:
    bare, table = _BARE.match(text), _TABLE.match(text)
    if bare is not None:
        return {"alpha": float(bare[1]), "c": float(bare[2])}
    if table is not None:
        names, values = (re.split(r"\s*[,;]\s*", part.strip()) for part in table.groups())
        return {name.lower(): float(value) for name, value in zip(names, values, strict=False)}
    found: dict[str, float] = {}
    for name, value in _NAMED.findall(text):
        if found.setdefault(NAMES[name.lower()], float(value)) != float(value) and value.lower() != "nan":
            raise InvalidInput(f"{NAMES[name.lower()]} is given twice, as {found[NAMES[name.lower()]]:g} and {float(value):g}. Give it once.")
    return found
