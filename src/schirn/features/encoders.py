"""Encoders turn texts and pictures into vectors, mostly with pretrained models.

The name of an encoder gives the package that runs the model, and the model:

- ``pixels``: colours and edges of pictures; needs no trained model.
- ``wordllama``: word vectors that are included in the package wordllama, without a download.
- ``model2vec:MODEL``: other word vectors.
- ``sentence-transformers:MODEL``: networks for texts, or for texts and pictures (CLIP).

MODEL is the name of a model to download, or a folder.
"""

import hashlib
import io
import os
import warnings
from collections.abc import Callable, Iterable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from schirn._files import brief, reason_of
from schirn._input import Array, is_missing, suggest
from schirn._optional import optional
from schirn._progress import track
from schirn._sklearn import BaseEstimator, TransformerMixin
from schirn.exceptions import InputError, MissingExtraError
from schirn.features._pixels import FINGERPRINT, N_FEATURES, describe

PIXELS = "pixels"
# Number of texts or pictures encoded together.
_BATCH = {"text": 512, "image": 64}


class Encoder(TransformerMixin, BaseEstimator):
    """Turn texts or pictures into vectors of unit length with a pretrained model.

    Parameters
    ----------
    name : str
        "wordllama", "pixels", or the kind of a model and its name or folder: "model2vec:MODEL" or
        "sentence-transformers:MODEL".
    of : {"text", "image"}
        What to encode.

    Attributes
    ----------
    n_features_ : int
        Length of the vectors.
    fingerprint_ : str
        Hash of the weights; `transform` raises InputError if they have changed since.

    Examples
    --------
    >>> from schirn.features import Encoder
    >>> Encoder("sentence-transformers:all-MiniLM-L6-v2")
    Encoder(name='sentence-transformers:all-MiniLM-L6-v2')
    """

    def __init__(self, name: str = "wordllama", *, of: str = "text") -> None:
        self.name = name
        self.of = of

    def fit(self, X: Any = None, y: Any = None) -> "Encoder":
        """Load the model and record the hash of its weights; nothing is learned.

        Parameters
        ----------
        X, y : ignored

        Returns
        -------
        Encoder
            The encoder itself.
        """
        model = load_model(self.name, self.of)
        self.n_features_ = model.n_features
        self.fingerprint_ = model.fingerprint
        return self

    def transform(self, X: Iterable[Any]) -> Array:
        """Return one vector (n, d) per text or picture, in single precision.

        Parameters
        ----------
        X : sequence of str, or of pictures
            A picture is a path, the content of a file, or a Pillow image. Missing and empty items
            get a vector of zeros.

        Returns
        -------
        (n, d) float32 array
        """
        check_is_fitted(self)
        if isinstance(X, str):
            raise InputError("give a sequence of texts or pictures, not one text")
        model = load_model(self.name, self.of)
        if model.fingerprint != self.fingerprint_:
            raise InputError(
                f"the encoder {brief(self.name)} has other weights than in training; a model needs "
                f"the encoder that it was trained with, or must be trained again",
                parameter="encoder",
            )
        items = list(X)
        vectors = np.zeros((len(items), self.n_features_), dtype=np.float32)
        rows = [i for i, item in enumerate(items) if not _is_empty(item)]
        size = _BATCH[self.of]
        batches = [rows[start : start + size] for start in range(0, len(rows), size)]
        for batch in track(batches, f"batch of {self.of}s", minor=True):
            vectors[batch] = self._encode(model, {i: items[i] for i in batch})
        return vectors

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Return the numbered names of the features.

        Parameters
        ----------
        input_features : ignored
            Present for compatibility with scikit-learn.

        Returns
        -------
        ndarray of str
        """
        check_is_fitted(self)
        return np.array([f"encoder{j}" for j in range(self.n_features_)], dtype=object)

    def _encode(self, model: "Model", items: dict[int, Any]) -> Array:
        """Encode texts or pictures, given by row, as vectors of unit length."""
        if self.of == "text":
            batch: list[Any] = [str(item) for item in items.values()]
        else:
            batch = [_picture(item, row) for row, item in items.items()]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            vectors = np.asarray(model.encode(batch), dtype=np.float32)
        if vectors.shape != (len(batch), self.n_features_) or not np.isfinite(vectors).all():
            raise InputError(
                f"the encoder {brief(self.name)} gives no finite vector for each of the {self.of}s",
                parameter="encoder",
            )
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors / np.where(lengths > 0, lengths, np.float32(1))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.string = True
        return tags


def _is_empty(item: Any) -> bool:
    return is_missing(item) or (isinstance(item, str) and not item.strip())


@dataclass(frozen=True)
class Model:
    """A loaded model."""

    encode: Callable[[list[Any]], Any]
    """Function from texts or Pillow images to vectors."""
    n_features: int
    fingerprint: str


def load_model(name: str, of: str) -> Model:
    """Load a model; raise InputError if it does not exist or cannot be read."""
    kind, _, model = name.partition(":")
    if kind not in KINDS or bool(model) != (kind in _NAMED):
        hint = f"such as {kind}:MODEL" if kind in _NAMED else suggest(kind, KINDS)
        raise InputError(f"there is no encoder {brief(name)}; {hint}", parameter="encoder")
    if of not in KINDS[kind][2]:
        others = ", ".join(other for other, (_, _, kinds, _) in KINDS.items() if of in kinds)
        raise InputError(
            f"the encoder {brief(name)} does not encode {of}s; for these, choose from {others}",
            parameter="encoder",
        )
    return _load(kind, model, of, _changed(Path(model)))


def _changed(folder: Path) -> float:
    """Return the time of the last change in a folder, or 0 if the model is not a folder."""
    return max((file.stat().st_mtime for file in folder.glob("*") if folder.name), default=0.0)


@lru_cache(maxsize=2)
def _load(kind: str, model: str, of: str, changed: float) -> Model:
    """Load a model, cached in memory until its files change."""
    package, extra, _, load = KINDS[kind]
    if find_spec(package) is None:
        optional(package, extra, f"The encoder {kind}")
    # Hide progress bars and advice of the packages, on which users cannot act.
    hidden = io.StringIO()
    try:
        with warnings.catch_warnings(), redirect_stderr(hidden), redirect_stdout(hidden):
            warnings.simplefilter("ignore")
            return load(model, of)
    except (MissingExtraError, MemoryError):
        raise
    except Exception as error:
        raise InputError(
            f"the model {brief(model or kind)} of {kind} cannot be loaded ({reason_of(error)}); "
            f"give the name of a model that can be downloaded from here, or a folder",
            parameter="encoder",
        ) from error


def _wordllama(model: str, of: str) -> Model:
    tokenizers = optional("tokenizers", "encoders", "The encoder wordllama")
    safetensors = optional("safetensors.numpy", "encoders", "The encoder wordllama")
    spec = find_spec("wordllama")
    # Read the files without importing the package: its loader looks for the tokenizer in the wrong
    # folder, and then tries to download it.
    folder = Path(spec.origin or "").parent if spec is not None else Path()
    table = safetensors.load_file(folder / "weights" / "l2_supercat_256.safetensors")
    table = table["embedding.weight"].astype(np.float32)
    words = tokenizers.Tokenizer.from_file(
        str(folder / "tokenizers" / "l2_supercat_tokenizer_config.json")
    )

    def encode(texts: list[str]) -> Array:
        ids = [found.ids for found in words.encode_batch(texts, add_special_tokens=False)]
        start = np.cumsum([0, *map(len, ids)])
        flat = np.array([j for row in ids for j in row], dtype=np.int64)
        # Sums suffice, because vectors are scaled to unit length later.
        counts = sp.csr_array(
            (np.ones(len(flat), np.float32), flat, start), shape=(len(ids), len(table))
        )
        return np.asarray(counts @ table)

    return Model(encode, table.shape[1], fingerprint({"embedding": table}))


def _pixels(model: str, of: str) -> Model:
    def encode(pictures: list[Any]) -> Array:
        return np.stack([describe(picture) for picture in pictures])

    return Model(encode, N_FEATURES, FINGERPRINT)


def _model2vec(model: str, of: str) -> Model:
    from model2vec import StaticModel

    words = StaticModel.from_pretrained(model)
    table = np.asarray(words.embedding)
    return Model(words.encode, table.shape[1], fingerprint({"embedding": table}))


def _sentence_transformers(model: str, of: str) -> Model:
    from sentence_transformers import SentenceTransformer

    # Never run code that comes with a model.
    network = SentenceTransformer(model, trust_remote_code=False)
    encode = partial(network.encode, show_progress_bar=False)
    sample: Any = "a"
    if of == "image":
        sample = optional("PIL.Image", "images", "Encoding pictures").new("RGB", (8, 8))
    state = {name: value.detach().cpu() for name, value in network.state_dict().items()}
    return Model(encode, np.asarray(encode([sample])).shape[1], fingerprint(state))


# For each kind: the package that runs its models, the extra that installs it, what the models
# encode, and the function that loads them.
KINDS: dict[str, tuple[str, str, tuple[str, ...], Callable[[str, str], Model]]] = {
    PIXELS: ("PIL", "images", ("image",), _pixels),
    "wordllama": ("wordllama", "encoders", ("text",), _wordllama),
    "model2vec": ("model2vec", "encoders", ("text",), _model2vec),
    "sentence-transformers": (
        *("sentence_transformers", "networks"),
        *(("text", "image"), _sentence_transformers),
    ),
}
# Kinds that require the name of a model.
_NAMED = ("model2vec", "sentence-transformers")


def fingerprint(arrays: dict[str, Any]) -> str:
    """Return a hash of the weights of a model."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        values = arrays[name]
        if not isinstance(values, np.ndarray):
            # NumPy has no bfloat16, but the hash only needs the bytes.
            import torch

            values = values.reshape(-1).contiguous()
            values = values.view(torch.uint8).numpy() if values.numel() else np.zeros(0)
        digest.update(f"{name} {arrays[name].dtype} {values.shape} ".encode())
        digest.update(np.ascontiguousarray(values).data)
    return digest.hexdigest()


def _picture(item: Any, row: int) -> Any:
    """Return a Pillow image in RGB, given a path, the content of a file, or an image."""
    image = optional("PIL.Image", "images", "Encoding pictures")
    if hasattr(item, "convert"):
        return item.convert("RGB")
    if not isinstance(item, bytes | str | os.PathLike):
        raise InputError(
            f"row {row + 1}: a picture is a path or the content of a file, not {brief(item)}",
            parameter="image",
        )
    try:
        content = item if isinstance(item, bytes) else Path(item).read_bytes()
        with warnings.catch_warnings():
            # A tiny file can decompress to a huge image.
            warnings.simplefilter("error", image.DecompressionBombWarning)
            with image.open(io.BytesIO(content)) as opened:
                return opened.convert("RGB")
    except Exception as error:
        name = "" if isinstance(item, bytes) else f" {brief(os.fspath(item), 200)}"
        raise InputError(
            f"row {row + 1}: the image file{name} cannot be read ({reason_of(error)})",
            parameter="image",
        ) from None
