"""Whether a file in the Hub's cache is what the Hub has: by the name of its content there, which is a checksum.

The cache names each content by the Hub's ETag: SHA-256 for large files, git's own SHA-1 of a blob for small ones, and a file of a
model is a link to it. Other names, as a mirror may give, say nothing. Source: huggingface_hub 2.4, `hf_hub_download` and `utils.sha`;
git-hash-object(1). Not covered: content that was damaged on the Hub itself, or later on this disk; systems without links.
"""

import hashlib
import re
from pathlib import Path

SHA256, GIT_SHA1 = re.compile(r"[0-9a-f]{64}"), re.compile(r"[0-9a-f]{40}")


def damaged(file: Path) -> bool:
    """Whether the content is another one than its name says; never for a content without a checksum for its name."""
    name = _content(file).name
    if SHA256.fullmatch(name):
        with file.open("rb") as content:
            return hashlib.file_digest(content, "sha256").hexdigest() != name
    return bool(GIT_SHA1.fullmatch(name)) and _git_sha1(file) != name


def remove(file: Path) -> None:
    """Take a file and its content out of the cache, so that it is fetched anew."""
    _content(file).unlink(missing_ok=True)
    file.unlink(missing_ok=True)


def _content(file: Path) -> Path:
    """Where the link leads, one step: the content may itself be a link to a store that caches share, which names it otherwise."""
    return file.parent / file.readlink() if file.is_symlink() else file


def _git_sha1(file: Path) -> str:
    found = hashlib.sha1(b"blob %d\0" % file.stat().st_size, usedforsecurity=False)
    found.update(file.read_bytes())
    return found.hexdigest()
