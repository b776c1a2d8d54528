"""Something else in the place of what was known: a model's files, a run that was removed for good, a reference that was not there yet."""

import os
from pathlib import Path

import pytest

from core import answers, version
from core.errors import ModelError
from core.planner import Planner, Ready
from core.policies import FixedGamma, Plain
from core.runs import Extent, Lane, RunSpec
from core.settings import Settings
from core.stamp import stamp
from core.store import Store
from core.ui import side_done
from core.worker.measure import measure
from core.worker.models import Garage
from tests import side_runs, synthetic
from tests.apps import metric, open_page
from tests.models import spec_of, write_pair
from tests.supplies import model_folder
from tests.test_measure import Kept
from tests.test_planner import final, planner, runs  # noqa: F401

LANES = {"lanes": (Lane(policy=Plain()), Lane(policy=FixedGamma(2))), "order": (0, 1)}
MORE: dict[Extent, dict[str, object]] = {"full": {}, "ways": LANES, "side_by_side": LANES}


def put_older(file: Path) -> None:
    """Another file of the same size takes its place, and is older than everything in the folder."""
    content, other = file.read_bytes(), file.with_suffix(".other")
    other.write_bytes(content[:-8] + bytes(reversed(content[-8:])))
    os.utime(other, (10**9, 10**9))
    other.replace(file)


class Replaces(Kept):
    """Puts an older file in the place of a model's weights as soon as its first answer is there."""

    def __init__(self, weights: Path) -> None:
        super().__init__()
        self._weights, self.done = weights, False

    def generation(self, generation) -> None:
        super().generation(generation)
        if not self.done:
            put_older(self._weights)
        self.done = True

    def steps(self, steps) -> None:
        """Of a side-by-side run."""


@pytest.mark.parametrize("extent", MORE)
def test_weights_that_are_replaced_in_mid_run_are_named(tmp_path: Path, extent: Extent) -> None:
    spec = spec_of(write_pair(tmp_path), 1).model_copy(update={"confirm_s": 0.0, "extent": extent, **MORE[extent]})
    sink = Replaces(tmp_path / "draft" / "model.safetensors")
    with pytest.raises(ModelError, match=rf"The files in {tmp_path / 'draft'} changed while they were measured, so nobody knows which were"):
        measure(spec, sink, Settings(threads=1))
    assert sink.done


def test_a_model_whose_place_an_older_one_takes_is_loaded_anew(tmp_path: Path) -> None:
    garage, spec = Garage(), spec_of(write_pair(tmp_path))
    before = garage.get(spec)
    assert garage.get(spec) is before
    put_older(tmp_path / "draft" / "model.safetensors")
    after = garage.get(spec)
    assert after.target is before.target
    assert after.draft is not before.draft


def test_a_stamp_tells_files_apart_that_were_written_replaced_or_removed(tmp_path: Path) -> None:
    model_folder(tmp_path / "model")
    folder, weights = tmp_path / "model", tmp_path / "model" / "model.safetensors"
    found = [stamp(folder), stamp(weights)]
    assert weights.read_bytes()
    assert [stamp(folder), stamp(weights)] == found
    put_older(weights)
    found += [stamp(folder), stamp(weights)]
    weights.unlink()
    found += [stamp(folder), stamp(weights), stamp(tmp_path / "nothing" / "here")]
    assert len(set(found)) == 6
    assert found[-2] == found[-1]


def test_a_job_about_a_model_on_this_machine_is_done_anew_when_its_files_are_others(
    planner: Planner,  # noqa: F811
    settings: Settings,
    spec: RunSpec,
) -> None:
    def asked() -> int:
        for name in ("target", "draft"):
            assert isinstance(final(lambda name=name: planner.ask("echo", {"model": f"folder:{name}"})), Ready)
        return runs(settings)

    assert [asked(), asked()] == [2, 2]
    put_older(Path(spec.target.path) / "model.safetensors")
    assert [asked(), asked()] == [3, 3], "the other model is as it was"


def test_answers_of_another_release_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    before = answers.key("profile", {"config": {}})
    monkeypatch.setattr(version, "VERSION", "999")
    assert answers.key("profile", {"config": {}}) != before


@pytest.mark.usefixtures("app_site")
def test_a_run_that_was_removed_and_imported_again_changed_shows_its_new_numbers(store: Store) -> None:
    run = synthetic.run("same", prompts=8, tokens=24)
    store.insert(run)
    assert metric(open_page("measure", run="same"), "alpha, acceptance") == "0.73"
    store.delete(["same"])
    store.purge(1e12)
    assert store.insert(synthetic.run("same", prompts=8, tokens=24, alpha=0.5)) == "same"
    assert metric(open_page("measure", run="same"), "alpha, acceptance") == "0.49"


@pytest.mark.usefixtures("app_site")
def test_a_prediction_is_made_once_its_reference_is_there(store: Store) -> None:
    """Not only where it was there when the run was first looked at."""
    side_done._predicted.clear()
    run = side_runs.run("a", reference="known")
    store.insert(run)
    assert side_done.prediction(store.get("a")) == "There is no run known."
    known = synthetic.run("known")
    store.insert(known.model_copy(update={"spec": known.spec.model_copy(update={"target": run.spec.target, "draft": run.spec.draft})}))
    assert not isinstance(side_done.prediction(store.get("a")), str)
