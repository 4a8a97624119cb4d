"""Write the file of this folder with the tool itself; not run by the tests.

    pip install label-studio-sdk==2.1.2
    python tests/tables/annotations/write.py

Label Studio exports tasks as its server keeps them; its own converter makes the file from these.
"""

import json
import random
import tempfile
import uuid
from pathlib import Path

from label_studio_sdk.converter import Converter

HERE = Path(__file__).parent
CONFIG = """<View>
  <Text name="text" value="$text"/>
  <Choices name="topics" toName="text" choice="multiple">
    <Choice value="kitchen"/><Choice value="garden"/>
    <Choice value="office"/><Choice value="lights"/>
  </Choices>
</View>"""
WORDS = {
    "kitchen": [
        "steel pan with lid",
        "sharp kitchen knife",
        "oven and baking tray",
        "pot for soup",
    ],
    "garden": ["green garden hose", "seeds for flowers", "rake and spade", "pot for flowers"],
    "office": ["desk with drawers", "paper for the printer", "chair on wheels", "pens and paper"],
    "lights": ["lamp for the desk", "bulb of 40 watts", "chain of lights", "lamp for the garden"],
}
ROOMS = ["small", "large", "cheap", "used", "new", "blue"]


def rows():
    """Texts, their topic, and for every sixth one a wrong topic beside it."""
    topics, found, rng = list(WORDS), [], random.Random(0)
    for room in ROOMS:
        for topic in topics:
            for words in WORDS[topic]:
                others = [each for each in topics if each != topic]
                tags = [topic, rng.choice(others)] if rng.random() < 1 / 6 else [topic]
                rng.shuffle(tags)
                found.append((f"{room} {words}", tags))
    return found


def task(number, text, tags):
    """A task as the server of Label Studio exports it."""
    moment = "2026-01-05T10:00:00.000000Z"
    result = {
        "value": {"choices": tags},
        "id": f"r{number}",
        "from_name": "topics",
        "to_name": "text",
        "type": "choices",
        "origin": "manual",
    }
    annotation = {
        "id": 100 + number,
        "completed_by": 1,
        "result": [result],
        "was_cancelled": False,
        "ground_truth": False,
        "created_at": moment,
        "updated_at": moment,
        "draft_created_at": None,
        "lead_time": 4.2,
        "prediction": {},
        "result_count": 1,
        "unique_id": str(uuid.UUID(int=number)),
        "import_id": None,
        "last_action": None,
        "bulk_created": False,
        "task": number,
        "project": 7,
        "updated_by": 1,
        "parent_prediction": None,
        "parent_annotation": None,
        "last_created_by": None,
    }
    return {
        "id": number,
        "annotations": [annotation],
        "file_upload": "shop.csv",
        "drafts": [],
        "predictions": [],
        "data": {"text": text, "price": 10 + number % 5},
        "meta": {},
        "created_at": moment,
        "updated_at": moment,
        "inner_id": number,
        "total_annotations": 1,
        "cancelled_annotations": 0,
        "total_predictions": 0,
        "comment_count": 0,
        "unresolved_comment_count": 0,
        "last_comment_updated_at": None,
        "project": 7,
        "updated_by": 1,
        "comment_authors": [],
    }


def main():
    """Write the file."""
    tasks = [task(k + 1, text, tags) for k, (text, tags) in enumerate(rows())]
    twice = next(k for k, (_, tags) in enumerate(rows()) if len(tags) == 2)
    # A second person, who agrees in part, and one who skipped the task.
    second = json.loads(json.dumps(tasks[twice]["annotations"][0])) | {"id": 900, "completed_by": 2}
    second["result"][0]["value"]["choices"] = tasks[twice]["annotations"][0]["result"][0]["value"][
        "choices"
    ][:1]
    skipped = second | {"id": 901, "completed_by": 3, "was_cancelled": True}
    tasks[twice]["annotations"] += [second, json.loads(json.dumps(skipped))]
    tasks[twice]["annotations"][-1]["result"][0]["value"]["choices"] = ["lights"]
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "tasks.json")
        source.write_text(json.dumps(tasks))
        converter = Converter(CONFIG, project_dir=None)
        converter.convert(str(source), f"{folder}/JSON", "JSON", is_dir=False)
        text = Path(folder, "JSON", "result.json").read_text()
        Path(HERE, "label_studio.json").write_text(text)


if __name__ == "__main__":
    main()
