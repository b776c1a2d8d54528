"""Whether a model's files are still those that were looked at: names, sizes and times, because reading weights would take minutes.

The newest time alone would not do: whoever puts an older file in a newer one's place leaves it as it was. Links are followed, as in the Hub's
cache. Not covered: another content of the same size that somebody dates back to the same nanosecond.
"""

import contextlib
import hashlib
from pathlib import Path


def stamp(place: Path) -> str:
    """A short text of one file, or of the files directly in a folder; another one as soon as any of them is written, replaced or removed."""
    found: list[tuple[str, int, int]] = []
    with contextlib.suppress(OSError):  # a folder that is gone has no files
        for file in sorted(place.iterdir()) if place.is_dir() else [place]:
            with contextlib.suppress(OSError):  # and this one is
                state = file.stat()
                found.append((file.name, state.st_size, state.st_mtime_ns))
    return hashlib.sha256(repr(found).encode()).hexdigest()[:16]
