"""Checkpoints and model files of DeepSieve: tensors and JSON in safetensors, never code."""

import hashlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from schirn._files import atomic_write, brief, reason_of
from schirn._optional import optional
from schirn.deep.crossfit import CrossFit, Verdict
from schirn.deep.learner import under
from schirn.deep.posterior import NoiseLaw
from schirn.exceptions import InputError, ModelFileError
from schirn.noise.calibration import Calibration
from schirn.persist import Decoder, Encoder, check_model, damage_named

if TYPE_CHECKING:
    from schirn.deep.deep_sieve import DeepSieve

Array = np.ndarray

VERSION = 2
_MODEL, _CHECKPOINT = "schirn-deep-model", "schirn-deep-checkpoint"
# Parameters that may differ between the run that wrote a checkpoint and the run that resumes it.
_FREE = {"checkpoint", "checkpoint_every", "verbose", "max_iter", "device", "threshold"}


def write_file(
    path: str | os.PathLike[str], kind: str, tensors: dict[str, Tensor], meta: dict[str, Any]
) -> None:
    """Write tensors and JSON to one file, atomically."""
    save = optional("safetensors.torch", "deep", "a DeepSieve file").save
    text = json.dumps({"format": kind, "version": VERSION, **meta})
    # Safetensors rejects tensors that share memory, hence the copies.
    copies = {k: v.detach().cpu().contiguous().clone() for k, v in tensors.items()}
    data = save(copies, metadata={"schirn": text})
    with atomic_write(path) as stream:
        stream.write(data)


def read_file(path: str | os.PathLike[str], kind: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read a file of this kind; raise ModelFileError if it is damaged or of another kind."""
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
    if not isinstance(meta, dict) or meta.get("format") != kind:
        raise ModelFileError(f"{path}: a safetensors file, but not a {kind} file")
    version = meta.get("version")
    if type(version) is not int or version > VERSION:
        raise ModelFileError(
            f"{path}: written by a newer version of schirn (file format {brief(version)}, this "
            f"version reads up to {VERSION}); update schirn"
        )
    return tensors, meta


def stamp(model: "DeepSieve", X: "Array | sp.csr_array", Y: Array) -> str:
    """Return a hash of everything a run depends on: data, parameters and initial weights."""
    digest = hashlib.sha256()
    params = {k: v for k, v in model.get_params(deep=False).items() if k not in _FREE}
    params["module"] = str(params["module"])
    digest.update(json.dumps(params, sort_keys=True, default=str).encode())
    features: Any = X
    sparse = sp.issparse(X)
    arrays = [features.data, features.indices, features.indptr] if sparse else [features]
    weights = [v.detach().cpu().numpy() for v in model._backbone.state_dict().values()]
    for array in (*arrays, Y, *weights):
        array = np.ascontiguousarray(array)
        digest.update(f"{array.dtype}{array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def write_checkpoint(run: CrossFit, path: str | os.PathLike[str], stamp: str) -> None:
    """Write the complete state of a run."""
    tensors = {f"law.{k}": v for k, v in run.law._asdict().items()} | {"Q": run.Q}
    for k, learner in enumerate(run.learners):
        tensors |= {f"learner.{k}.{name}": value for name, value in learner.state().items()}
    for k, (state, _) in enumerate(run.warmest):
        tensors |= {f"warmest.{k}.{name}": value for name, value in state.items()}
    meta: dict[str, Any] = {
        "stamp": stamp,
        "n_iter": run.n_iter,
        "best_iter": run.best_iter,
        "moved": run.moved,
        "objective": run.objective,
        "held_out_score": run.held_out_score,
        "n_steps": [learner.n_steps for learner in run.learners],
        "warmest_steps": [n_steps for _, n_steps in run.warmest],
    }
    if run.best is not None:
        weights, verdict = run.best
        tensors |= {f"best.{k}": v for k, v in weights.items()}
        tensors |= {"verdict.log_odds": verdict.log_odds, "verdict.Q": verdict.Q}
        tensors |= {f"verdict.law.{k}": v for k, v in verdict.law._asdict().items()}
        meta["calibration"] = list(verdict.calibration)
    write_file(path, _CHECKPOINT, tensors, meta)


def resume(run: CrossFit, path: str | os.PathLike[str], stamp: str) -> None:
    """Restore a new run from its checkpoint, if the file exists."""
    if not Path(path).exists():
        return
    tensors, meta = read_file(path, _CHECKPOINT)
    if meta.get("stamp") != stamp:
        raise InputError(
            f"{os.fspath(path)}: this checkpoint belongs to other data or other parameters; "
            f"delete it to start over, or use another file"
        )
    with damage_named(Path(path)):
        _restore(run, tensors, meta)


def _restore(run: CrossFit, tensors: dict[str, Tensor], meta: dict[str, Any]) -> None:
    run.Q, run.law = tensors["Q"], NoiseLaw(**under(tensors, "law."))
    for k, learner in enumerate(run.learners):
        learner.restore(under(tensors, f"learner.{k}."), meta["n_steps"][k])
    run.n_iter, run.best_iter, run.moved = meta["n_iter"], meta["best_iter"], meta["moved"]
    run.objective, run.held_out_score = meta["objective"], meta["held_out_score"]
    run.warmest = [
        (under(tensors, f"warmest.{k}."), n_steps)
        for k, n_steps in enumerate(meta["warmest_steps"])
    ]
    if "calibration" in meta:
        run.best_score = run.held_out_score[run.best_iter - 1]
        verdict = Verdict(
            tensors["verdict.log_odds"],
            tensors["verdict.Q"],
            NoiseLaw(**under(tensors, "verdict.law.")),
            Calibration(*meta["calibration"]),
        )
        run.best = under(tensors, "best."), verdict


def save_model(model: "DeepSieve", path: str | os.PathLike[str]) -> None:
    """Write a fitted model."""
    encoder = Encoder()
    entry = encoder.estimator(_without_networks(model))
    tensors = {f"network.{k}": v for k, v in model.network_.state_dict().items()}
    # NumPy dtypes that torch lacks do not occur among the attributes.
    tensors |= {
        f"array.{k}": torch.from_numpy(np.ascontiguousarray(a))
        for k, a in enumerate(encoder.arrays)
    }
    meta = {
        "model": entry,
        "arrays": [a.dtype.str for a in encoder.arrays],
        "has_module": model.module is not None,
    }
    write_file(path, _MODEL, tensors, meta)


def load_model(
    cls: "type[DeepSieve]", path: str | os.PathLike[str], module: "nn.Module | None"
) -> "DeepSieve":
    """Read a fitted model."""
    tensors, meta = read_file(path, _MODEL)
    if meta.get("has_module") and module is None:
        raise InputError(
            f"{os.fspath(path)}: the model was trained with your own backbone; pass an untrained "
            f"one with load(path, module=...)"
        )
    with damage_named(Path(path)):
        arrays = [
            tensors[f"array.{k}"].numpy().astype(dtype, copy=False)
            for k, dtype in enumerate(meta["arrays"])
        ]
        model: DeepSieve = Decoder(arrays).estimator(meta["model"], lambda _: cls)
        model.module = module
        model._rebuild(under(tensors, "network."))
        check_model(model)
        return model


def _without_networks(model: "DeepSieve") -> "DeepSieve":
    """Copy an estimator without its networks, which are stored as tensors."""
    own = type(model)(**{**model.get_params(deep=False), "module": None, "checkpoint": None})
    skipped = {*own.get_params(deep=False), "network_", "_learned", "_backbone", "_device"}
    for key, value in vars(model).items():
        if key not in skipped:
            setattr(own, key, value)
    return own
