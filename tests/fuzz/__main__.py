"""Fuzz every reader for a while: python tests/fuzz --seconds 600 (or: make fuzz).

Each target runs in a process of its own, so that a crash of a library below is seen too. With
atheris the files follow the code they reach; else hypothesis draws them; `--engine random` draws
more of them, but does not shrink one that breaks a reader. Such a file is kept in `--crashes`; put
it into tests/fuzz/examples.py together with the fix. The last line counts all files.
"""

import argparse
import importlib.util
import os
import random
import re
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=600.0, help="for all targets together")
    parser.add_argument("--targets", help="names with commas; default: all")
    parser.add_argument("--seed", type=int, default=None, help="of the order and the files")
    parser.add_argument("--crashes", type=Path, default=Path("fuzz-crashes"))
    parser.add_argument(
        "--engine", choices=("auto", "atheris", "hypothesis", "random"), default="auto"
    )
    parser.add_argument("--child", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        return run_child(args)
    return run_all(args)


def run_all(args: argparse.Namespace) -> int:
    """Give every target an equal part of the time, in rounds."""
    from fuzz.targets import TARGETS

    names = args.targets.split(",") if args.targets else list(TARGETS)
    if args.engine == "auto":
        args.engine = "atheris" if importlib.util.find_spec("atheris") else "hypothesis"
    args.crashes.mkdir(exist_ok=True)
    seed = random.SystemRandom().randrange(2**31) if args.seed is None else args.seed
    print(f"fuzzing {len(names)} readers for {args.seconds:g} s with {args.engine}, seed {seed}")
    end, bad, done, files = time.monotonic() + args.seconds, set(), 0, 0
    share = max(2.0, min(30.0, args.seconds / len(names)))
    while (left := end - time.monotonic()) > 1:
        name = names[done % len(names)]
        held, count = start_child(args, name, min(share, left), seed + done)
        files += count
        if not held:
            bad.add(name)
        done += 1
    told = f"broken: {', '.join(sorted(bad))}" if bad else "nothing broke"
    print(f"{done} rounds, {files:,} files; {told}")
    return 1 if bad else 0


def start_child(args: argparse.Namespace, name: str, seconds: float, seed: int) -> tuple[bool, int]:
    """Fuzz one target in a process; whether it held, and the number of files."""
    command = [sys.executable, str(HERE), "--child", name, "--seconds", str(seconds)]
    command += ["--seed", str(seed), "--crashes", str(args.crashes), "--engine", args.engine]
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 600)
        code, told = ran.returncode, ran.stdout + ran.stderr
    except subprocess.TimeoutExpired:
        code, told = -1, "the process did not end"
    last = told.strip().splitlines()[-1] if told.strip() else ""
    print(f"{name:14} {'held' if code == 0 else f'BROKE (exit code {code})'}  {last[:150]}")
    if code:
        (args.crashes / f"{name}-{seed}.log").write_text(told)
    count = re.match(r"([\d,]+) files", last)
    return code == 0, int(count[1].replace(",", "")) if count else 0


def run_child(args: argparse.Namespace) -> int:
    """Fuzz one target in this process."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if args.engine == "atheris":
        return run_atheris(args)
    return run_random(args) if args.engine == "random" else run_hypothesis(args)


def run_random(args: argparse.Namespace) -> int:
    """Try random files until the time is over; the first that breaks the reader is kept."""
    from fuzz.guarded import read_safely
    from fuzz.mutate import Random
    from fuzz.strategies import damaged_file

    choose, end = Random(args.seed), time.monotonic() + args.seconds
    count, taken = 0, 0
    part = args.crashes / f"{args.child}-{args.seed}.last"
    # Written to a file that stays open: a process that dies cannot say what killed it.
    with part.open("wb", buffering=0) as last:
        while time.monotonic() < end:
            data = damaged_file(choose, args.child)
            last.seek(0)
            last.truncate()
            last.write(data)
            taken += read_safely(args.child, data)
            count += 1
    part.unlink()
    print(f"{count:,} files, {taken:,} of them readable")
    return 0


def run_hypothesis(args: argparse.Namespace) -> int:
    """Draw files until the time is over; the first that breaks the reader is shrunk and kept."""
    from fuzz.guarded import read_safely
    from fuzz.strategies import damaged
    from hypothesis import HealthCheck, given, seed, settings
    from hypothesis import strategies as st

    kept = args.crashes / f"{args.child}-{args.seed}.bin"
    end, count, taken = time.monotonic() + args.seconds, 0, 0

    @settings(
        max_examples=1000, deadline=None, database=None, suppress_health_check=list(HealthCheck)
    )
    @given(st.data())
    def check(source: st.DataObject) -> None:
        nonlocal count, taken
        data = source.draw(damaged(args.child))
        if time.monotonic() > end and not kept.exists():
            return
        # On disk before the read: a process that dies cannot say what killed it.
        part = kept.with_suffix(".last")
        part.write_bytes(data)
        try:
            taken += read_safely(args.child, data)
            count += 1
        except BaseException:
            kept.write_bytes(data)
            raise
        part.unlink()

    round_number = 0
    while time.monotonic() < end:
        seed(args.seed * 1000 + round_number)(check)()
        round_number += 1
    print(f"{count:,} files, {taken:,} of them readable")
    return 0


def run_atheris(args: argparse.Namespace) -> int:
    """Let libFuzzer change the seeds; what the code under test reaches guides it."""
    import atheris

    with atheris.instrument_imports(include=["schirn"]):
        from fuzz.corpus import corpus
        from fuzz.guarded import read_safely

    seeds = args.crashes / f"seeds-{args.child}"
    seeds.mkdir(exist_ok=True)
    for k, data in enumerate(corpus(args.child)):
        (seeds / f"seed-{k}").write_bytes(data)
    options = [
        sys.argv[0],
        f"-max_total_time={max(1, int(args.seconds))}",
        f"-seed={args.seed % 2**31 or 1}",
        f"-artifact_prefix={args.crashes}/{args.child}-",
        "-max_len=65536",
        "-rss_limit_mb=4096",
        "-print_final_stats=0",
        str(seeds),
    ]
    atheris.Setup(options, lambda data: read_safely(args.child, data) and None)
    atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
