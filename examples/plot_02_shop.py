"""A messy shop table, from start to tagger
========================================

The tags of a shop come from many hands: the same thing has two names, one tag is on everything, and
some tags are plainly wrong. This page fixes the list of tags, finds the wrong tags with the help of
a language model and fifty answers, and trains a tagger that answers over HTTP. The table is
generated, so that the truth can answer the questions.
"""

import contextlib
import csv
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.request import Request, urlopen

import matplotlib.pyplot as plt
import numpy as np

from schirn.app.cli import main
from schirn.app.workflow import TableCleaning, read_vocabulary, write_vocabulary

WORDS = {
    "coat": "warm winter zip hood sleeve wool long lined",
    "jacket": "light rain zip pocket sleeve sport short lined",
    "pan": "steel fry lid handle oven kitchen cook heavy",
    "mug": "coffee tea cup ceramic kitchen gift handle print",
    "lamp": "bulb shade desk bright light cable metal round",
    "rug": "wool floor soft pattern round woven hall warm",
}
PARENTS = {"coat": "clothing", "jacket": "clothing", "pan": "kitchenware", "mug": "kitchenware"}
N_ROWS = 400 if "SCHIRN_EXAMPLE_QUICK" in os.environ else 1200
folder = Path(tempfile.mkdtemp())
random = np.random.default_rng(0)
truth = []  # the correct tags of every row: nobody has them in practice
with open(folder / "shop.csv", "w", newline="") as stream:
    writer = csv.writer(stream)
    writer.writerow(["sku", "title", "tags"])
    for number in range(N_ROWS):
        kind = str(random.choice(list(WORDS)))
        title = " ".join(random.choice(WORDS[kind].split(), 5, replace=False))
        correct = {kind, PARENTS.get(kind, kind)}
        tags = [kind if random.random() < 0.8 else kind.title() + "s", "online"]
        if kind in PARENTS:
            tags.append(PARENTS[kind])
        if random.random() < 0.3:
            tags.append(str(random.choice(list(WORDS))))
        truth.append(correct)
        writer.writerow([f"A{number}", title, ";".join(dict.fromkeys(tags))])


def schirn(line):
    """Run a command of the program as in a terminal, in the folder of the table."""
    print(f"$ schirn {line}")
    with contextlib.chdir(folder):
        assert main(shlex.split(line)) == 0


# %%
# The list of tags
# ----------------
# First the names: every proposal comes with its evidence, and nothing is changed.

schirn("vocabulary shop.csv --labels tags --text title -o vocabulary.csv")

# %%
# Answer with yes or no in a spreadsheet. Here, all merges and drops are right.

vocabulary = read_vocabulary(folder / "vocabulary.csv")
accepted = {k: line.action in ("merge", "drop") for k, line in enumerate(vocabulary)}
write_vocabulary(vocabulary.answer(accepted), folder / "vocabulary.csv")
# %% Rank, with an opinion --------------------- `TableCleaning` does the work of ``schirn clean``
# and ``schirn review`` as an object. Ask a language model about the most suspicious tags:
# `write_prompts` writes one prompt per line, and sends nothing. This model is wrong in one of ten
# cases.

options = {"labels": "tags", "text": "title", "id": "sku"}
options["vocabulary"] = str(folder / "vocabulary.csv")
first = TableCleaning(folder / "shop.csv", **options)
first.write_prompts(folder / "prompts.jsonl", 200)


def reply(line):
    """Answer a prompt as a language model might."""
    prompt = json.loads(line)
    is_right = prompt["tag"] in truth[int(prompt["id"][1:])]
    if random.random() < 0.1:
        is_right = not is_right
    words = "Yes, it fits." if is_right else "No, this is something else."
    return json.dumps({"id": prompt["id"], "tag": prompt["tag"], "answer": words})


prompts = (folder / "prompts.jsonl").read_text().splitlines()
(folder / "replies.jsonl").write_text("".join(reply(line) + "\n" for line in prompts))
cleaning = TableCleaning(folder / "shop.csv", **options, opinions=[str(folder / "replies.jsonl")])
print(cleaning.ranking.sentence)
print(cleaning.suspects(5)[["id", "text", "tag"]].to_string(index=False))

# %%
# Ask
# ---
# Two rounds of 25 questions; ``schirn review`` asks them on a page. Opinions only change the order
# of the tags: all estimates rest on the answers.

for _ in range(2):
    asked = cleaning.questions(25)
    pairs = zip(asked.row, asked.label, strict=True)
    cleaning.answer(asked, [tag in truth[row] for row, tag in pairs])
print(cleaning.ranking.sentence)

# %% The trade-off ------------- What would be removed at other targets? A lower target removes more
# tags, and more of them by mistake. Diamonds are the expectation after fifty answers, dots the
# truth: so few answers locate the edge between wrong and correct tags only roughly.

is_wrong = np.array(
    [
        tag not in truth[row]
        for row, tag in zip(cleaning.ranking.row, cleaning.ranking.label, strict=True)
    ]
)
figure, axes = plt.subplots(figsize=(7, 3.6))
for line in cleaning.ranking.trade_off():
    if not line.removed:
        continue
    right = is_wrong[cleaning.ranking.at(precision=line.precision).removed].mean()
    shares = [line.right_share, right]
    axes.plot(shares, [line.removed] * 2, color="#c9cdd8", linewidth=3, zorder=1)
    axes.plot(line.right_share, line.removed, "D", color="#b3261e")
    axes.plot(right, line.removed, "o", color="#3b3f4e")
    print(f"target {line.precision:.0%}: {line.removed} removed, expected {line.right_share:.0%}")
axes.plot([], [], "D", color="#b3261e", label="expected by the answers")
axes.plot([], [], "o", color="#3b3f4e", label="true")
axes.set(xlabel="share of the removed tags that are wrong", ylabel="removed tags")
axes.legend(loc="best")

# %%
# Act
# ---
# The table stays as it is: the list of changes is applied to a copy, and can be undone. A command
# without ``-o`` is a dry run.

cleaning.changes().write(folder / "changes.csv")
schirn("apply changes.csv shop.csv")
schirn("apply changes.csv shop.csv -o cleaned.csv")
schirn("undo changes.csv cleaned.csv -o restored.csv")
assert (folder / "restored.csv").read_bytes() == (folder / "shop.csv").read_bytes()

# %%
# A tagger
# --------
# Sieve expects wrong tags: train it on the original table, with the vocabulary. Then serve it.

schirn("fit shop.csv --text title --vocabulary vocabulary.csv -o tagger.schirn")
command = [sys.executable, "-m", "schirn", "serve", str(folder / "tagger.schirn"), "--port", "0"]
body = {"rows": [{"title": "warm wool winter hood"}, {"title": "ceramic tea cup"}]}
server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
try:
    address = re.search(r"http://[\w.:]+", server.stdout.readline())[0]
    request = Request(f"{address}/predict", json.dumps(body).encode())
    request.add_header("Content-Type", "application/json")
    with urlopen(request) as response:
        for row in json.load(response)["rows"]:
            print(row)
finally:
    server.terminate()
    server.communicate()
