"""A nightly job on a database, with monitoring
============================================

A shop keeps its items in SQLite, and new ones come every day. A job judges only what is new,
asks a person about 25 tags, writes the clean tags back in one transaction, and stops before it does
harm if the table looks wrong. DuckDB works the same way: write ``duckdb:`` for ``sqlite:``.
"""

import contextlib
import csv
import io
import json
import os
import sqlite3
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from schirn.app.cli import main

WORDS = {
    "coat": "warm winter zip hood sleeve wool long lined",
    "pan": "steel fry lid handle oven kitchen cook heavy",
    "mug": "coffee tea cup ceramic kitchen gift handle print",
    "lamp": "bulb shade desk bright light cable metal round",
}
N_ROWS = 240 if "SCHIRN_EXAMPLE_QUICK" in os.environ else 600
folder = Path(tempfile.mkdtemp())
random = np.random.default_rng(0)
truth = {}  # the correct tag of every item, which answers the questions here


def add_items(count, words=WORDS):
    """Add items of a day to the database; one of six gets a wrong tag."""
    rows = []
    for _ in range(count):
        sku = f"A{len(truth)}"
        kind = str(random.choice(list(words)))
        title = " ".join(random.choice(words[kind].split(), 5, replace=False))
        tags = [kind]
        if random.random() < 1 / 6:
            tags.append(str(random.choice([tag for tag in WORDS if tag != kind])))
        truth[sku] = kind
        rows.append((sku, title, ";".join(tags)))
    with contextlib.closing(sqlite3.connect(folder / "shop.db")) as shop, shop:
        shop.execute("CREATE TABLE IF NOT EXISTS items (sku TEXT, title TEXT, tags TEXT)")
        shop.executemany("INSERT INTO items VALUES (?, ?, ?)", rows)


def wrong_share():
    """Share of the tags in the database that are wrong."""
    with contextlib.closing(sqlite3.connect(folder / "shop.db")) as shop:
        rows = shop.execute("SELECT sku, tags FROM items").fetchall()
    return np.mean([tag != truth[sku] for sku, cell in rows for tag in cell.split(";")])


def schirn(*words):
    """Run a command in the folder of the job; return its exit code and what it prints."""
    output = io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(output):
        code = main(list(words))
    return code, output.getvalue()


# %% Once ---- All options go into ``schirn.toml``, the limits for a normal night into
# ``expect.toml``. `fit` trains a tagger, and remembers every row by its id.

(folder / "schirn.toml").write_text("""\
id = "sku"
query = "SELECT sku, title, tags FROM items"
decisions = "decisions.jsonl"

[fit]
labels = "tags"
text = ["title"]
output = "tagger.schirn"

[update]
model = "tagger.schirn"
questions = "ask.csv"
changes = "changes.csv"
expect = "expect.toml"
""")
(folder / "expect.toml").write_text("""\
removed_share = 0.3
[drift]
gone_rows = 0.2
features = 0.5
""")
add_items(N_ROWS)
print(f"{wrong_share():.1%} of the tags are wrong")
code, text = schirn("fit", "sqlite:shop.db")
print(f"exit code {code}\n{text}")

# %%
# Every night
# -----------
# One command judges new rows, reads the answers that somebody wrote into ``ask.csv``, asks again,
# and lists the changes; a second one writes them into the database. ``--json`` is for the monitor.


def answer():
    """Fill in the questions of the night, as a person does in a spreadsheet."""
    with open(folder / "ask.csv", newline="") as stream:
        lines = list(csv.DictReader(stream))
    for line in lines:
        line["right"] = "yes" if truth[line["id"]] == line["tag"] else "no"
    with open(folder / "ask.csv", "w", newline="") as stream:
        writer = csv.DictWriter(stream, lines[0])
        writer.writeheader()
        writer.writerows(lines)


def night():
    """Run the job; return its exit code and the figures for the monitor."""
    code, text = schirn("update", "sqlite:shop.db", "--json")
    figures = json.loads(text)
    if code == 0:
        answer()
        database = ("sqlite:shop.db", "--write-back", "items.tags", "--commit")
        assert schirn("apply", "changes.csv", *database)[0] == 0
    return code, figures


nights = []
for _ in range(4):
    add_items(N_ROWS // 8)
    nights.append(night())
for code, figures in nights:
    print(
        f"exit code {code}: {figures['new_rows']} new rows, {figures['answers_since']} answers, "
        f"{figures['removed']} tags removed; {'; '.join(figures['advice'])}"
    )

# %%
# Two bad nights
# --------------
# A new supplier sells rugs, which the model has never seen. Exit code 4 is for the scheduler:
# nothing is replaced, neither the state nor the questions. Training again helps; answers are kept.


def why(figures):
    """The limits that a night exceeds, and the advice."""
    violations = [violation["sentence"] for violation in figures["violations"]]
    return "; ".join(violations + figures["advice"])


add_items(N_ROWS // 8, {"rug": "wool floor soft pattern woven hall thread knot"})
nights.append(night())
print(f"exit code {nights[-1][0]}: {why(nights[-1][1])}")
schirn("fit", "sqlite:shop.db")
nights.append(night())
print(f"exit code {nights[-1][0]} after training again")

# %%
# Then half of the table is missing, and comes back the night after.

with contextlib.closing(sqlite3.connect(folder / "shop.db")) as shop, shop:
    shop.execute("CREATE TABLE backup AS SELECT * FROM items")
    shop.execute("DELETE FROM items WHERE rowid % 2")
nights.append(night())
print(f"exit code {nights[-1][0]}: {why(nights[-1][1])}")
with contextlib.closing(sqlite3.connect(folder / "shop.db")) as shop, shop:
    shop.execute("DELETE FROM items")
    shop.execute("INSERT INTO items SELECT * FROM backup")
nights.append(night())
print(f"exit code {nights[-1][0]}")

# %% What the monitor shows; red nights were stopped. ``schirn serve`` has its own figures under
# ``/metrics``.

place = np.arange(1, len(nights) + 1)
is_stopped = np.array([code != 0 for code, _ in nights])
gone = np.array([figures["gone_share"] for _, figures in nights])
drift = np.array([figures["feature_drift"] or 0 for _, figures in nights])
figure, panels = plt.subplots(2, 1, figsize=(7, 4.6), sharex=True)
for panel, values, limit in ((panels[0], gone, 0.2), (panels[1], drift, 0.5)):
    panel.bar(place[~is_stopped], values[~is_stopped], color="#0072B2")
    panel.bar(place[is_stopped], values[is_stopped], color="#b3261e")
    panel.axhline(limit, color="#8a8fa3", linestyle="--", linewidth=1)
panels[0].set(ylabel="share of rows gone")
panels[1].set(xlabel="night", ylabel="drift of the texts")

# %%
# How well did it go? This check uses the true tag of every item, not just 25 answers a night.

print(f"{wrong_share():.1%} of the tags in the database are wrong")
