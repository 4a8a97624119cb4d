"""Draw the three houses (docs/images/layers.svg): `python docs/images/layers.py`."""

from pathlib import Path
from xml.sax.saxutils import escape

RED = "#9c3430"
LAYERS = [
    (
        "app",
        RED,
        [
            ("cli, review", "program and page"),
            ("report, serving", "pages, HTTP"),
            ("workflow", "TableCleaning, nights"),
            ("tables, demo", "read, write back exactly"),
        ],
    ),
    (
        "lab",
        "#6d3b7a",
        [
            ("bench", "compare methods"),
            ("leaderboard", "results of others"),
            ("reproduction", "the paper again"),
            ("rivals, rank, data", "compared methods"),
        ],
    ),
    ("library", "#8a5a12", [("cleaning", "rank, ask, act"), ("deep", "PyTorch")]),
    (
        "",
        "#6b6414",
        [
            ("features", "of texts, tables"),
            ("model_selection", "tune on candidates"),
            ("persist", "model files"),
            ("testing, program", "checks, kit of commands"),
        ],
    ),
    ("", "#2a6b43", [("estimators", "one method per file: validation, attributes; no numerics")]),
    ("", "#1c5f93", [("solvers", "one algorithm per file"), ("datasets", "generated data, noise")]),
    ("", "#0f6b6b", [("noise", "rates, posteriors"), ("scale", "blocks, files, devices, Dask")]),
    ("", "#4a4f9c", [("metrics", "scores of rankings and noise")]),
    ("", "#3d4f66", [("linalg", "kernels, factors"), ("labels", "0/1 matrices, names, tags")]),
    ("", "#3a4150", [("exceptions, _input, _files, _text, …", "errors, checks, files")]),
]
STEPS = {"estimators": "127", "solvers": "356", "noise": "5", "linalg": "34", "labels": "2"}
LEFT, RIGHT, HEIGHT, GAP = 120, 956, 56, 8


def box(x, y, width, color, title, line):
    """One room."""
    yield f'<rect x="{x:.0f}" y="{y}" width="{width:.0f}" height="{HEIGHT}" rx="8" fill="{color}"/>'
    text = f'<text x="{x + 12:.0f}" y="{{}}" font-size="{{}}" {{}}>{{}}</text>'
    yield text.format(y + 24, 15, 'font-weight="700" fill="#fff"', escape(title))
    yield text.format(y + 43, 12, 'fill="#f2f2f6"', escape(line))
    for k, step in enumerate(STEPS.get(title, "")[::-1]):
        cx = x + width - 20 - 26 * k
        yield f'<circle cx="{cx:.0f}" cy="{y + 19}" r="11" fill="#ffd166"/>'
        yield (
            f'<text x="{cx:.0f}" y="{y + 24}" font-size="13" font-weight="700" '
            f'text-anchor="middle" fill="#1f2335">{step}</text>'
        )


def drawing():
    """The whole picture."""
    height = 16 + len(LAYERS) * (HEIGHT + GAP) + 8
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 980 {height}" '
        f'font-family="system-ui, \'DejaVu Sans\', Arial, sans-serif" role="img" '
        f'aria-label="App and lab stand on the library. Imports point down. Numbers mark the '
        f'steps of Sieve().fit.">'
    )
    for k, (house, color, rooms) in enumerate(LAYERS):
        y = 16 + k * (HEIGHT + GAP)
        if house:
            yield (
                f'<text x="24" y="{y + 34}" font-size="16" font-weight="700" '
                f'fill="#8a90a0">{house}</text>'
            )
        width = (RIGHT - LEFT - GAP * (len(rooms) - 1)) / len(rooms)
        for j, (title, line) in enumerate(rooms):
            yield from box(LEFT + j * (width + GAP), y, width, color, title, line)
    yield "</svg>"


if __name__ == "__main__":
    Path(__file__).with_suffix(".svg").write_text("\n".join(drawing()) + "\n")
