"""Every figure is drawn from the checked-in result files, and shows what they say."""

import io
import json
import shutil

import numpy as np
import pytest
from PIL import Image
from safetensors.numpy import load_file, save_file

from conftest import FOLDER
from sino.report.animation import animate
from sino.report.architecture import architecture
from sino.report.collect import collect
from sino.report.curves import error_over_time
from sino.report.fields import sampled_flow
from sino.report.gallery import make_gallery
from sino.report.picture import INK, drawing, inline_svg, log_axis, save_svg


def picture(gallery, name):
    (found,) = [p for p in gallery.pictures if p.name == name]
    return found


def lines(ax):
    return {line.get_label(): line for line in ax.lines}


def test_every_figure_is_there(gallery):
    assert [p.name for p in gallery.pictures] == [
        "error-against-parameters",
        "spectra-across-grids-burgers-decaying",
        "fields-burgers-decaying",
        "error-over-time-burgers-decaying",
        "spectra-burgers-decaying",
        "loss-burgers-decaying",
        "fields-ns-decaying",
        "error-over-time-ns-decaying",
        "spectra-ns-decaying",
        "loss-ns-decaying",
        "scaling-ns-decaying",
        "variance-burgers-decaying-sino",
        "variance-ns-decaying-sino",
        "cost-ns-decaying-sino",
        "variance-ns-decaying-sino-n-8",
        "approximation",
        "architecture",
    ]
    assert [a.name for a in gallery.animations] == ["animation-burgers-decaying", "animation-ns-decaying"]
    for p in gallery.pictures:
        assert len(p.alt) > 30 and len(p.caption) > 30 and p.title, p.name


def test_nothing_is_cut_off(gallery):
    for p in gallery.pictures:
        p.figure.draw_without_rendering()
        box, (width, height) = p.figure.get_tightbbox(), p.figure.get_size_inches()
        assert box.x0 > -0.02 and box.y0 > -0.02 and box.x1 < width + 0.02 and box.y1 < height + 0.02, p.name


@pytest.mark.parametrize(
    ("limits", "labels"),
    [((1e-3, 3e-3), ["1e-3", "1.5e-3", "2e-3", "3e-3"]), ((4000, 50000), ["5k", "10k", "20k", "50k"])],
)
def test_labels_of_short_logarithmic_axes(limits, labels):
    with drawing(4.0, 3.0) as figure:
        ax = figure.subplots()
        ax.plot(limits, [1, 2])
        log_axis(ax.xaxis)
        ax.set_xlim(limits)
        figure.draw_without_rendering()
        low, high = limits
        ticks = zip(ax.xaxis.get_majorticklocs(), ax.xaxis.get_majorticklabels(), strict=True)
        assert [label.get_text() for place, label in ticks if low * 0.999 <= place <= high * 1.001] == labels


def test_figures_are_the_same_every_time(runs):
    assert architecture().svg == architecture().svg
    setting = runs.settings[0]
    assert error_over_time(runs, setting).svg == error_over_time(runs, setting).svg


def test_files_and_elements(gallery, tmp_path):
    first = gallery.pictures[0]
    text = save_svg(first, tmp_path).read_text()
    assert text.startswith("<?xml") and INK in text and "currentColor" not in text and text.count('fill="white"') == 1
    element = inline_svg(first)
    assert INK not in element and "currentColor" in element and "xlink" not in element and "<style" not in element
    assert f'id="{first.name}-' in element and f'"#{first.name}-' in element


def test_error_against_parameters(gallery):
    burgers, ns = picture(gallery, "error-against-parameters").figure.axes
    points = {tuple(map(float, line.get_xydata()[0])) for line in burgers.lines if len(line.get_xdata()) == 1}
    assert (6681.0, 0.005) in points and (6681.0, 0.007) in points and (11073.0, 0.09) in points  # ours
    assert (6681.0, 0.00437) in points and (26017.0, 0.165) in points  # the paper's
    hollow = [line for line in burgers.lines if line.get_fillstyle() == "none"]
    assert len(hollow) == 11
    levels = {float(line.get_ydata()[0]) for line in burgers.lines if list(line.get_xdata()) == [0, 1]}
    assert levels == {0.16, 0.024}  # the coarse grid, and hyperviscosity
    assert {line.get_xdata()[0] for line in ns.lines} >= {59314, 110002}


def test_error_over_time(gallery):
    (ax,) = picture(gallery, "error-over-time-burgers-decaying").figure.axes
    curves = lines(ax)
    assert list(curves) == ["coarse grid alone", "SINO", "FNO", "Hyperviscosity"]
    expected = np.mean([2 * mean for mean in (4.4e-3, 5.5e-3, 6.6e-3)])  # at the end, mean over seeds
    assert curves["SINO"].get_ydata()[-1] == pytest.approx(expected, rel=1e-3)
    assert np.isnan(curves["FNO"].get_ydata()[-1]) and np.isfinite(curves["FNO"].get_ydata()[20])  # blew up
    (window,) = [patch for patch in ax.patches if patch.get_width() < 0.002]
    assert window.get_x() == 0 and window.get_width() == pytest.approx(12e-4)  # frames 0..12
    assert ax.get_yscale() == "log"


def test_spectra(gallery):
    (ax,) = picture(gallery, "spectra-burgers-decaying").figure.axes
    curves = lines(ax)
    reference = curves["reference"]
    np.testing.assert_allclose(reference.get_ydata(), reference.get_xdata() ** -2.0, rtol=1e-3)
    (guide,) = [line for line in ax.lines if line.get_label().startswith("_")]
    x, y = guide.get_data()
    np.testing.assert_allclose(np.diff(np.log(y)) / np.diff(np.log(x)), -2)
    assert [text.get_text() for text in ax.texts] == ["k⁻²"]
    assert [t.get_text() for t in picture(gallery, "spectra-ns-decaying").figure.axes[0].texts] == ["k⁻³"]
    (across,) = picture(gallery, "spectra-across-grids-burgers-decaying").figure.axes
    assert {"256 cells, SINO", "128 cells, SINO, not retrained", "128 cells, alone"} <= lines(across).keys()


def test_loss_curves(gallery):
    left, right = picture(gallery, "loss-burgers-decaying").figure.axes[:2]
    assert len(left.lines) == len(right.lines) == 8  # a curve per seed, unfinished ones too
    assert min(line.get_ydata()[-1] for line in left.lines) == pytest.approx(
        np.log(4e-3 * (1 + 40 * np.exp(-6))), abs=1e-3
    )


def test_kernels_scaling_cost_and_approximation(gallery):
    spatial, frequency = picture(gallery, "variance-ns-decaying-sino-n-8").figure.axes
    assert len(lines(spatial)) == 6 and spatial.get_title(loc="left") == "spatial branch"
    np.testing.assert_allclose(lines(frequency)["block 4"].get_ydata()[:4], [0, 60, 85, 93])
    assert "by construction" in picture(gallery, "variance-ns-decaying-sino").caption
    assert "by construction" not in picture(gallery, "variance-ns-decaying-sino-n-8").caption
    left, right = picture(gallery, "scaling-ns-decaying").figure.axes
    law = lines(left)["SINO: a = 0.50 (0.45 to 0.55)"]
    np.testing.assert_allclose(law.get_ydata(), 20 * law.get_xdata() ** -0.5)
    assert "FNO: a = 0.50" in lines(right) and "SINO 0.868" in picture(gallery, "scaling-ns-decaying").caption
    ax = picture(gallery, "cost-ns-decaying-sino").figure.axes[0]
    assert lines(ax)["SINO"].get_xydata().tolist() == [[0.03, 0.06]]
    assert lines(ax)["finer grids"].get_ydata().tolist() == [0.4, 0.187, 0.0546]
    assert "18 times faster" in picture(gallery, "cost-ns-decaying-sino").caption
    (ax,) = picture(gallery, "approximation").figure.axes
    assert lines(ax)["a trained hypernetwork"].get_ydata().tolist() == [0.75, 0.5, 0.16, 0.05]


def test_fields(gallery, runs):
    figure = picture(gallery, "fields-burgers-decaying").figure
    strips = [ax for ax in figure.axes if ax.images]
    flow = sampled_flow(runs, runs.settings[0])
    assert [ax.get_title(loc="left") for ax in strips] == [
        "reference",
        "coarse grid alone",
        "coarse grid alone: difference",
        "SINO",
        "SINO: difference",
    ]
    shown = [np.asarray(ax.images[0].get_array()) for ax in strips]
    np.testing.assert_allclose(shown[4], np.abs(shown[3] - shown[0]), atol=1e-7)
    np.testing.assert_allclose(shown[0], flow.fields["reference"][:, 0].T)
    snapshots = picture(gallery, "fields-ns-decaying").figure
    images = [ax.images[0] for ax in snapshots.axes if ax.images]
    assert len(images) == 7  # four of vorticity, three of error
    assert len({image.get_clim() for image in images[:4]}) == 1
    titles = [ax.get_title() for ax in snapshots.axes if ax.get_title()]
    assert titles == ["reference", "coarse grid alone", "SINO, n = 8", "SINO"]


def test_animations(gallery):
    for animation, shots in zip(gallery.animations, (21, 5), strict=True):
        moving, still = (Image.open(io.BytesIO(data)) for data in (animation.moving, animation.still))
        assert (moving.format, still.format) == ("GIF", "PNG") and moving.size == still.size
        assert moving.n_frames == shots and moving.info["loop"] == 0
        assert len(animation.moving) < 2e6
        first = np.asarray(moving.convert("RGB"), dtype=int)
        moving.seek(shots - 1)
        assert np.abs(np.asarray(moving.convert("RGB"), dtype=int) - first).max() > 50  # it moves
        corner = first[-1, -1]
        assert corner.min() > 250  # on white


def test_a_large_animation_loses_frames(runs, monkeypatch):
    flow = sampled_flow(runs, runs.settings[0])
    whole = animate(flow)
    monkeypatch.setattr("sino.report.animation.LARGEST", len(whole.moving) - 1)
    smaller = animate(flow)
    assert Image.open(io.BytesIO(smaller.moving)).n_frames == 11  # of 21
    assert len(smaller.moving) < len(whole.moving) and smaller.still == whole.still


def test_what_is_missing_names_the_command(gallery):
    burgers, ns = gallery.sections
    assert burgers.missing[0].endswith(f": sino evaluate {FOLDER / 'burgers-decaying' / 'sino-paper' / 'seed-1'}")
    assert burgers.missing[1] == "U-Net, seed 1, is unfinished."
    assert ns.missing == ("AM-FNO, seed 1, is stopped: not finite at update 240.",)


def test_results_of_training_alone_are_drawn():
    gallery = make_gallery(collect([FOLDER / "burgers-decaying" / "sino-paper"]))
    names = [p.name for p in gallery.pictures]
    assert names == ["error-against-parameters", "loss-burgers-decaying", "architecture"] and not gallery.animations
    assert any("sino analyze" in text for text in gallery.sections[0].missing)


def test_a_sample_that_blew_up_is_drawn(tmp_path):
    """Not a number is grey or told in words, and no warning is raised."""
    for flow in ("burgers-decaying", "ns-decaying"):
        shutil.copytree(FOLDER / flow / "sino" / "seed-1", tmp_path / flow)
        file = tmp_path / flow / "samples.safetensors"
        arrays = load_file(file)
        arrays["best"] = arrays["best"].copy()
        arrays["best"][len(arrays["best"]) // 2 :] = np.nan
        save_file(arrays, file)
    gallery = make_gallery(collect([tmp_path]))
    assert len(gallery.animations) == 2
    texts = [t.get_text() for ax in picture(gallery, "fields-ns-decaying").figure.axes for t in ax.texts]
    assert "blew up" in texts


def test_damaged_samples_are_named(tmp_path):
    shutil.copytree(FOLDER / "burgers-decaying" / "sino" / "seed-1", tmp_path / "seed-1")
    file = tmp_path / "seed-1" / "samples.safetensors"
    file.write_bytes(file.read_bytes()[:-9])
    with pytest.raises(Exception, match=r"samples\.safetensors is not a whole safetensors file"):
        make_gallery(collect([tmp_path]))
    shutil.copy(FOLDER / "burgers-decaying" / "sino" / "seed-1" / "samples.safetensors", file)
    record = json.loads((tmp_path / "seed-1" / "evaluation.json").read_text())
    record["samples"]["frames"].pop()
    (tmp_path / "seed-1" / "evaluation.json").write_text(json.dumps(record))
    with pytest.raises(Exception, match="does not hold the frames that evaluation.json tells of"):
        make_gallery(collect([tmp_path]))
