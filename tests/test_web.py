"""The web page: it holds the solution, needs nothing else, and a browser shows it rightly."""

import base64
import json
import re
import shutil
import subprocess
import zlib
from pathlib import Path

import numpy as np
import pytest

from meshes import circle, icosphere
from pde.pictures import panels, web
from pde.pictures.web import export_html
from pde.solution import Solution

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("chrome")
MARKS = {"E": np.eye(3)[:, :1], "plane": np.eye(3)[:, 1:], "all": np.eye(3)}


def halves(frequency=6, times=(0.0, 1.0, 2.5)):
    """Dense where x_j > 0, for j = 0, 1, 2 one after the other."""
    mesh = icosphere(frequency)
    states = [np.where(mesh.centers[:, j] > 0, 1.0, 0.25) for j in range(3)]
    return Solution(list(times), states, mesh=mesh)


def held(page):
    """The data in a page."""
    text = re.search(r'<script id="data"[^>]*>(.*?)</script>', page.read_text(), re.DOTALL)[1]
    return json.loads(text)


def unpacked(packed):
    data = zlib.decompress(base64.b64decode(packed["base64"]))
    return np.frombuffer(data, np.dtype(packed["type"]).newbyteorder("<"))


def test_the_page_holds_the_solution(tmp_path):
    solution = halves()
    export_html(solution, tmp_path / "p.html", MARKS, title="</script> & <b>")
    data, mesh = held(tmp_path / "p.html"), solution.mesh
    assert data["title"] == "</script> & <b>" and data["times"] == [0.0, 1.0, 2.5]
    assert [len(mark["vectors"]) for mark in data["marks"]] == [1, 2]
    cells = data["cells"]
    np.testing.assert_array_equal(unpacked(cells["counts"]), np.diff(mesh.cell_offsets))
    np.testing.assert_array_equal(unpacked(cells["cell_corners"]), mesh.cell_vertices)
    corners = unpacked(cells["corners"]).reshape(-1, 3) / web.UNIT
    np.testing.assert_allclose(corners, mesh.vertices, atol=0.5 / web.UNIT + 1e-12)
    levels = unpacked(cells["values"]).reshape(3, -1)
    np.testing.assert_allclose(levels / 255.0, solution.states, atol=0.5 / 255)
    assert data["scale"] == {"low": 0.0, "high": 1.0, "log": False}


def test_concentrated_densities_have_a_logarithmic_scale(tmp_path):
    mesh = icosphere(8)
    rho = np.exp(300.0 * (mesh.centers[:, 1] - 1.0))
    rho[0] = 0.0
    export_html(Solution([0.0], [rho], mesh=mesh), tmp_path / "p.html")
    data = held(tmp_path / "p.html")
    scale, levels = data["scale"], unpacked(data["cells"]["values"]) / 255.0
    assert scale["log"] and scale["high"] == rho.max()
    shown = scale["low"] * (scale["high"] / scale["low"]) ** levels
    seen = rho > scale["low"]
    np.testing.assert_allclose(shown[seen], rho[seen], rtol=0.02)
    assert not levels[~seen].any() and 0 < seen.sum() < 200


def test_particles_are_held_too(tmp_path):
    points = np.stack([np.eye(3), -np.eye(3)])
    export_html(Solution([0.0, 1.0], points), tmp_path / "p.html")
    particles = held(tmp_path / "p.html")["particles"]
    places = unpacked(particles["positions"]).reshape(2, particles["n"], 3)
    np.testing.assert_array_equal(places, web.UNIT * points)


def test_it_needs_no_network(tmp_path):
    """No address, no source, nothing that a browser would fetch."""
    export_html(halves(2), tmp_path / "p.html")
    page = tmp_path.joinpath("p.html").read_text()
    for word in (
        "http:",
        "https:",
        "//cdn",
        "src=",
        "<link",
        "@import",
        "url(",
        "fetch(",
        "import(",
    ):
        assert word not in page, word


def test_fifty_times_of_a_fine_mesh_stay_small(tmp_path):
    mesh = icosphere(20)
    steepness = np.linspace(0.0, 60.0, 50)[:, None]
    states = np.exp(steepness * (mesh.centers[:, 1] ** 2 - 1.0)) * (
        2 + np.sin(9 * mesh.centers[:, 0])
    )
    export_html(Solution(np.arange(50.0), states, mesh=mesh), tmp_path / "p.html")
    size = (tmp_path / "p.html").stat().st_size
    # A byte a cell and time, some 30 for the cell itself, a third more in base64, deflated.
    assert 40_000 < size < mesh.n_cells * (50 + 30) * 4 / 3


def test_what_cannot_be_shown_is_refused(tmp_path):
    with pytest.raises(ValueError, match="holds no states"):
        export_html(Solution([], np.zeros((0, 2, 3))), tmp_path / "x.html")
    with pytest.raises(ValueError, match="the solution is of d = 2"):
        export_html(Solution([0.0], [np.ones(4)], mesh=circle(4)), tmp_path / "x.html")
    with pytest.raises(ValueError, match="the solution is of d = 5"):
        export_html(Solution([0.0], [np.eye(5)]), tmp_path / "x.html")
    assert not list(tmp_path.iterdir())


# --- in a real browser -----------------------------------------------------------------------


def browse(tmp_path, page, *how, size=(400, 480), after=""):
    """Chromium without a window on the page, offline; what it prints."""
    flags = """--headless --no-sandbox --disable-quic --no-first-run --disable-sync
        --disable-background-networking --disable-component-update --use-angle=swiftshader
        --enable-unsafe-swiftshader --hide-scrollbars --force-device-scale-factor=1
        --virtual-time-budget=8000 --host-resolver-rules=MAP\\x20*\\x20~NOTFOUND"""
    flags = [flag.replace("\\x20", " ") for flag in flags.split()]
    done = subprocess.run(
        [
            CHROMIUM,
            *flags,
            f"--user-data-dir={tmp_path / 'profile'}",
            f"--window-size={size[0]},{size[1]}",
            *how,
            page.as_uri() + after,
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return done.stdout


browser = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here")


@browser
@pytest.mark.parametrize(("time", "axis"), [(0.0, 0), (2.4, 2)])
def test_the_browser_shows_the_colours(tmp_path, time, axis):
    """Seen along an axis that splits the density: one half at the top of the scale, one below."""
    import matplotlib
    from matplotlib.image import imread

    page = tmp_path / "p.html"
    export_html(halves(12), page)
    view = ("0,-1,0", "", "1,0,0")[axis]  # e1 to the right, then e3 upwards
    browse(
        tmp_path,
        page,
        f"--screenshot={tmp_path / 's.png'}",
        after=f"#time={time}&view={view}",
    )
    image = imread(tmp_path / "s.png")[..., :3]
    colours = matplotlib.colormaps[panels.COLOURS]
    dense, thin = (np.array(colours(level)[:3]) for level in (1.0, 64 / 255))
    box = np.argwhere(np.abs(image - dense).max(axis=2) < 0.02)
    other = np.argwhere(np.abs(image - thin).max(axis=2) < 0.02)
    assert len(box) > 5000 and len(other) > 5000  # in a picture of 400 x 480
    if axis == 0:
        assert np.median(box[:, 1]) > np.median(other[:, 1]) + 60
    else:
        assert np.median(box[:, 0]) < np.median(other[:, 0]) - 60


PROBE = """<script>
const wait = (ms) => new Promise((done) => setTimeout(done, ms));
(async () => {
  while (!document.body.dataset.ready && !document.body.dataset.failed) await wait(50);
  const out = [document.body.dataset.ready || document.body.dataset.failed, $("time").textContent];
  const canvas = $("sphere"), box = canvas.getBoundingClientRect();
  const at = (kind, x, y) => canvas.dispatchEvent(new PointerEvent(kind, { pointerId: 1,
    clientX: box.left + box.width / 2 + x, clientY: box.top + box.height / 2 + y }));
  canvas.setPointerCapture = () => {};
  at("pointermove", 0, 0);
  out.push($("tip").textContent);
  const before = JSON.stringify(frame);
  at("pointerdown", 0, 0); at("pointermove", 60, 20); at("pointerup", 60, 20);
  out.push(JSON.stringify(frame) !== before);
  out.push(frame.map((a) => Math.abs(dot(a, a) - 1) < 1e-12).join());
  $("slider").value = 2; $("slider").dispatchEvent(new Event("input"));
  out.push($("time").textContent);
  $("play").click();
  await wait(3000);
  out.push($("time").textContent, $("play").textContent.includes("play"));
  document.body.dataset.probe = out.join("|");
})();
</script></body>"""


@browser
def test_it_turns_slides_and_plays(tmp_path):
    page = tmp_path / "p.html"
    export_html(halves(), page, MARKS)
    page.write_text(page.read_text().replace("</body>", PROBE))
    dom = browse(tmp_path, page, "--dump-dom", after="#view=1,0.1,0.1")
    said = re.search(r'data-probe="([^"]*)"', dom)
    assert said, dom[-2000:]
    ready, start, tip, turned, frame, slid, played, stopped = said[1].split("|")
    assert (ready, start, slid, played) == ("3 times", "t = 0", "t = 2.5", "t = 2.5")
    assert tip.startswith("density ≈ 1\nat (0.99, 0.10, 0.10)")
    assert (turned, frame, stopped) == ("true", "true,true,true", "true")


def test_the_template_is_shipped():
    setup = (Path(__file__).parents[1] / "setup.cfg").read_text()
    assert re.search(r"pde\.pictures =\s+viewer\.html", setup)
    assert web.PAGE.read_text(encoding="utf-8").count(web.PLACE_FOR_DATA) == 1
