"""Checkpoints and model files of DeepSieve: tensors and numbers, never code."""

import json
import os
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import joblib
import scipy.sparse as sp
import torch
from torch import nn

import schirn
from schirn._files import atomic_write, reason_of
from schirn._optional import optional
from schirn.deep._crossfit import CrossFit
from schirn.exceptions import InputError, ModelFileError
from schirn.persist import Decoder, Encoder, check_model, check_version, damage_named

if TYPE_CHECKING:
    from schirn.deep._deep_sieve import DeepSieve

# The same number as of other model files: 1 and 2 were never released.
VERSION = 3
# Changes with the content of checkpoints.
_RUN = 2
_MODEL = "schirn-deep-model"
# Parameters that may differ between the run that wrote a checkpoint and the run that resumes it.
_FREE = {"checkpoint", "verbose", "max_iter", "device", "threshold"}


def stamp(model: "DeepSieve", X: Any, Y: Any) -> str:
    """Return a hash of everything a run depends on: data, parameters and initial weights."""
    params = {k: v for k, v in model.get_params(deep=False).items() if k not in _FREE}
    params["module"] = str(params["module"])
    rows = (X.data, X.indices, X.indptr) if sp.issparse(X) else X
    weights = [v.detach().cpu().numpy() for v in model._backbone.state_dict().values()]
    return str(joblib.hash((_RUN, params, rows, Y, weights)))


def write_checkpoint(run: CrossFit, path: str | os.PathLike[str], stamp: str) -> None:
    """Write the complete state of a run, atomically."""
    with atomic_write(path) as stream:
        torch.save({"stamp": stamp, "run": run.state()}, stream)


def resume(run: CrossFit, path: str | os.PathLike[str], stamp: str) -> None:
    """Restore a new run from its checkpoint, if the file exists."""
    if not Path(path).exists():
        return
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        raise ModelFileError(
            f"{os.fspath(path)}: not a checkpoint of DeepSieve, or a damaged one "
            f"({reason_of(error)}); delete it to start over"
        ) from error
    with damage_named(Path(path)):
        if content["stamp"] != stamp:
            raise InputError(
                f"{os.fspath(path)}: this checkpoint belongs to other data or other parameters; "
                f"delete it to start over, or use another file"
            )
        run.restore(content["run"])


def save_model(model: "DeepSieve", path: str | os.PathLike[str]) -> None:
    """Write a fitted model to a safetensors file, atomically."""
    save = optional("safetensors.torch", "deep", "a DeepSieve file").save
    # The networks are stored as tensors.
    encoder = Encoder(("network_", "_device"))
    plain = copy(model)
    plain.module = None
    entry = encoder.estimator(plain)
    tensors = {f"network.{k}": v for k, v in model.network_.state_dict().items()}
    # NumPy dtypes that torch lacks do not occur among the attributes.
    tensors |= {f"array.{k}": torch.from_numpy(a) for k, a in enumerate(encoder.arrays)}
    meta = {
        "format": _MODEL,
        "version": VERSION,
        "schirn": schirn.__version__,
        "model": entry,
        "arrays": [a.dtype.str for a in encoder.arrays],
        "has_module": model.module is not None,
    }
    # Safetensors rejects tensors that share memory, hence the copies.
    copies = {k: v.detach().cpu().contiguous().clone() for k, v in tensors.items()}
    data = save(copies, metadata={"schirn": json.dumps(meta)})
    with atomic_write(path) as stream:
        stream.write(data)


def load_model(
    cls: "type[DeepSieve]", path: str | os.PathLike[str], module: "nn.Module | None"
) -> "DeepSieve":
    """Read a fitted model; raise ModelFileError if the file is damaged or of another kind."""
    safe_open = optional("safetensors", "deep", "a DeepSieve file").safe_open
    path = Path(path)
    if not path.exists():
        raise ModelFileError(f"{path}: no such file")
    try:
        with safe_open(path, framework="pt") as file:
            meta = json.loads((file.metadata() or {}).get("schirn", "{}"))
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except Exception as error:
        reason = reason_of(error)
        raise ModelFileError(
            f"{path}: not a safetensors file, or a damaged one ({reason})"
        ) from error
    if not isinstance(meta, dict) or meta.get("format") != _MODEL:
        raise ModelFileError(f"{path}: a safetensors file, but not a {_MODEL} file")
    check_version(path, meta, VERSION)
    if meta.get("has_module") and module is None:
        raise InputError(
            f"{path}: the model was trained with your own backbone; pass an untrained one with "
            f"load(path, module=...)"
        )
    with damage_named(path, meta["schirn"]):
        arrays = [
            tensors[f"array.{k}"].numpy().astype(dtype, copy=False)
            for k, dtype in enumerate(meta["arrays"])
        ]
        model: DeepSieve = Decoder(arrays).estimator(meta["model"], lambda _: cls)
        model.module = module
        start = "network."
        model._rebuild({k[len(start) :]: v for k, v in tensors.items() if k.startswith(start)})
        check_model(model)
        return model
