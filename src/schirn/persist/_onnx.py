"""Trained predictors as ONNX graphs, for programs without Python or without this library.

The graph repeats the formulas of `decision_function`, `predict_proba` and `predict` with operators
of ONNX: scaling, kernel with the support rows, ridges, label stack and pool for `Sieve`, one matrix
product for linear methods.
"""

import json
import os
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from schirn._files import atomic_write
from schirn._optional import optional
from schirn.estimators import LinearMethod, Sieve
from schirn.exceptions import InputError
from schirn.features import TagPipeline, TextFeatures
from schirn.linalg.features import FeatureScale, Kernel
from schirn.noise.thresholds import LabelThreshold
from schirn.solvers.sieve import SOFT, LabelStack

_OPSET = 18
_IR_VERSION = 9
# Texts need newer operators, and ONNX Runtime's own operator for splitting texts.
_TEXT_OPSET = 20
_TEXT_DOMAIN = "com.microsoft"
# A word has at least two letters, digits or underscores.
_WORD = r"[\p{L}\p{M}\p{N}_][\p{L}\p{M}\p{N}_]+"
_CHARACTER = "[^\x01]"
# Pads the rows of a batch; no word or character sequence contains it.
_FILL = "\x01"
# ONNX files are limited to 2 GiB.
_MOST_BYTES = 2 * 1024**3 - 10**7


def to_onnx(model: Any, path: str | os.PathLike[str], *, dtype: Any = "float32") -> None:
    """Write a trained predictor as an ONNX file, completely or not at all.

    The input ``X`` holds rows of features (n, d). A pipeline that learns from text has one input
    per column of text, with the name of the column and n texts. The outputs are ``scores``,
    ``probabilities`` and ``labels`` (0/1, int64), all (n, l): the results of `decision_function`,
    `predict_proba` and `predict`. The metadata hold ``label_names`` as JSON.

    Graphs of texts need ONNX Runtime 1.17 or later, whose operator ``Tokenizer`` splits texts. No
    operator removes accents or replaces characters, so texts must have no accents, and spaces as
    the only white space. Otherwise the probabilities differ from Python's.

    Parameters
    ----------
    model : method or TagPipeline
        A fitted `Sieve` or linear method (`Schirn`, `NLR`, the ridges and others with `coef_`), or
        a `TagPipeline` of such a method that only learns from text.
    path : path
        File to write, usually with the suffix .onnx. An existing file is replaced.
    dtype : {"float32", "float64"}, default="float32"
        Type of the input, the outputs and all intermediate numbers.

    Raises
    ------
    InputError
        If the graph cannot represent the model: other methods, columns other than text, encoders, a
        transformer before the method, or a threshold that is not a number.

    Examples
    --------
    >>> import tempfile
    >>> import schirn
    >>> from schirn.datasets import make_partial_multilabel
    >>> from schirn.persist import to_onnx
    >>> data = make_partial_multilabel(n_samples=100, n_labels=5, r=1, random_state=0)
    >>> model = schirn.Sieve().fit(data.X, data.candidates)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     to_onnx(model, f"{folder}/sieve.onnx")  # then onnxruntime.InferenceSession(...)
    """
    method = _method_of(model)
    graph = _Graph(np.dtype(dtype), len(method.label_names_))
    if isinstance(model, TagPipeline):
        words: Any = model.features_.text_
        Z = _text_weights(graph, model.features_.names_of("text"), words)
    else:
        Z = graph.input("X", int(method.n_features_in_))
    scores = _scores(graph, method, Z)
    graph.output("scores", scores)
    slope = method.calibration_.slope
    offset = method.calibration_.offset
    log_odds = graph.add(graph.mul(scores, slope), offset)
    graph.output("probabilities", graph.node("Sigmoid", log_odds))
    labels = _predicted(graph, method.threshold_, scores)
    graph.output("labels", labels, np.int64)
    names = json.dumps(method.label_names_)
    content = graph.serialized({"label_names": names, "method": type(method).__name__})
    with atomic_write(path) as stream:
        stream.write(content)


def _method_of(model: Any) -> Any:
    """Return the method to export, if the graph can represent it and its preprocessing."""
    method = model
    if isinstance(model, TagPipeline):
        check_is_fitted(model, "method_")
        method = model.method_
        features = model.features_
        if features.kinds != ["text"] or model.encoder not in (None, "tf-idf"):
            raise InputError(
                f"this pipeline learns from {features.source()}, and a graph makes features of "
                f"text alone, without an encoder; export its method_, and give the graph what "
                f"features_.transform returns"
            )
    if not isinstance(method, Sieve | LinearMethod):
        raise InputError(f"to_onnx knows Sieve and linear methods, not {type(method).__name__}")
    check_is_fitted(method)
    transformer = getattr(method, "transformer_", None)
    if transformer is not None:
        raise InputError(
            f"a graph cannot hold the transformer {transformer!r}; apply it before, and "
            f"fit the method on its output"
        )
    return method


class _Graph:
    """Nodes and constants of a graph; each method returns the name of the added node."""

    def __init__(self, dtype: "np.dtype[Any]", n_labels: int) -> None:
        if dtype not in (np.float32, np.float64):
            raise InputError(f"dtype must be float32 or float64, not {dtype}", parameter="dtype")
        self._onnx = optional("onnx", "onnx", "Writing ONNX files")
        self.dtype = dtype
        self._n_labels = n_labels
        self.element_type = int(self._onnx.helper.np_dtype_to_tensor_dtype(dtype))
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        self._inputs: list[Any] = []
        self._outputs: list[Any] = []
        self._has_texts = False
        self._n_bytes = 0

    def input(self, name: str, n_features: int | None = None) -> str:
        """Add an input: rows of features, or texts."""
        self._has_texts = n_features is None
        kind = self._onnx.TensorProto.STRING if self._has_texts else self.element_type
        shape = ["rows"] if self._has_texts else ["rows", n_features]
        self._inputs.append(self._onnx.helper.make_tensor_value_info(name, kind, shape))
        return name

    def node(self, kind: str, *inputs: str, **options: Any) -> str:
        """Add an operator."""
        name = f"{kind}_{len(self._nodes)}"
        self._nodes.append(self._onnx.helper.make_node(kind, list(inputs), [name], **options))
        return name

    def constant(self, value: Any, dtype: Any = None) -> str:
        """Add an array, by default in the type of the graph."""
        array = value.toarray() if sp.issparse(value) else np.asarray(value)
        self._n_bytes += array.size * np.dtype(dtype or self.dtype).itemsize
        if self._n_bytes > _MOST_BYTES:
            raise InputError(
                f"the model has more than {_MOST_BYTES:,} bytes of numbers, which an ONNX file "
                f"cannot hold; train with fewer landmarks (n_landmarks and max_kernel_rows of "
                f"Sieve), fewer features, or a linear method"
            )
        array = np.ascontiguousarray(array, dtype=dtype or self.dtype)
        name = f"constant_{len(self._constants)}"
        self._constants.append(self._onnx.numpy_helper.from_array(array, name))
        return name

    def axes(self, *axes: int) -> str:
        """Add a list of axes."""
        return self.constant(axes, np.int64)

    def add(self, a: str, value: Any) -> str:
        """Add a constant to a."""
        return self.node("Add", a, self.constant(value))

    def mul(self, a: str, value: Any) -> str:
        """Multiply a by a constant."""
        return self.node("Mul", a, self.constant(value))

    def affine(self, a: str, weights: Any, offset: Any) -> str:
        """Add a @ weights + offset."""
        return self.add(self.node("MatMul", a, self.constant(weights)), offset)

    def kernel(self, kernel: Kernel, Z: str, support: Any) -> str:
        """Add the kernel between rows and support rows."""
        B = support.toarray() if sp.issparse(support) else np.asarray(support)
        products = self.node("MatMul", Z, self.constant(B.T))
        if kernel.name == "linear":
            return products
        squares = np.einsum("ij,ij->i", B, B, dtype=np.float64)
        lengths = self.add(self.node("ReduceSumSquare", Z, self.axes(1), keepdims=1), squares)
        distance = self.node("Sub", lengths, self.mul(products, 2.0))
        distance = self.node("Max", distance, self.constant(0.0))
        return self.node("Exp", self.mul(distance, -1 / kernel.width))

    def output(self, name: str, node: str, dtype: Any = None) -> None:
        """Make a node an output of the graph."""
        helper = self._onnx.helper
        self._nodes.append(helper.make_node("Identity", [node], [name]))
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype or self.dtype))
        self._outputs.append(helper.make_tensor_value_info(name, kind, ["rows", self._n_labels]))

    def serialized(self, metadata: dict[str, str]) -> bytes:
        """Return the content of the file."""
        import schirn

        onnx = self._onnx
        helper = self._onnx.helper
        graph = helper.make_graph(
            self._nodes, "schirn", self._inputs, self._outputs, self._constants
        )
        model = helper.make_model(
            graph,
            opset_imports=[
                helper.make_opsetid("", _TEXT_OPSET if self._has_texts else _OPSET),
                *([helper.make_opsetid(_TEXT_DOMAIN, 1)] if self._has_texts else []),
            ],
            producer_name="schirn",
            producer_version=schirn.__version__,
            ir_version=_IR_VERSION,
        )
        helper.set_model_props(model, metadata)
        onnx.checker.check_model(model)
        return bytes(model.SerializeToString())


def _text_weights(graph: _Graph, columns: list[str], features: TextFeatures) -> str:
    """Add `TextFeatures.transform` of one or more columns of text."""
    space = graph.constant([" "], object)
    text = space
    for name in columns:
        text = graph.node("StringConcat", text, graph.input(name))
        text = graph.node("StringConcat", text, space)
    # This locale lower-cases letters outside ASCII, and exists on every system.
    text = graph.node("StringNormalizer", text, case_change_action="LOWER", locale="C.UTF-8")
    grams = [tuple(term.split(" ")) for term in features.words_]
    blocks = [_tf_idf(graph, text, _WORD, grams, features.idf_)]
    if features.n_characters:
        grams = [tuple(term) for term in features.characters_]
        blocks.append(_tf_idf(graph, text, _CHARACTER, grams, features.characters_idf_))
    weights = graph.node("Concat", *blocks, axis=1) if len(blocks) > 1 else blocks[0]
    return _unit_rows(graph, weights)


def _tf_idf(graph: _Graph, text: str, token: str, grams: list[tuple[str, ...]], idf: Any) -> str:
    """Add the weights of terms, sequences of tokens, in rows of unit length."""
    options: dict[str, Any] = {"mark": 0, "mincharnum": 1, "pad_value": _FILL, "tokenexp": token}
    tokens = graph.node("Tokenizer", text, domain=_TEXT_DOMAIN, **options)
    # The operator needs the terms sorted by length.
    order = sorted(range(len(grams)), key=lambda j: len(grams[j]))
    lengths = [len(grams[j]) for j in order]
    longest = max(lengths)
    sizes = [
        sum(length * lengths.count(length) for length in range(1, n)) for n in range(1, longest + 1)
    ]
    counts = graph.node(
        "TfIdfVectorizer",
        tokens,
        mode="TF",
        min_gram_length=min(lengths),
        max_gram_length=longest,
        max_skip_count=0,
        ngram_counts=sizes,
        ngram_indexes=order,
        pool_strings=[word for j in order for word in grams[j]],
    )
    counts = graph.node("Cast", counts, to=graph.element_type)
    # 1 + log(count) for the terms of a text.
    one = graph.constant(1.0)
    logs = graph.node("Add", graph.node("Log", graph.node("Max", counts, one)), one)
    logs = graph.node("Mul", logs, graph.node("Min", counts, one))
    return _unit_rows(graph, graph.mul(logs, idf))


def _unit_rows(graph: _Graph, X: str) -> str:
    """Scale rows to unit length; rows of zeros stay."""
    length = graph.node("ReduceL2", X, graph.axes(1), keepdims=1)
    is_zero = graph.node("Equal", length, graph.constant(0.0))
    length = graph.node("Where", is_zero, graph.constant(1.0), length)
    return graph.node("Div", X, length)


def _scores(graph: _Graph, method: Any, Z: str) -> str:
    """Add the scores of a method."""
    if isinstance(method, LinearMethod):
        return graph.affine(Z, method.coef_.T, method.intercept_)
    pool = method.pool_
    ridges = method.expansion_
    K = _scaled(graph, method.scale_, Z)
    if ridges.support is not None:
        K = graph.kernel(ridges.kernel, K, ridges.support)
    experts = [graph.affine(K, W, b) for W, b in zip(ridges.weights, ridges.offsets, strict=True)]
    if pool.stack is not None:
        experts.append(_stacked(graph, pool.stack, experts[pool.leader]))
    weights = pool.weights.tolist()
    total = graph.constant(weights[0] + weights[-1] * pool.prior)
    for weight, expert in zip(weights[1:-1], experts, strict=True):
        total = graph.node("Add", total, graph.mul(_soft_logit(graph, expert), weight))
    return total


def _scaled(graph: _Graph, scale: FeatureScale, X: str) -> str:
    """Add `FeatureScale.transform`."""
    if scale.kind == "none":
        return X
    if scale.kind == "spread":
        return graph.mul(graph.add(X, -scale.shift), scale.weights)
    size = graph.node("Log", graph.add(graph.node("Abs", X), 1.0))
    weighted = graph.mul(graph.node("Mul", graph.node("Sign", X), size), scale.weights)
    # Rows without words stay 0.
    return _unit_rows(graph, weighted)


def _stacked(graph: _Graph, stack: LabelStack, S: str) -> str:
    """Add `LabelStack.scores`."""
    scores = graph.node("MatMul", graph.add(S, -stack.centre), graph.constant(stack.W))
    if stack.right is not None:
        scores = graph.node("MatMul", scores, graph.constant(stack.right))
    return graph.add(scores, stack.mean)


def _soft_logit(graph: _Graph, s: str) -> str:
    """Add `soft_logit` of `schirn.solvers.sieve`."""

    def positive(x: str) -> str:
        squares = graph.add(graph.node("Mul", x, x), 4 * SOFT**2)
        roots = graph.node("Add", graph.node("Abs", x), graph.node("Sqrt", squares))
        large = graph.mul(roots, 0.5)
        small = graph.node("Div", graph.constant(SOFT**2), large)
        is_positive = graph.node("Greater", x, graph.constant(0.0))
        return graph.node("Where", is_positive, large, small)

    complement = positive(graph.node("Sub", graph.constant(1.0), s))
    return graph.node("Log", graph.node("Div", positive(s), complement))


def _predicted(graph: _Graph, rule: LabelThreshold, scores: str) -> str:
    """Add `LabelThreshold.apply`."""
    if rule.top is not None or rule.scale_rows or rule.slopes is not None:
        raise InputError(
            "a graph compares scores with a number or one number per label; fit with such a "
            "threshold"
        )
    above = graph.node("Greater", scores, graph.constant(rule.cut))
    return graph.node("Cast", above, to=7)
