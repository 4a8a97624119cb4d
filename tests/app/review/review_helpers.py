"""What the tests of the review page share."""

import csv
import json
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import numpy as np

from schirn._files import file_hash
from schirn.app.review._project import checksum

DECISIONS = ("keep", "drop", "swap")


def write_project(folder, items, labels, **head):
    """Write a project; items are (id, text, {label: confidence}[, {label: confidence}]).

    The labels of the second dictionary are suggested. The table has the columns id, text and tags.
    """
    folder.mkdir(exist_ok=True)
    options = {"newline": "", "encoding": "utf-8", "errors": "replace"}
    with (folder / "table.csv").open("w", **options) as stream:
        rows = [(name, text, ";".join(tags)) for name, text, tags, *_ in items]
        csv.writer(stream).writerows([("id", "text", "tags"), *rows])
    document = {
        "format": "schirn-review",
        "version": 6,
        "labels": labels,
        "method": "Sieve",
        "ids": [name for name, *_ in items],
        "texts": [text for _, text, *_ in items],
        "precision": 0.9,
        "keep_one": False,
        "opinions": [],
        "table": {
            "file": "table.csv",
            "column": "tags",
            "separator": ";",
            "content": [],
            "vocabulary": [],
            "text": ["text"],
        },
        **head,
    }
    tags = [
        (i, labels.index(label), value, is_listed and value >= 0.5, value != 0.5, is_listed)
        for i, (_, _, *both) in enumerate(items)
        for is_listed, values in zip((True, False), both, strict=False)
        for label, value in values.items()
    ]
    kinds = {"row": int, "column": int, "confidence": float}
    kinds |= dict.fromkeys(("kept", "judged", "listed"), bool)
    columns = zip(*tags, strict=True) if tags else [()] * len(kinds)
    arrays = {
        name: np.array(values, kind)
        for (name, kind), values in zip(kinds.items(), columns, strict=True)
    }
    np.savez(folder / "tags.npz", **arrays)
    sign(folder, document)
    return folder


def sign(folder, head):
    """Write project.json with the checksums of the table and of itself."""
    table = folder / Path(head["table"]["file"]).name
    if table.is_file():
        head = {**head, "table": {**head["table"], "sha256": file_hash(table)}}
    head = {**head, "sha256": checksum(head, folder / "tags.npz")}
    (folder / "project.json").write_text(json.dumps(head), "utf-8")


def replace_table(folder, content):
    """Replace the table of a project, with a correct checksum."""
    (folder / "table.csv").write_bytes(content.encode("utf-8"))
    sign(folder, json.loads((folder / "project.json").read_text("utf-8")))


def change_tags(folder, **arrays):
    """Write other arrays of tags, given as functions of the old ones; None leaves one out."""
    with np.load(folder / "tags.npz") as archive:
        old = dict(archive)
    new = old | {name: make and make(old[name]) for name, make in arrays.items()}
    np.savez(folder / "tags.npz", **{name: x for name, x in new.items() if x is not None})


def keep_all(folder):
    """Mark all listed tags as kept, as `schirn clean` does without orders."""
    with np.load(folder / "tags.npz") as archive:
        listed = archive["listed"]
    change_tags(folder, kept=lambda _: listed)
    sign(folder, json.loads((folder / "project.json").read_text("utf-8")))


def final_tags(session):
    """One record per item: tags, and those removed, added, and decided by a person."""
    final, project = session.final(), session.project
    latest = {tag: step.record["action"] for step in session.history for tag in step.tags}
    for i, name in enumerate(project.ids):
        tags = {session.name(k): k for k in project.tags_of_row(i)}
        listed = {tag: k for tag, k in tags.items() if project.listed[k]}
        yield {
            "id": name,
            "tags": [tag for tag, k in tags.items() if final[k]],
            "removed": [tag for tag, k in listed.items() if not final[k]],
            "checked": [tag for tag, k in tags.items() if latest.get(k) in DECISIONS],
            "added": [tag for tag, k in tags.items() if final[k] and tag not in listed],
        }


class Server:
    """`schirn review` in a process of its own."""

    def __init__(self, folder, *options):
        command = [sys.executable, "-m", "schirn", "review", str(folder), "--no-browser", *options]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        line = self.process.stdout.readline()
        # Read here, not by `communicate`, which does not see what `readline` has buffered.
        self.saved_in = self.process.stdout.readline()
        assert line.startswith("Review page: "), line + self.process.stderr.read()
        self.address = line.removeprefix("Review page: ").strip()
        parts = urlsplit(self.address)
        self.port, self.token = parts.port, parts.query.removeprefix("token=")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()

    def request(self, path, body=None):
        """The JSON answer to a GET, or to a POST where there is a body."""
        url = f"http://127.0.0.1:{self.port}{path}?token={self.token}"
        headers = {"Origin": f"http://127.0.0.1:{self.port}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        with urlopen(Request(url, data, headers), timeout=60) as answer:
            return json.load(answer)

    def decide(self, action):
        """Act on what the server asks; return the pair."""
        state = self.request("/api/state")
        pair = {key: state["current"][key] for key in ("item", "label")}
        self.request("/api/decide", {"action": action, **pair, "seen": state["seq"]})
        return pair["item"], pair["label"]
