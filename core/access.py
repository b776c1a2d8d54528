"""Who of those that an identity provider has signed in may use this installation.

Many providers sign in anybody who has an account with them, so the operator can name people (`DRAFTGAUGE_USERS`). A name is an e-mail
address, or `@` and a domain for everybody whose address is there; the case of letters does not count. An address that the provider itself
calls unverified admits nobody. Not covered: providers that let people claim any address and call it verified.
"""

from collections.abc import Mapping, Sequence


def admitted(claims: Mapping[str, object], allowed: Sequence[str]) -> bool:
    """Whether the account with these claims of its identity token may come in. allowed: empty for everybody who is signed in."""
    if not allowed:
        return True
    address = claims.get("email")
    if not isinstance(address, str) or claims.get("email_verified") in (False, "false"):
        return False
    known = address.strip().casefold()
    names = {known, "@" + known.rpartition("@")[2]} if known.count("@") == 1 else {known}
    return any(entry.casefold() in names for entry in allowed)
