"""Animations: a frame for each state, in its colours, and clear words where ffmpeg is missing."""

import shutil
import subprocess

import matplotlib.animation
import numpy as np
import pytest

from meshes import circle, icosphere
from pde.pictures import panels
from pde.pictures.animation import animate
from pde.solution import Solution


def frames(path):
    from PIL import Image, ImageSequence

    with Image.open(path) as image:
        return [np.asarray(frame.convert("RGB")) / 255.0 for frame in ImageSequence.Iterator(image)]


def share_of(frame, level):
    """The share of pixels in a colour of the scale."""
    import matplotlib

    colour = np.array(matplotlib.colormaps[panels.COLOURS](level)[:3])
    return np.mean(np.abs(frame - colour).max(axis=2) < 0.04)


def northern(count=3):
    """Ever more of the sphere filled, from the north."""
    mesh = icosphere(6)
    heights = np.linspace(0.5, -0.5, count)
    states = [np.where(mesh.centers[:, 2] > height, 1.0, 0.0) for height in heights]
    return Solution(np.arange(float(count)), states, mesh=mesh)


def test_each_state_is_a_frame_in_its_colours(tmp_path):
    animate(northern(), tmp_path / "a.gif", {"E": np.eye(3)[:, :1]}, title="Filling")
    shown = frames(tmp_path / "a.gif")
    assert len(shown) == 3 and shown[0].shape == shown[2].shape
    filled = [share_of(frame, 1.0) for frame in shown]
    empty = [share_of(frame, 0.0) for frame in shown]
    # Seen from both sides, the filled share of the disks is about that of the sphere.
    shares = np.array(filled) / (np.array(filled) + np.array(empty))
    np.testing.assert_allclose(shares, [0.25, 0.5, 0.75], atol=0.06)
    assert [path.name for path in tmp_path.iterdir()] == ["a.gif"]


@pytest.mark.parametrize("kind", ["circle", "concentrated circle", "particles", "on the circle"])
def test_everything_moves(tmp_path, kind):
    angle = np.linspace(0.0, 2.0, 12)
    if "circle" in kind and kind != "on the circle":
        ring = circle(12)
        peak = 60.0 if "concentrated" in kind else 1.0
        states = [np.exp(peak * np.roll(ring.centers[:, 0], k)) for k in range(2)]
        solution = Solution([0.0, 1.0], states, mesh=ring)
    else:
        flat = np.stack(
            [np.column_stack([np.cos(s * angle), np.sin(s * angle)]) for s in (1.0, 3.0)]
        )
        solid = np.concatenate([0.6 * flat, np.full((2, 12, 1), 0.8)], axis=2)
        solution = Solution([0.0, 1.0], flat if kind == "on the circle" else solid)
    animate(solution, tmp_path / "a.gif")
    first, second = frames(tmp_path / "a.gif")
    assert np.abs(first - second).max() > 0.5


@pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="no ffmpeg here")
def test_mp4_has_a_frame_for_each_state(tmp_path):
    animate(northern(5), tmp_path / "a.mp4", frames_per_second=5)
    asked = "stream=nb_frames,pix_fmt,r_frame_rate"
    said = subprocess.run(
        ["ffprobe", "-v", "error", "-show_entries", asked, "-of", "csv", tmp_path / "a.mp4"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert said.strip() == "stream,yuv420p,5/1,5"


def test_what_cannot_be_written_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(
        matplotlib.animation.FFMpegWriter, "isAvailable", classmethod(lambda c: False)
    )
    with pytest.raises(RuntimeError, match=r"a\.mp4: \.mp4 needs the program ffmpeg"):
        animate(northern(), tmp_path / "a.mp4")
    with pytest.raises(ValueError, match=r"must end in \.gif or \.mp4, got a\.avi"):
        animate(northern(), "a.avi")
    with pytest.raises(ValueError, match="got d = 5; project them first"):
        animate(Solution([0.0], [np.eye(5)]), tmp_path / "a.gif")
    with pytest.raises(ValueError, match="holds no states"):
        animate(Solution([], np.zeros((0, 2, 3))), tmp_path / "a.gif")
    with pytest.raises(ValueError, match="frames_per_second must be > 0"):
        animate(northern(), tmp_path / "a.gif", frames_per_second=0)
    assert not list(tmp_path.iterdir())
