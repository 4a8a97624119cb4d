"""Colours and edges of pictures against a plain transcription."""

import numpy as np
import pytest

import schirn
from schirn.features import Encoder, TableFeatures, TagPipeline

Image = pytest.importorskip("PIL.Image")


def picture(seed, size=(80, 50)):
    rng = np.random.default_rng(seed)
    small = rng.integers(256, size=(5, 8, 3)).astype(np.uint8)
    return Image.fromarray(small).resize(size)


def plain(image):
    """Histogram, mean colours and edges, pixel by pixel."""
    pixels = np.asarray(image.convert("RGB").resize((64, 64)), dtype=float) / 255
    colours, means, edges = np.zeros(64), np.zeros((4, 4, 3)), np.zeros((4, 4, 8))
    grey = pixels.mean(axis=2)
    down, right = np.gradient(grey)
    for y in range(64):
        for x in range(64):
            r, g, b = (min(int(4 * value), 3) for value in pixels[y, x])
            colours[16 * r + 4 * g + b] += 1 / 64**2
            means[y // 16, x // 16] += pixels[y, x] / 16**2
            angle = np.degrees(np.arctan2(down[y, x], right[y, x])) + 191.25
            edges[y // 16, x // 16, int(angle // 22.5) % 8] += np.hypot(down[y, x], right[y, x])
    edges /= np.linalg.norm(edges) + 1
    row = np.concatenate([np.sqrt(colours), (means - 0.5).ravel() / 4, edges.ravel()])
    return row / np.linalg.norm(row)


def test_pictures_are_described_by_colours_and_edges():
    images = [picture(seed) for seed in range(4)]
    rows = Encoder("pixels", of="image").fit().transform(images)
    # An angle that lies between two orientations may be rounded to either.
    np.testing.assert_allclose(rows, [plain(image) for image in images], atol=2e-3)


@pytest.mark.parametrize("mode", ["L", "RGBA", "P", "CMYK"])
def test_pictures_of_every_kind_have_features(mode):
    images = [picture(0).convert(mode), Image.new(mode, (1, 1)), Image.new("RGB", (3, 700), "red")]
    rows = Encoder("pixels", of="image").fit().transform([*images, None])
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), [1, 1, 1, 0], rtol=1e-5)


def test_pictures_need_no_encoder(tmp_path):
    files, tags = [], []
    for i in range(40):
        colour = ["red", "navy", "green", "white"][i % 4]
        image = Image.new("RGB", (30, 30), colour)
        image.paste(picture(i, (12, 12)), (3 + i % 12, 5))
        image.save(tmp_path / f"{i}.png")
        files.append(tmp_path / f"{i}.png")
        tags.append([colour, "red"] if i % 16 == 9 else [colour])
    tagger = TagPipeline(image="file").fit({"file": files}, tags)
    schirn.save(tagger, tmp_path / "t.schirn")
    again = schirn.load(tmp_path / "t.schirn")
    assert again.predict_labels({"file": files[:4]}) == [["red"], ["navy"], ["green"], ["white"]]
    (note,) = TableFeatures(image="file").fit({"file": files}).notes({"file": files})
    assert note.startswith("file: the pictures are described by their colours and edges")
    assert "schirn[networks]" in note
