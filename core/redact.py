"""Text for people and logs, without this machine's secrets in it.

Sentences here never repeat what a server sent, but an error of a library may repeat what it was given: a header with the token in it,
the address of a proxy with its password. So the last steps before a page, the store or a log pass through `redacted`. A secret is found as
it stands, as it stands in an address (percent-encoded) and, with its user's name, as in the header of a login (Basic, base64).
Not covered: secrets in files, which are read by nobody here, and parts of a secret.
"""

import base64
import os
import re
from collections.abc import Iterator
from urllib.parse import quote, unquote, urlsplit

NAMES = re.compile(r"(TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|_PASS|_KEY|APIKEY|CREDENTIAL|COOKIE)S?$")
"""How the names of environment variables end whose values are secrets."""
SHORTEST = 6
"""Of a value that is taken for a secret: a shorter one stands in too many texts by chance."""


def redacted(text: str) -> str:
    """The text with the name of its variable, in brackets, in place of every secret of this environment."""
    for value, name in _secrets():
        text = text.replace(value, f"[{name}]")
    return text


def _secrets() -> list[tuple[str, str]]:
    """Each secret with the variable it stands in, the longest first, because one may contain another."""
    found: dict[str, str] = {}
    for name, value in os.environ.items():
        found |= dict.fromkeys(_forms(value.strip()) if NAMES.search(name.upper()) else _of_address(value), name)
    return sorted(((value, name) for value, name in found.items() if len(value) >= SHORTEST), key=lambda each: -len(each[0]))


def _forms(secret: str) -> Iterator[str]:
    yield secret
    yield quote(secret, safe="")


def _of_address(value: str) -> Iterator[str]:
    """The password in an address such as a proxy's or a mirror's, as it is written and as it is meant, and the login that becomes of it."""
    if "://" not in value or "@" not in value:
        return
    try:
        parts = urlsplit(value)
        name, password = parts.username or "", parts.password
    except ValueError:
        return
    if password:
        yield from (password, *_forms(unquote(password)))
        yield base64.b64encode(f"{unquote(name)}:{unquote(password)}".encode(errors="surrogateescape")).decode()
