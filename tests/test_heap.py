"""What modules hold is set aside from the garbage collection, once they are read and no more often."""

import gc
import sys
import types

from core.ui.heap import SetAside


def test_what_lives_is_set_aside_when_modules_were_read_and_garbage_before_it_is_freed(monkeypatch) -> None:
    set_aside = SetAside()
    gc.unfreeze()
    try:
        set_aside()
        frozen = gc.get_freeze_count()
        assert frozen > 10_000
        later = [[] for _ in range(5000)]
        set_aside()
        assert gc.get_freeze_count() < frozen + 1000, "no module was read meanwhile"
        circle: list[object] = []
        circle.append(circle)
        del circle
        monkeypatch.setitem(sys.modules, "tests._read_later", types.ModuleType("tests._read_later"))
        set_aside()
        assert gc.get_freeze_count() >= frozen + len(later)
    finally:
        gc.freeze()  # as it was: `tests.conftest`
