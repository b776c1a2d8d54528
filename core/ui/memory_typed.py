"""What people type into the fields of the memory page, read strictly: a number, or a sentence that says what to type instead.

Counts may be grouped by commas, as they are shown (8,192). Amounts of money are `core.cost.parse_amount`'s.
"""

import re

from core.errors import InvalidInput

LONGEST_SHOWN = 40
GROUPED = re.compile(r"-?\d{1,3}(,\d{3})+(\.\d*)?")
PLAIN = re.compile(r"-?(\d{1,15}(\.\d{0,15})?|\.\d{1,15})")


def number(name: str, text: str, low: float, high: float, unit: str = "") -> float:
    """The number in `text`, from `low` to `high`. Raises InvalidInput with the name, the value and what to type."""
    typed = text.strip()
    wanted = f"Type a number from {low:,.12g} to {high:,.12g}{f' {unit}' if unit else ''}"
    bare = typed.replace(",", "") if GROUPED.fullmatch(typed) else typed
    if re.fullmatch(r"-?\d+,\d+", bare):
        raise InvalidInput(f"{name} is {_shown(typed)}. Write a decimal point instead of the comma; commas only group thousands, as in 8,192.")
    if not PLAIN.fullmatch(bare):
        raise InvalidInput(f"{name} is {_shown(typed)}, which is not a number. {wanted}.")
    value = float(bare)
    if not low <= value <= high:
        raise InvalidInput(f"{name} is {_shown(typed)}. {wanted}.")
    return value


def whole(name: str, text: str, low: int, high: int, unit: str = "") -> int:
    """A whole number from `low` to `high`. Raises InvalidInput as `number` does."""
    value = number(name, text, low, high, unit)
    if value != int(value):
        raise InvalidInput(f"{name} is {_shown(text.strip())}. It must be a whole number.")
    return int(value)


def currency(text: str) -> str:
    """A currency's three letters, in capitals. Raises InvalidInput for anything else."""
    code = text.strip().upper()
    if not re.fullmatch(r"[A-Z]{3}", code):
        raise InvalidInput(f"The currency is {_shown(text.strip())}. Type its three letters, such as EUR.")
    return code


def _shown(typed: str) -> str:
    return repr(typed if len(typed) <= LONGEST_SHOWN else f"{typed[:LONGEST_SHOWN]}...")
