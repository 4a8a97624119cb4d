"""`schirn export`: write a model for programs without this library."""

import argparse
from typing import Any

from schirn._files import check_writable
from schirn.cli.output import facts, print_json
from schirn.cli.parser import add_command
from schirn.cli.reading import check_not_input
from schirn.exceptions import InputError
from schirn.features import TagPipeline
from schirn.persist import load, to_onnx

_EXAMPLES = """
schirn export photos.schirn -o photos.onnx
schirn export tagger.schirn --classifier -o classifier.onnx
"""
_OPTIONS = """
model MODEL  a file written by schirn fit
-o, --output FILE!  file to write
--double  use double instead of single precision
--classifier  write the part of a model that takes features of texts or pictures
"""


def add(found: Any) -> None:
    """Add the command."""
    add_command(
        found,
        "export",
        run,
        description="Write a model as an ONNX file, for ONNX Runtime and other programs. Its input "
        "X holds rows of features; its outputs are scores, probabilities and labels (0/1). Sieve, "
        "linear methods, PMLMA, PMLPLR and PARD can be exported. Texts must be turned "
        "into features beforehand.",
        examples=_EXAMPLES,
        options=_OPTIONS,
    )


def run(args: argparse.Namespace) -> None:
    """Read the model, write the file, say what its input is."""
    check_not_input(args.output, args.model)
    check_writable(args.output)
    model: Any = load(args.model)
    source = None
    if isinstance(model, TagPipeline):
        source = model.features_.source()
        is_numeric = model.features_.columns is not None or model.features_.vectors is not None
        if not is_numeric and not args.classifier:
            raise InputError(
                f"{args.model}: learns from {source}, and an ONNX file cannot make features of "
                f"texts or pictures as this library does; --classifier writes the part after it"
            )
        model = model.method_ if args.classifier else model
    dtype = "float64" if args.double else "float32"
    to_onnx(model, args.output, dtype=dtype)
    method = getattr(model, "method_", model)
    summary = {
        "model": args.model,
        "method": type(method).__name__,
        "features": int(method.n_features_in_),
        "labels": len(method.label_names_),
        "dtype": dtype,
        "output": args.output,
    }
    if args.json:
        print_json({**summary, "learned_from": source})
        return
    numbers = f"{summary['features']:,} numbers per row"
    facts(
        [
            ("model", f"{args.model} ({summary['method']})"),
            ("input", f"X: {numbers}" + (f", made from {source}" if source else "")),
            ("outputs", f"scores, probabilities and labels: {summary['labels']:,} per row"),
            ("precision", "double" if args.double else "single"),
            ("output", args.output),
        ]
    )
