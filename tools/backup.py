"""`python -m tools.backup FILE`: a copy of all runs in one file, while the server runs; `--restore FILE` puts one into an empty data folder.

The copy is made by SQLite itself (VACUUM INTO), so it is the store of one moment, without free room, and whole even while a run is written.
It holds everything that pages show of runs: settings, results, traces, notes, saved prompts. Not covered: uploaded files, the cache of the
Hub's small files, and logs, which are folders to be copied as they are; stores in another database, which has tools of its own.
"""

import argparse
import contextlib
import os
import shutil
import sqlite3
import sys
from pathlib import Path

from core.errors import DraftgaugeError, StoreError
from core.numbers import counted
from core.settings import Settings, load
from core.store import FILE_NAME, open_store


def backup(settings: Settings, file: Path) -> int:
    """Copy the store to a new file, readable by its owner alone; its bytes. Raises StoreError."""
    source = settings.data / FILE_NAME
    if not source.is_file():
        raise StoreError(f"There is no store in {settings.data}. Set DRAFTGAUGE_DATA to the server's data folder.")
    if file.exists():
        raise StoreError(f"{file} is there already. Name a new file; an older backup is not overwritten.")
    try:
        os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))  # SQLite takes an empty file
        connection = sqlite3.connect(f"{source.absolute().as_uri()}?mode=ro", uri=True, timeout=30)
        try:
            connection.execute("VACUUM INTO ?", (str(file),))
        finally:
            connection.close()
    except (OSError, sqlite3.Error) as error:
        file.unlink(missing_ok=True)
        raise StoreError(f"The backup {file} could not be written ({error}). Check that its folder can be written and that there is room.") from error
    return file.stat().st_size


def restore(settings: Settings, file: Path) -> int:
    """Put a whole backup into a data folder without a store, and bring it up to date; its runs, also those that had not ended. Raises StoreError."""
    place = settings.data / FILE_NAME
    for part in (place, *(place.with_name(place.name + end) for end in ("-wal", "-shm"))):  # an old log would be taken for the backup's
        if part.exists():
            raise StoreError(f"{part} is there already. Stop the server and move it away first, or set DRAFTGAUGE_DATA to an empty folder.")
    _check_whole(file)
    try:
        settings.data.mkdir(mode=0o700, parents=True, exist_ok=True)
        shutil.copyfile(file, place)
        place.chmod(0o600)
    except OSError as error:
        place.unlink(missing_ok=True)
        raise StoreError(f"{file} could not be copied to {place} ({error.strerror}). Check both, then try again.") from error
    try:
        store = open_store(settings)
        try:
            return store.choices().total + len(store.alive())
        finally:
            store.close()
    except StoreError:
        place.unlink()
        raise


def _check_whole(file: Path) -> None:
    """Every page of the file, because the store that it is to replace may be gone by the time a damaged one is looked at."""
    try:
        with contextlib.closing(sqlite3.connect(f"{file.absolute().as_uri()}?immutable=1", uri=True)) as connection:
            found = str(connection.execute("PRAGMA integrity_check(1)").fetchone()[0])
            connection.execute("SELECT schema_version FROM draftgauge")
    except sqlite3.Error as error:
        found = str(error)
    if found != "ok":
        raise StoreError(f"{file} cannot be put back: it is missing, damaged or no backup ({' '.join(found.split())}). Use another one.")


def main() -> int:
    """The command; 1 with a sentence where it could not be done."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--restore", action="store_true", help="put the file into the data folder, which must hold no store")
    given = parser.parse_args()
    try:
        if given.restore:
            print(f"{counted(restore(load(), given.file), 'run')} put into {load().data}.")
        else:
            print(f"{given.file}: {backup(load(), given.file) / 1e6:,.1f} MB.")
    except DraftgaugeError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
