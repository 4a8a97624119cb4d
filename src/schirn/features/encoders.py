"""Encoders: texts and pictures as vectors, mostly of models that were trained elsewhere.

The name of an encoder says which package runs the model, and which model it is:

- ``pixels``: colours and edges of pictures; needs no trained model.
- ``wordllama``: word vectors that come with the package wordllama; no download.
- ``model2vec:MODEL``: other word vectors.
- ``sentence-transformers:MODEL``: networks for texts, or for texts and pictures (CLIP).
- ``open-clip:MODEL``: networks for pictures, such as ``ViT-B-32/laion2b_s34b_b79k``.
- ``torchvision:MODEL``: networks for pictures, such as ``resnet50``.

MODEL is a name, which the package downloads, or a folder; for torchvision a file of weights named
after the network, such as ``resnet50-11ad3fa6.pth``. A folder alone is enough if its files show
what it is.
"""

import hashlib
import io
import json
import os
import sqlite3
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing, redirect_stderr, redirect_stdout
from functools import lru_cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from schirn._files import brief, reason_of
from schirn._input import Array, is_missing, suggest
from schirn._optional import optional
from schirn._progress import track
from schirn.datasets.cache import cache_folder
from schirn.exceptions import InputError, MissingExtraError
from schirn.features.pixels import FINGERPRINT, N_FEATURES, describe

PIXELS = "pixels"
CACHE_FILE = "encoded.sqlite"
MAX_CACHE_BYTES = 1 << 30
# Texts or pictures that are encoded and put into the cache together.
_BATCH = {"text": 512, "image": 64}


class Encoder(TransformerMixin, BaseEstimator):
    """Turn texts or pictures into vectors of unit length, with a model that was trained elsewhere.

    What a network has encoded is kept in the folder of downloads, by a hash of its content and of
    the weights, so that no text or picture is encoded twice. The file `encoded.sqlite` holds at
    most one gigabyte, and may be deleted at any time.

    Parameters
    ----------
    name : str
        "wordllama", "pixels", or the kind of a model and its name or folder: "model2vec:MODEL",
        "sentence-transformers:MODEL", "open-clip:MODEL" or "torchvision:MODEL". A folder alone is
        enough if its files show what it is.
    of : {"text", "image"}
        What to encode.
    cache : bool
        Whether to keep the vectors.

    Attributes
    ----------
    n_features_ : int
        Length of the vectors.
    fingerprint_ : str
        Hash of the weights; `transform` raises InputError if the model has others by then.

    Examples
    --------
    >>> from schirn.features import Encoder
    >>> Encoder("sentence-transformers:all-MiniLM-L6-v2")
    Encoder(name='sentence-transformers:all-MiniLM-L6-v2')
    """

    def __init__(self, name: str = "wordllama", *, of: str = "text", cache: bool = True) -> None:
        self.name = name
        self.of = of
        self.cache = cache

    def fit(self, X: Any = None, y: Any = None) -> "Encoder":
        """Load the model, and note its weights; nothing is learned.

        Parameters
        ----------
        X, y : ignored
        """
        model = load_model(self.name, self.of)
        self.n_features_, self.fingerprint_ = model.n_features, model.fingerprint
        return self

    def transform(self, X: Iterable[Any]) -> Array:
        """Return one vector (n, d) per text or picture, in single precision.

        Parameters
        ----------
        X : sequence of str, or of pictures
            A picture is a path, the content of a file, or an image of Pillow. What is missing or
            empty gets a vector of zeros.
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
        keys = [self._key(item, i) for i, item in enumerate(items)]
        # Equal texts and pictures are encoded once.
        first: dict[bytes, int] = {}
        for i, key in enumerate(keys):
            if key is not None:
                first.setdefault(key, i)
        cache = VectorCache() if self.cache and model.is_slow else None
        vectors = {} if cache is None else cache.get(list(first), self.n_features_)
        new = [key for key in first if key not in vectors]
        size = _BATCH[self.of]
        batches = [new[start : start + size] for start in range(0, len(new), size)]
        for batch in track(batches, f"batch of {self.of}s", minor=True):
            encoded = self._encode(model, {first[key]: items[first[key]] for key in batch})
            batch_vectors = dict(zip(batch, encoded, strict=True))
            if cache is not None:
                cache.put(batch_vectors)
            vectors |= batch_vectors
        zeros = np.zeros(self.n_features_, dtype=np.float32)
        rows = [zeros if key is None else vectors[key] for key in keys]
        return np.array(rows, dtype=np.float32).reshape(len(rows), self.n_features_)

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Return the numbered names of the features."""
        check_is_fitted(self)
        return np.array([f"encoder{j}" for j in range(self.n_features_)], dtype=object)

    def _key(self, item: Any, row: int) -> bytes | None:
        """Return a hash of a text or picture and of the weights; None if it is empty."""
        if is_missing(item) or (isinstance(item, str) and not item.strip()):
            return None
        if self.of == "text":
            content = str(item).encode("utf-8", "surrogatepass")
        elif hasattr(item, "tobytes"):
            content = repr((item.mode, item.size)).encode() + item.tobytes()
        else:
            content = _picture_bytes(item, row)
        return hashlib.sha256(f"{self.fingerprint_} {self.of} ".encode() + content).digest()

    def _encode(self, model: "Model", items: dict[int, Any]) -> Array:
        """Return the vectors of texts or pictures by their rows, scaled to unit length."""
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


class Model(NamedTuple):
    """A loaded model."""

    encode: Callable[[list[Any]], Any]
    """Function from texts, or images of Pillow, to vectors."""
    n_features: int
    fingerprint: str
    is_slow: bool = True
    """Whether encoding takes longer than looking up in the cache."""


class Kind(NamedTuple):
    """A kind of models."""

    package: str
    extra: str
    of: tuple[str, ...]
    load: Callable[[str, str], Model]
    """Function from a name or folder and what to encode to the model."""


def load_model(name: str, of: str) -> Model:
    """Load a model; raise InputError if there is none of this name, or it cannot be read."""
    kind, model = kind_of(name)
    if of not in _BATCH:
        raise InputError(f"of must be 'text' or 'image', not {brief(of)}", parameter="of")
    if of not in KINDS[kind].of:
        others = [other for other, found in KINDS.items() if of in found.of]
        raise InputError(
            f"the encoder {brief(name)} does not encode {of}s; for these there are "
            f"{', '.join(others)}",
            parameter="encoder",
        )
    return _load(kind, model, of, _stamp(model))


def kind_of(name: str) -> tuple[str, str]:
    """Return the kind of the encoder and its model, from its name or the files of its folder."""
    kind, colon, model = name.partition(":")
    if kind in KINDS and (model or (not colon and kind in ("wordllama", PIXELS))):
        return kind, model
    folder = Path(name)
    if folder.is_dir():
        if (folder / "open_clip_config.json").is_file():
            return "open-clip", name
        try:
            config = json.loads((folder / "config.json").read_text("utf-8"))
        except (OSError, ValueError):
            config = None
        # Folders that model2vec wrote itself do not always name their type.
        named = isinstance(config, dict) and config.get("model_type") == "model2vec"
        if named or "embedding_dtype" in (config or ()):
            return "model2vec", name
        if config is not None or (folder / "modules.json").is_file():
            return "sentence-transformers", name
        raise InputError(
            f"the folder {brief(name)} holds no model of a known kind; say which, as in "
            f"sentence-transformers:{name}",
            parameter="encoder",
        )
    hint = f"such as {kind}:MODEL" if kind in KINDS else suggest(kind, KINDS)
    raise InputError(
        f"there is no encoder and no folder {brief(name)}; {hint}", parameter="encoder"
    )


@lru_cache(maxsize=2)
def _load(kind: str, model: str, of: str, stamp: tuple[Any, ...]) -> Model:
    """Load a model; it stays in memory until another stamp says that its files have changed."""
    found = KINDS[kind]
    purpose = f"The encoder {kind}"
    if find_spec(found.package) is None:
        optional(found.package, found.extra, purpose)
    # Progress bars and advice of the packages are nothing that the user can act on.
    hidden = io.StringIO()
    try:
        with warnings.catch_warnings(), redirect_stderr(hidden), redirect_stdout(hidden):
            warnings.simplefilter("ignore")
            return found.load(model, of)
    except (InputError, MissingExtraError, MemoryError):
        raise
    except ImportError as error:
        raise MissingExtraError(
            f"{purpose} cannot be used: the package {found.package!r} is not complete "
            f'({reason_of(error)}); install it with: pip install "schirn[{found.extra}]"'
        ) from error
    except Exception as error:
        raise InputError(
            f"the model {brief(model or kind)} of {kind} cannot be loaded ({reason_of(error)}); "
            f"give the name of a model that can be downloaded from here, or a folder",
            parameter="encoder",
        ) from error


def _stamp(model: str) -> tuple[Any, ...]:
    """Return what changes when the files of a local model do."""
    try:
        path = Path(model)
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        found = [(str(file), file.stat()) for file in files]
        return tuple((name, stat.st_size, stat.st_mtime_ns) for name, stat in found)
    except (OSError, ValueError):
        return ()


def _wordllama(model: str, of: str) -> Model:
    tokenizers = optional("tokenizers", "encoders", "The encoder wordllama")
    safetensors = optional("safetensors.numpy", "encoders", "The encoder wordllama")
    spec = find_spec("wordllama")
    # The package is not imported: its loader looks for the tokenizer in the wrong folder, and asks
    # the network when it is not there.
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
        # The direction of the sum is that of the mean.
        counts = sp.csr_array(
            (np.ones(len(flat), np.float32), flat, start), shape=(len(ids), len(table))
        )
        return np.asarray(counts @ table)

    return Model(encode, table.shape[1], fingerprint({"embedding": table}), is_slow=False)


def _pixels(model: str, of: str) -> Model:
    def encode(pictures: list[Any]) -> Array:
        return np.stack([describe(picture) for picture in pictures])

    return Model(encode, N_FEATURES, FINGERPRINT, is_slow=False)


def _model2vec(model: str, of: str) -> Model:
    from model2vec import StaticModel

    words = StaticModel.from_pretrained(model)
    table = np.asarray(words.embedding)
    return Model(words.encode, table.shape[1], fingerprint({"embedding": table}), is_slow=False)


def _sentence_transformers(model: str, of: str) -> Model:
    from sentence_transformers import SentenceTransformer

    # Code that comes with a model is never run.
    network = SentenceTransformer(model, trust_remote_code=False)
    return _network(partial(network.encode, show_progress_bar=False), network, of)


def _open_clip(model: str, of: str) -> Model:
    import open_clip

    name, _, weights = model.partition("/")
    if Path(model).is_dir():
        name, weights = f"local-dir:{model}", ""
    network, prepare = open_clip.create_model_from_pretrained(name, pretrained=weights or None)[:2]
    return _picture_network(network.eval(), prepare, network.encode_image)


def _torchvision(model: str, of: str) -> Model:
    import torch
    from torchvision import models

    path = Path(model)
    name = path.name.partition("-")[0].partition(".")[0] if path.is_file() else model
    weights = models.get_model_weights(name).DEFAULT
    network = models.get_model(name, weights=None if path.is_file() else weights)
    if path.is_file():
        network.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    # What the network says about its own classes is of less use than what it sees.
    head = next(part for part in ("fc", "classifier", "heads", "head") if hasattr(network, part))
    setattr(network, head, torch.nn.Identity())
    return _picture_network(network.eval(), weights.transforms(), network)


def _picture_network(network: Any, prepare: Any, features: Any) -> Model:
    """Return the model of a network for pictures that `prepare` turns into tensors."""
    import torch

    def encode(pictures: list[Any]) -> Array:
        with torch.inference_mode():
            rows = torch.stack([prepare(picture) for picture in pictures])
            return np.asarray(features(rows).flatten(1).float().numpy())

    return _network(encode, network, "image")


def _network(encode: Callable[[list[Any]], Any], network: Any, of: str) -> Model:
    """Return the model of a torch network; the length of its vectors is tried out."""
    sample: Any = "a"
    if of == "image":
        image = optional("PIL.Image", "images", "Encoding pictures")
        sample = image.new("RGB", (8, 8))
    state = {
        name: value.detach().cpu().reshape(-1).contiguous()
        for name, value in network.state_dict().items()
        if hasattr(value, "detach")
    }
    return Model(encode, np.asarray(encode([sample])).shape[1], fingerprint(state))


KINDS = {
    PIXELS: Kind("PIL", "images", ("image",), _pixels),
    "wordllama": Kind("wordllama", "encoders", ("text",), _wordllama),
    "model2vec": Kind("model2vec", "encoders", ("text",), _model2vec),
    "sentence-transformers": Kind(
        "sentence_transformers", "networks", ("text", "image"), _sentence_transformers
    ),
    "open-clip": Kind("open_clip", "pictures", ("image",), _open_clip),
    "torchvision": Kind("torchvision", "pictures", ("image",), _torchvision),
}


def fingerprint(arrays: dict[str, Any]) -> str:
    """Return a hash of the weights of a model."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        values = arrays[name]
        if not isinstance(values, np.ndarray):
            # NumPy has no bfloat16: the bytes are enough.
            import torch

            values = values.view(torch.uint8).numpy() if values.numel() else np.zeros(0)
        digest.update(f"{name} {arrays[name].dtype} {values.shape} ".encode())
        digest.update(np.ascontiguousarray(values).data)
    return digest.hexdigest()


def _picture_bytes(item: Any, row: int) -> bytes:
    """Return the content of an image file, given by its path or as it is."""
    if isinstance(item, bytes):
        return item
    if not isinstance(item, str | os.PathLike):
        raise InputError(
            f"row {row + 1}: a picture is a path or the content of a file, not {brief(item)}",
            parameter="image",
        )
    try:
        return Path(item).read_bytes()
    except (OSError, ValueError) as error:
        raise InputError(
            f"row {row + 1}: the image file {brief(os.fspath(item), 200)} cannot be read "
            f"({reason_of(error)})",
            parameter="image",
        ) from None


def _picture(item: Any, row: int) -> Any:
    """Return an image of Pillow in colour."""
    image = optional("PIL.Image", "images", "Encoding pictures")
    if hasattr(item, "tobytes"):
        return item.convert("RGB")
    content = _picture_bytes(item, row)
    try:
        with warnings.catch_warnings():
            # A few bytes can unpack to any number of pixels.
            warnings.simplefilter("error", image.DecompressionBombWarning)
            with image.open(io.BytesIO(content)) as opened:
                return opened.convert("RGB")
    except Exception as error:
        name = "" if isinstance(item, bytes) else f" {brief(os.fspath(item), 200)}"
        raise InputError(
            f"row {row + 1}: the image file{name} is damaged or not an image ({reason_of(error)})",
            parameter="image",
        ) from None


class VectorCache:
    """Vectors by their keys, in one SQLite file. A cache that fails is an empty one.

    Parameters
    ----------
    path : path, optional
        By default `encoded.sqlite` in the folder of downloads.
    max_bytes : int
        The older half of the vectors is removed when the file becomes larger.
    """

    def __init__(self, path: Path | None = None, max_bytes: int = MAX_CACHE_BYTES) -> None:
        self.path, self.max_bytes = path or cache_folder() / CACHE_FILE, max_bytes

    def get(self, keys: Sequence[bytes], size: int) -> dict[bytes, Array]:
        """Return the vectors of this size that are there."""
        query = "SELECT vector FROM vectors WHERE key = ?"
        rows = self._run(lambda file: [file.execute(query, (key,)).fetchone() for key in keys])
        vectors = {}
        for key, row in zip(keys, rows or [], strict=False):
            if row is not None and isinstance(row[0], bytes) and len(row[0]) == 4 * size:
                vectors[key] = np.frombuffer(row[0], dtype="<f4").astype(np.float32)
        return vectors

    def put(self, vectors: dict[bytes, Array]) -> None:
        """Store vectors, all or none of them."""
        rows = [(key, vector.astype("<f4").tobytes()) for key, vector in vectors.items()]

        def insert(file: sqlite3.Connection) -> None:
            with file:
                file.executemany("INSERT OR REPLACE INTO vectors (key, vector) VALUES (?, ?)", rows)
            if self.path.stat().st_size > self.max_bytes:
                with file:
                    file.execute(
                        "DELETE FROM vectors WHERE number <= "
                        "(SELECT (min(number) + max(number)) / 2 FROM vectors)"
                    )
                file.execute("VACUUM")

        self._run(insert)

    def _run(self, query: Callable[[sqlite3.Connection], Any]) -> Any:
        """Open the file for a query; delete one that is damaged.

        Any other trouble, such as a full disk, may pass.
        """
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self.path, timeout=5)) as file:
                file.execute(
                    "CREATE TABLE IF NOT EXISTS vectors "
                    "(number INTEGER PRIMARY KEY, key BLOB UNIQUE, vector BLOB)"
                )
                return query(file)
        except (sqlite3.Error, OSError) as error:
            code = getattr(error, "sqlite_errorcode", None)
            if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
                self.path.unlink(missing_ok=True)
            return None
