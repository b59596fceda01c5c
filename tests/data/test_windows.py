"""Batches of windows: a pure function of seed and epoch that visits every trajectory equally often."""

import numpy as np
import pytest

from sino.data.windows import batches_per_epoch, epoch_batches


def batches(seed=42, epoch=3, trajectories=63, batch=8, frames=10, last=40, **options):
    return list(epoch_batches(seed, epoch, trajectories, batch, frames=frames, last=last, **options))


def joined(found, name):
    return np.concatenate([getattr(batch, name) for batch in found])


def test_an_epoch_is_a_pure_function_of_seed_and_epoch():
    np.random.seed(0)
    once = batches()
    np.random.seed(1)
    for mine, other in zip(once, batches(), strict=True):
        for a, b in zip(mine, other, strict=True):
            np.testing.assert_array_equal(a, b)
    for other in (batches(seed=43), batches(epoch=4)):
        assert not np.array_equal(joined(once, "rows"), joined(other, "rows"))
        assert not np.array_equal(joined(once, "starts"), joined(other, "starts"))


@pytest.mark.parametrize("trajectories, batch, passes", [(63, 8, 1), (64, 8, 1), (4, 8, 3), (5, 2, 16), (1, 1, 1)])
def test_every_trajectory_comes_as_often_as_there_are_passes(trajectories, batch, passes):
    found = batches(trajectories=trajectories, batch=batch, passes=passes)
    assert len(found) == batches_per_epoch(trajectories, batch, passes)
    rows, weights = joined(found, "rows"), joined(found, "weights")
    counts = np.bincount(rows[weights == 1], minlength=trajectories)
    assert counts.tolist() == [passes] * trajectories
    assert {(len(b.rows), len(b.starts), len(b.weights)) for b in found} == {(batch, batch, batch)}
    assert set(weights) <= {0.0, 1.0}


def test_only_the_end_of_the_last_batch_is_padding():
    *full, last = batches(trajectories=63)
    assert len(full) == 7 and all((batch.weights == 1).all() for batch in full)
    assert last.weights.tolist() == [1.0] * 7 + [0.0]
    assert last.rows[-1] == 0 and last.starts[-1] == 0


def test_starts_cover_exactly_the_range_that_fits():
    starts = joined(batches(passes=50, frames=36), "starts")
    assert set(starts) == set(range(5))
    assert set(joined(batches(frames=40), "starts")) == {0}


def test_passes_draw_their_windows_anew():
    found = batches(trajectories=8, batch=8, passes=4)
    assert len({tuple(batch.starts[np.argsort(batch.rows)]) for batch in found}) == 4


def test_windows_may_begin_at_the_first_frame():
    found = batches(windows="first")
    assert set(joined(found, "starts")) == {0}
    assert not np.array_equal(joined(found, "rows")[:63], np.arange(63))


def test_numbers_are_small_on_every_machine():
    batch = batches()[0]
    assert (batch.rows.dtype, batch.starts.dtype, batch.weights.dtype) == (np.int32, np.int32, np.float32)
