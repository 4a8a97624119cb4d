"""`schirn export`: write a model for programs without this library."""

import argparse
from typing import Any

from schirn._files import check_writable
from schirn.cli.output import facts, print_json
from schirn.cli.reading import check_not_input
from schirn.exceptions import InputError
from schirn.features import TagPipeline
from schirn.persist import load, to_onnx

OPTIONS = """
model MODEL  a file written by schirn fit
-o, --output FILE!  file to write
--classifier  write the part of a model after its features; needed for columns other than text
"""


def run(args: argparse.Namespace) -> None:
    """Write a model as an ONNX file, for ONNX Runtime and other programs.

    Its input X holds rows of features; a model of texts has one input per column of text. The
    outputs are scores, probabilities and labels (0/1). Sieve and linear methods can be exported.

    Examples
    --------
    schirn export tagger.schirn -o tagger.onnx
    schirn export photos.schirn --classifier -o photos.onnx
    """
    check_not_input(args.output, args.model)
    check_writable(args.output)
    model: Any = load(args.model)
    source = None
    if isinstance(model, TagPipeline):
        source = model.features_.source()
        if not args.classifier and model.features_.kinds != ["text"]:
            raise InputError(
                f"{args.model}: learns from {source}, and an ONNX file can make features of text "
                f"alone; --classifier writes the part after the features"
            )
        model = model.method_ if args.classifier else model
    to_onnx(model, args.output)
    method = getattr(model, "method_", model)
    summary = {
        "model": args.model,
        "method": type(method).__name__,
        "features": int(method.n_features_in_),
        "labels": len(method.label_names_),
        "output": args.output,
    }
    if args.json:
        print_json({**summary, "learned_from": source})
        return
    texts = [] if source is None or args.classifier else model.features_.names_of("text")
    what = f"X: {summary['features']:,} numbers per row{f', made from {source}' if source else ''}"
    facts(
        {
            "model": f"{args.model} ({summary['method']})",
            "input": f"{', '.join(texts)}: one text per row, without accents" if texts else what,
            "outputs": f"scores, probabilities and labels: {summary['labels']:,} per row",
            "output": args.output,
        }
    )
