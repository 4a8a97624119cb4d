"""Where the time of `schirn reproduce` goes: CPU seconds of one fold, by table and method.

    SCHIRN_DATA=folder python -m benchmarks.reproduction_cost birds:3 scene:1

The first fold of every setting is run in the order of the program, in which fits to the same rows
share work. The last column multiplies by the number of folds of the plan. Studies are not included.
"""

import argparse
import time
from collections import Counter
from pathlib import Path

from threadpoolctl import threadpool_limits

from schirn.lab.bench.running._execute import data_key, execute, load_data
from schirn.lab.reproduction import FULL, make_plan
from schirn.lab.reproduction._plan import plan_batches


def measure(setting: str) -> tuple[Counter, Counter]:
    """CPU seconds of fold 0 by table and method, and number of folds of each."""
    plan = make_plan(FULL, sets=[setting])
    seconds: Counter = Counter()
    folds: Counter = Counter()
    data = {}
    for batch in plan_batches(plan, Path("unused"), []):
        for run in batch.runs:
            name = (batch.folder.name, run.method.name)
            folds[name] += 1
            if run.fields["fold"] != 0:
                continue
            if data_key(run) not in data:
                data = {data_key(run): load_data(run)}
            start = time.process_time()
            execute(run, data[data_key(run)])
            seconds[name] += time.process_time() - start
    return seconds, folds


def main(arguments: list[str] | None = None) -> None:
    """Print one table per setting."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("settings", nargs="+", help="such as birds:3")
    args = parser.parse_args(arguments)
    for setting in args.settings:
        with threadpool_limits(1):
            seconds, folds = measure(setting)
        print(f"**{setting}**\n\n| table | method | CPU s of one fold | of all folds |")
        print("|---|---|--:|--:|")
        for name, value in seconds.most_common():
            print(f"| {' | '.join(name)} | {value:.2f} | {value * folds[name]:.1f} |")
        total = sum(value * folds[name] for name, value in seconds.items())
        print(f"| all | | {sum(seconds.values()):.1f} | {total:.0f} |\n", flush=True)


if __name__ == "__main__":
    main()
