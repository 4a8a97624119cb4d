"""Results pages are rewritten section by section."""

import pytest

from benchmarks.results import main

PAGE = """# Figures

## First

A note.

```console
$ python -c "print('| a |')"
$ A=5 python -c "import os; print(os.environ['A'])"
```

Run on 2020-01-01.

old

## Collected by hand

| kept |

## Last

```console
$ python -c "print('new')"
```

old
"""


@pytest.fixture
def page(tmp_path):
    file = tmp_path / "page.md"
    file.write_text(PAGE, "utf-8")
    return file


def test_output_replaces_what_follows_the_commands(page):
    main([str(page)])
    text = page.read_text("utf-8")
    assert "old" not in text
    assert "A note." in text
    assert "2020" not in text
    assert "| a |\n\n5\n\n## Collected by hand\n\n| kept |\n\n## Last" in text
    assert text.endswith("\n\nnew\n")


def test_one_section(page):
    main([str(page), "--only", "Last"])
    before, after = page.read_text("utf-8").split("## Last")
    assert PAGE.startswith(before)
    assert "new" in after
    with pytest.raises(SystemExit):
        main([str(page), "--only", "None"])
