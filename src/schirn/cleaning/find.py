"""Find wrong tags: judge every tag without its own row, by one fit or in folds."""

import os
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

from schirn._checkpoint import kept_in, load, save, section
from schirn._input import Number, as_plain, canonical, check_values, is_missing
from schirn._progress import current, shown, stage, track
from schirn.cleaning.found import Annotator, MissingTags, NoisyLabels
from schirn.cleaning.groups import group_numbers, with_copies
from schirn.cleaning.road import brought, check_on_workers, choose_road, in_blocks, size_of
from schirn.cleaning.trust import MAX_PLANTED, Planted, draw, left_out_confidence, replaced
from schirn.cleaning.verdicts import PRECISION, Verdicts, decide
from schirn.exceptions import EmptyCandidatesWarning, InputError
from schirn.features import TextFeatures
from schirn.features.pipeline import make_method
from schirn.features.table import arrays_of
from schirn.labels.known import as_known, read_cells
from schirn.labels.tags import Tags, read_tags
from schirn.labels.votes import Votes
from schirn.linalg.arrays import is_device_array, to_numpy
from schirn.methods import FREE, OracleRidge, PartialMultiLabelClassifier
from schirn.scale.input import location
from schirn.scale.memory import memory_limit

Array = np.ndarray

MIN_COUNT = 5
_FOLDS = 5
# Even sure tags are sometimes replaced by planted ones.
_SELDOM = 1e-3


def find_noisy_labels(
    X: Any,
    candidates: Any,
    *,
    method: Any = None,
    cv: Any = None,
    threshold: float = 0.5,
    max_remove_per_row: int | None = None,
    precision: float | None = PRECISION,
    keep_one: bool = True,
    known: Any = None,
    known_clean: Any = None,
    prior: Any = None,
    votes: Any = None,
    groups: Any = None,
    min_count: int = MIN_COUNT,
    max_memory: float | None = None,
    label_names: Sequence[str] | None = None,
    separator: str = ";",
    random_state: int | None = 0,
    checkpoint: str | os.PathLike[str] | None = None,
    verbose: bool = False,
) -> NoisyLabels:
    """Judge every tag of every row and find those that are probably wrong.

    No row influences its own verdicts. `Sieve` judges all tags from a single fit, in which each row
    is left out in closed form. With other methods, or if `cv` is given, the tags of a fold are
    judged by a model trained on the other folds. Rows with equal features are taken as copies and
    left out together, so that they do not vouch for each other.

    Random wrong tags are planted and judged too. They show how far the verdicts can be trusted
    (`trust`), and tags are removed only as far as that goes.

    Parameters
    ----------
    X : (n, d) array, CSR matrix or DataFrame of numbers, or sequence of n texts
        Features of the rows. Those of a `schirn.scale.RowFile` or a `numpy.memmap` stay in their
        file and are read some rows at a time; what `Sieve` computes of a `RowFile` lies in
        temporary files as well. Tensors on a GPU are judged there. A Dask array, or a list of
        delayed blocks, stays with the workers of the current client (docs/scale.md).
    candidates : (n, l) 0/1 array, sparse matrix or DataFrame, or sequence of n lists or texts
        Tags of the rows: a matrix, one list of names per row, or one text such as "beach;dog" per
        row.
    method : estimator, class or str, default=None
        A method of this library, or its name; None is `Sieve`.
    cv : int, splitter or iterable of (train, test) row indices, optional
        Number of folds, a scikit-learn splitter, or the folds themselves. None judges all rows by
        one fit of `Sieve`, and uses five folds for other methods.
    threshold : float, default=0.5
        A tag is removed when its probability of being correct is below this value.
    max_remove_per_row : int, optional
        Remove at most this many tags per row, least likely first. Tags that `known` marks as wrong
        are always removed.
    precision : float, optional
        Share of the removals that should be right, by the planted tags. Tags below the threshold
        are kept if their removal cannot be expected to reach it: all of them if the features say
        too little about the tags. None removes every tag below the threshold.
    keep_one : bool, default=True
        Whether a row that would lose all its tags keeps the most likely one, unless `known` marks
        it as wrong.
    known : (n, l) array, sparse matrix or DataFrame, optional
        1 for a tag known to be correct, -1 for one known to be wrong, 0 elsewhere. Known tags get
        confidence 1 or 0. `Sieve` also learns from them about the other tags.
    known_clean : (n,) or (n, l) bool array, optional
        Rows or cells that were checked: their tags are known to be correct.
    prior : (n, l) array, sparse matrix or DataFrame, optional
        Prior probabilities, such as those of `votes_to_candidates`. They multiply the odds, so 0.5
        changes nothing. The columns of a DataFrame are matched by name, here and in `known` and
        `known_clean`; a tag without a column gets 0.5 here and 0 there.
    votes : Votes or (counts, voters), optional
        The result of `votes_to_candidates`, or the number of votes for each cell, (n, l), and the
        number of voters, for all rows or for each. `Sieve` weighs them by how often votes are
        right; with `Votes` it also estimates the quality of every annotator.
    groups : sequence of n values, optional
        Rows with the same value, such as versions of a text or images of one scene, are left out
        together. A row with a missing value is a group of its own. Above `max_kernel_rows` rows,
        `Sieve` needs folds for this, and copies are not searched for.
    min_count : int, default=5
        A tag listed in fewer rows than this, or in all of them, is not judged: it is kept with
        confidence 0.5 and the verdict "unjudged". Other rows of its own group do not count; with
        folds, only training rows do.
    max_memory : float, optional
        Gigabytes. If what `Sieve` computes for more than `max_kernel_rows` rows needs more than
        this, it goes through the rows in blocks and keeps its numbers in temporary files (`road`
        of the result tells). None is the memory that is free.
    label_names : sequence of str, optional
        Names of the columns of `candidates`, if it has none.
    separator : str, default=";"
        Text between the tags of a row.
    random_state : int, default=0
        Seed of the folds and of the planted tags.
    checkpoint : path, optional
        Folder for the state of a long run. A run that was killed goes on there if it is started
        again with the same data and parameters; when it is done, the folder is removed. Folds
        that are done are kept for all methods, and rounds of a fit for `Sieve` and `Schirn`.
    verbose : bool, default=False
        Show stage, fold, round, share done and time left on stderr.

    Returns
    -------
    NoisyLabels

    Examples
    --------
    >>> from schirn import find_noisy_labels
    >>> from schirn.datasets import load_digits_attributes
    >>> digits = load_digits_attributes(r=2).subset(range(400))
    >>> found = find_noisy_labels(digits.X, digits.candidates, label_names=digits.label_names)
    >>> found.n_rows, len(found.row)
    (400, 2403)
    >>> found.label[0], found.verdict[0]
    ('even', 'kept')
    """
    Number(high=1).check("threshold", threshold)
    Number(integer=True, none=True).check("max_remove_per_row", max_remove_per_row)
    Number(high=1, none=True).check("precision", precision)
    Number(1).check("min_count", min_count)
    Number(open_low=True, none=True).check("max_memory", max_memory)
    if label_names is None and isinstance(votes, Votes) and _is_nameless(candidates):
        label_names = votes.label_names
    tags = read_tags(candidates, label_names, separator)
    if not len(tags.row):
        raise InputError("no row has a tag, so there is nothing to clean")
    counts = tags.counts
    columns = np.flatnonzero((counts >= min_count) & (counts < tags.n_rows))
    X, model = prepare(X, method)
    can_leave_groups_out = _is_small(model, tags.n_rows)
    one_fit = cv is None and model._judges_own_rows and (groups is None or can_leave_groups_out)
    knowledge = {"known": known, "known_clean": known_clean, "votes": votes}
    with memory_limit(max_memory):
        road = choose_road(
            size_of(X),
            tags.n_rows,
            location(X),
            n_labels=len(columns),
            model=model,
            one_fit=one_fit,
            knowledge=any(value is not None for value in knowledge.values()),
        )
    if road.name == "workers":
        given = {**knowledge, "groups": groups, "cv": cv, "checkpoint": checkpoint}
        check_on_workers(model, given)
    else:
        X = brought(X, road)
        _check_features(X, tags)
    certain = known_cells(known, known_clean, tags)
    together = None if groups is None else group_numbers(groups, tags.n_rows)
    if votes is not None:
        _check_votes(model, one_fit, cv)
    if checkpoint is None:
        checkpoint = model._kept_folder()
    if checkpoint is not None and isinstance(cv, Iterator):
        cv = list(cv)
    options = {"cv": cv, "votes": votes, "min_count": min_count, "seed": random_state}
    options |= _settings(model)
    with (
        kept_in(checkpoint),
        shown(f"judging {len(tags.row):,} tags", verbose),
        memory_limit(max_memory),
        section("find_noisy_labels", options, X, tags.row, tags.column, columns, certain, together),
    ):
        display = current()
        if display is not None and road.is_short_of_memory:
            display.say(road.reason)
        if one_fit:
            X = in_blocks(X) if road.name == "blocks" and location(X) == "memory" else X
            k = road.label_groups
            verdicts = _merged(
                _kept_fit(
                    model, X, tags, columns[i::k], certain, together, votes, min_count, random_state
                )
                for i in range(k)
            )
        else:
            folds = _folds(X, tags, cv, together, random_state)
            verdicts = _out_of_fold(
                model, X, tags, columns, certain, folds, min_count, random_state
            )
    verdicts = _with_prior(verdicts, prior, tags)
    found = decide(
        tags,
        verdicts,
        certain,
        method=type(model).__name__,
        threshold=threshold,
        precision=precision,
        max_remove_per_row=max_remove_per_row,
        keep_one=keep_one,
        missing=_suggestions(verdicts, known, tags),
        annotators=_annotators(votes, verdicts.vote_model),
    )
    return replace(found, road=road)


def prepare(X: Any, method: Any) -> tuple[Any, PartialMultiLabelClassifier]:
    """Return the features as an array or CSR matrix, and the method for them."""
    X = X if location(X) == "dask" else as_plain(X)
    if hasattr(X, "column_names"):
        X = np.asarray(X)
    if is_device_array(X) or location(X) in ("dask", "files"):
        return X, _method(method)
    if not sp.issparse(X) and not hasattr(X, "columns"):
        values = list(X) if not hasattr(X, "shape") else X
        flat = values if getattr(values, "ndim", 1) == 1 else ()
        if isinstance(next((value for value in flat if not is_missing(value)), None), str):
            return arrays_of(TextFeatures(), values, learn=True), _method(method, scaled=True)
        X = values if isinstance(values, np.memmap) else np.asarray(values)
    if hasattr(X, "to_numpy"):
        X = X.to_numpy()
    if sp.issparse(X):
        return canonical(X), _method(method)
    if X.dtype.kind not in "biuf":
        try:
            X = X.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise InputError(f"X must hold numbers, or one text per row ({error})") from None
    return X, _method(method)


def _method(method: Any, scaled: bool = False) -> PartialMultiLabelClassifier:
    """Return an untrained method that learns from tags alone."""
    model = make_method(method, scaled=scaled)
    if isinstance(model, OracleRidge):
        raise InputError(
            "OracleRidge needs the true labels; choose another method", parameter="method"
        )
    return model


def _is_nameless(candidates: Any) -> bool:
    """Whether candidates are a matrix without names for its columns."""
    return getattr(candidates, "ndim", 0) == 2 and not hasattr(candidates, "columns")


def _check_features(X: Any, tags: Tags) -> None:
    """Raise InputError for features of other rows, or that are not finite."""
    if len(X.shape) != 2 or X.shape[0] != tags.n_rows:
        raise InputError(f"X has shape {X.shape}, but there are tags for {tags.n_rows} rows")
    if location(X) == "memory":
        # A model would report the row of its fold.
        check_values(X)


def _check_votes(model: Any, one_fit: bool, cv: Any) -> None:
    """Raise InputError for votes where they cannot be used."""
    if not has_fit_parameter(model, "votes"):
        raise InputError(
            f"{type(model).__name__} takes no votes; use Sieve, or give votes.prior as prior",
            parameter="votes",
        )
    if not one_fit:
        raise InputError(
            "votes are used in a single fit, not in folds; leave cv out"
            + ("" if cv is not None else ", and groups too, or raise max_kernel_rows"),
            parameter="votes",
        )


def _settings(model: Any) -> dict[str, Any]:
    """What the verdicts of a method depend on."""
    params = model.get_params(deep=False)
    return {
        "method": type(model).__name__,
        "params": {k: params[k] for k in params if k not in FREE},
    }


def _is_small(model: Any, n_rows: int) -> bool:
    """Whether a method that judges its own rows can leave several of them out together."""
    return bool(n_rows <= getattr(model, "max_kernel_rows", 0))


def _kept_fit(model: Any, X: Any, tags: Tags, columns: Array, *options: Any) -> Verdicts:
    """`_by_one_fit`, or what an earlier run that was killed found for these labels."""
    name = f"labels-{columns[0] if len(columns) else 0}-{len(columns)}"
    found = load(name)
    if found is not None:
        verdicts = Verdicts(*found)
        missing: Any = None if verdicts.missing is None else tuple(verdicts.missing)
        return verdicts._replace(missing=missing, planted=Planted(*verdicts.planted))
    verdicts = _by_one_fit(model, X, tags, columns, *options)
    if verdicts.vote_model is None:
        save(name, verdicts)
    return verdicts


def _by_one_fit(
    model: PartialMultiLabelClassifier,
    X: Any,
    tags: Tags,
    columns: Array,
    certain: Array,
    groups: Array | None,
    votes: Any,
    min_count: int,
    random_state: int | None,
) -> Verdicts:
    """Judge all tags by the confidences of one fit that leaves each row or group out."""
    if not len(columns):
        none = np.zeros(len(tags.row), dtype=bool)
        return Verdicts(np.full(len(none), 0.5), none, {}, None, np.nan, Planted.none(), None)
    Y = tags.dense(columns)
    options: dict[str, Any] = {"label_names": [tags.names[j] for j in columns]}
    if certain.any():
        options["known"] = tags.dense(columns, certain)
    if votes is not None:
        options["votes"] = _votes_of(votes, tags, columns)
    own = Y
    elsewhere = location(X) in ("dask", "files")
    if not elsewhere and _is_small(model, tags.n_rows):
        stage("looking for copies")
        groups = with_copies(X, tags, groups)
        if groups is not None:
            options["groups"] = groups
            size = int(groups.max()) + 1
            members = sp.csr_array((np.ones(len(Y)), (groups, np.arange(len(Y)))), (size, len(Y)))
            own = (members @ Y)[groups]
    with warnings.catch_warnings():
        # A row whose tags are all too rare has no candidates here.
        warnings.simplefilter("ignore", EmptyCandidatesWarning)
        fitted: Any = clone(model)
        fitted._keeps_log_odds = elsewhere
        fitted.fit(X, Y, **options)
    if not sp.issparse(fitted.label_confidence_):
        fitted.label_confidence_ = to_numpy(fitted.label_confidence_)
    fitted.training_log_odds_ = to_numpy(fitted.training_log_odds_)
    # A tag that only its own group lists, or hardly any other row, cannot be judged.
    listed = tags.pick(np.broadcast_to(Y.sum(axis=0, dtype=np.int64), Y.shape), columns, 0)
    judged = listed - tags.pick(own, columns, 0) >= max(min_count - 1, 1)
    confidence = tags.pick(fitted.label_confidence_, columns, 0.5)
    missing = fitted.missing_.tocoo()
    suggested = missing.row, columns[missing.col], missing.data
    stage("judging planted tags")
    # Left-out scores do not depend on what a row lists, so dropping its tags changes no score.
    own_scores = tags.pick(fitted.training_log_odds_, columns, -np.inf)
    dropped = fitted._missing(own_scores[:, None], np.zeros((len(own_scores), 1)), 0.5)
    likely = np.where(judged, confidence, 0)
    caught = likely @ (dropped.toarray().ravel() > 0) / max(likely.sum(), 1e-9)
    wrong = np.where(judged & (certain == 0), _SELDOM + 1 - confidence, 0)
    propensity = fitted.noise_model_.propensity
    drawn = draw(
        wrong,
        tags.row,
        Y,
        np.random.default_rng(random_state),
        weights=None if propensity is None else np.exp(propensity),
    )
    old = np.searchsorted(columns, tags.column[drawn.tag])
    planted = left_out_confidence(fitted, Y, tags.row[drawn.tag], old, drawn.label)
    return Verdicts(
        np.where(judged, confidence, 0.5),
        judged,
        _shares(fitted),
        suggested,
        float(caught),
        Planted(drawn.tag, columns[drawn.label], planted),
        fitted.caution_.strict_share,
        fitted.vote_model_,
    )


def _votes_of(votes: Any, tags: Tags, columns: Array) -> Any:
    """Votes for some columns; those of `Votes` are found by name."""
    if isinstance(votes, Votes) or not (isinstance(votes, tuple) and len(votes) == 2):
        return votes
    counts = read_cells(votes[0], tags.names, "votes")
    if counts.shape != tags.shape:
        raise InputError(
            f"votes has counts of shape {counts.shape}, but the tags have {tags.shape}",
            parameter="votes",
        )
    return counts[:, columns], votes[1]


def _shares(fitted: Any) -> dict[str, float]:
    """The shares that a fitted model reports; empty for methods that report none."""
    names = {
        "wrong_share": "wrong_share_",
        "largest_wrong_share": "largest_wrong_share_",
        "missing_rate": "missing_rate_",
    }
    return {
        name: float(getattr(fitted, attribute))
        for name, attribute in names.items()
        if hasattr(fitted, attribute)
    }


def _merged(groups: Iterable[Verdicts]) -> Verdicts:
    """Verdicts of several groups of labels together; shares are averages over the judged tags."""
    fits = list(groups)
    if len(fits) == 1:
        return fits[0]
    confidence = np.full(len(fits[0].confidence), 0.5)
    judged = np.zeros(len(confidence), dtype=bool)
    for fit in fits:
        confidence[fit.judged] = fit.confidence[fit.judged]
        judged |= fit.judged
    weights = [max(int(fit.judged.sum()), 1e-9) for fit in fits]

    def average(values: Iterable[Any]) -> float:
        return float(np.average(list(values), weights=weights))

    missing = [fit.missing for fit in fits if fit.missing is not None]
    return Verdicts(
        confidence,
        judged,
        {name: average(fit.shares[name] for fit in fits) for name in fits[0].shares},
        tuple(map(np.concatenate, zip(*missing, strict=True))) if missing else None,  # type: ignore[arg-type]
        average(fit.missing_caught for fit in fits),
        Planted.together([fit.planted for fit in fits]),
        average(fit.cautious_share or 0.0 for fit in fits),
        fits[0].vote_model,
    )


def _folds(
    X: Any, tags: Tags, cv: Any, groups: Array | None, random_state: int | None
) -> Iterable[tuple[Array, Array]]:
    """Training and test rows of every fold; only made inside a display, which counts them."""
    n = tags.n_rows
    if cv is None or isinstance(cv, int | np.integer):
        # Copies share a fold unless too few folds would be left.
        merged = with_copies(X, tags, groups)
        if merged is not None and len(np.unique(merged)) >= (cv or _FOLDS):
            groups = merged
        largest = n if groups is None else len(np.unique(groups))
        cv = min(_FOLDS, max(largest, 2)) if cv is None else cv
        if not 2 <= cv <= largest:
            what = "row" if groups is None else "group"
            allowed = f"into 2 to {largest} folds, not {cv}" if largest > 1 else "into folds"
            can = "s can" if largest > 1 else " cannot"
            raise InputError(f"{largest} {what}{can} be split {allowed}", parameter="cv")
        from sklearn.model_selection import GroupKFold, KFold

        kind = KFold if groups is None else GroupKFold
        cv = kind(int(cv), shuffle=True, random_state=random_state)
    if hasattr(cv, "split") and not isinstance(cv, str):
        rows = np.zeros((n, 1))
        total = cv.get_n_splits(rows, groups=groups) if hasattr(cv, "get_n_splits") else None
        return track(cv.split(rows, groups=groups), "fold", total)
    if isinstance(cv, Iterable) and not isinstance(cv, str):
        return track(cv, "fold")
    raise InputError(
        f"cv must be a number of folds, a splitter or (train, test) row indices, not {cv!r}",
        parameter="cv",
    )


def _out_of_fold(
    model: PartialMultiLabelClassifier,
    X: Any,
    tags: Tags,
    columns: Array,
    certain: Array,
    folds: Iterable[tuple[Array, Array]],
    min_count: int,
    random_state: int | None,
) -> Verdicts:
    """Judge the tags of each fold by a model trained on the others."""
    Y = tags.dense(columns)
    learns = certain.any() and has_fit_parameter(model, "known")
    known = tags.dense(columns, certain) if learns else None
    confidence = np.full(Y.shape, 0.5, dtype=np.float32)
    judged = np.zeros(Y.shape, dtype=bool)
    n_tested = np.zeros(len(Y), dtype=int)
    shares, cautious, planted = [], [], []
    rng = np.random.default_rng(random_state)
    for k, (train, test) in enumerate(folds):
        n_tested[test] += 1
        done = load(f"fold-{k}")
        if done is not None:
            confidence[test], judged[test] = done["confidence"], done["judged"]
            shares += done["shares"]
            cautious += done["cautious"]
            planted += [Planted(*found) for found in done["planted"]]
            rng.bit_generator.state = done["rng"]
            continue
        counts = Y[train].sum(axis=0)
        frequent = np.flatnonzero((counts >= min_count) & (counts < len(Y[train])))
        if not len(frequent):
            continue
        trained, tested = np.ix_(train, frequent), np.ix_(test, frequent)
        options = {} if known is None else {"known": known[trained]}
        with warnings.catch_warnings():
            # A row whose tags are all too rare has no candidates here.
            warnings.simplefilter("ignore", EmptyCandidatesWarning)
            fitted = clone(model).fit(X[train], Y[trained], **options)
            confidence[tested] = to_numpy(fitted.disambiguate(X[test], Y[tested]))
            judged[tested] = True
            shares.append(_shares(fitted))
            if hasattr(fitted, "caution_"):
                cautious.append(float(fitted.caution_.strict_share))
            # The tags of this fold, by their rows and columns in it.
            of_row, of_column = np.full(len(Y), -1), np.full(len(tags.names), -1)
            of_row[test] = np.arange(len(test))
            of_column[columns[frequent]] = np.arange(len(frequent))
            row, old = of_row[tags.row], of_column[tags.column]
            mine = np.flatnonzero((row >= 0) & (old >= 0) & (certain == 0))
            row, old = row[mine], old[mine]
            wrong = _SELDOM + 1 - confidence[tested][row, old].astype(np.float64)
            most = max(1, MAX_PLANTED * len(test) // len(Y))
            tag, new = draw(wrong, row, Y[tested], rng, most=most)
            if len(tag):
                rows = replaced(Y[tested], row[tag], old[tag], new)
                found = fitted.disambiguate(X[test[row[tag]]], rows)
                found = to_numpy(found)[np.arange(len(tag)), new].astype(np.float64)
                planted.append(Planted(mine[tag], columns[frequent[new]], found))
            done = {"confidence": confidence[test], "judged": judged[test], "shares": shares[-1:]}
            done |= {"cautious": cautious[-1:], "planted": planted[-1:] if len(tag) else []}
            save(f"fold-{k}", {**done, "rng": rng.bit_generator.state})
    if (n_tested != 1).any():
        row = int(np.flatnonzero(n_tested != 1)[0])
        raise InputError(
            f"cv must put every row into exactly one test fold, but row {row} is in "
            f"{n_tested[row]}",
            parameter="cv",
        )
    picked = tags.pick(confidence, columns, 0.5), tags.pick(judged, columns, False)
    share = float(np.mean(cautious)) if cautious else None
    means = {name: float(np.mean([each[name] for each in shares])) for name in (shares or [{}])[0]}
    return Verdicts(*picked, means, None, np.nan, Planted.together(planted), share)


def _with_prior(verdicts: Verdicts, prior: Any, tags: Tags) -> Verdicts:
    """Multiply the odds of each tag by those of its prior."""
    confidence, planted = verdicts.confidence.astype(np.float64), verdicts.planted
    if prior is None:
        return verdicts._replace(confidence=confidence)
    prior = read_cells(prior, tags.names, "prior", default=0.5)
    if prior.shape != tags.shape:
        raise InputError(f"prior has shape {prior.shape}, but the tags have {tags.shape}")
    p = prior[tags.row, tags.column]
    if not ((p >= 0) & (p <= 1)).all():
        k = int(np.flatnonzero(~((p >= 0) & (p <= 1)))[0])
        raise InputError(
            f"prior must be between 0 and 1, but row {tags.row[k]}, label {tags.column[k]} holds "
            f"{p[k]}"
        )
    p = np.clip(p, 1e-6, 1 - 1e-6)
    odds = p / (1 - p)

    def updated(confidence: Array, odds: Array) -> Array:
        correct, wrong = confidence * odds, 1 - confidence
        return np.asarray(correct / np.maximum(correct + wrong, 1e-300))

    # A planted tag has the prior of the tag that it replaces.
    among_planted = updated(planted.confidence.astype(np.float64), odds[planted.replaced])
    return verdicts._replace(
        confidence=updated(confidence, odds), planted=planted._replace(confidence=among_planted)
    )


def known_cells(known: Any, known_clean: Any, tags: Tags) -> Array:
    """Return what is known about each tag: 1 correct, -1 wrong, 0 nothing."""
    certain = np.zeros(len(tags.row), dtype=np.int8)
    if known is not None:
        values = as_known(known, tags.dense(), tags.names)
        certain = certain if values is None else values[tags.row, tags.column]
    if known_clean is None:
        return certain
    checked = read_cells(known_clean, tags.names, "known_clean")
    if checked.shape not in ((tags.n_rows,), tags.shape) or not np.isin(checked, (0, 1)).all():
        raise InputError(
            f"known_clean must hold one truth value per row ({tags.n_rows}) or per cell "
            f"{tags.shape}, got {checked.dtype} of shape {checked.shape}"
        )
    correct = checked[tags.row] if checked.ndim == 1 else checked[tags.row, tags.column]
    both = np.flatnonzero((correct == 1) & (certain < 0))
    if len(both):
        row, name = tags.row[both[0]], tags.names[tags.column[both[0]]]
        raise InputError(
            f"row {row}, label {name!r} is wrong by known but correct by known_clean; change one"
        )
    return np.where(correct == 1, np.int8(1), certain)


def _suggestions(verdicts: Verdicts, known: Any, tags: Tags) -> MissingTags:
    """Tags to suggest, without those known to be wrong."""
    if verdicts.missing is None:
        return MissingTags()
    row, column, confidence = verdicts.missing
    if known is not None:
        possible = read_cells(known, tags.names, "known").reshape(tags.shape)[row, column] >= 0
        row, column, confidence = row[possible], column[possible], confidence[possible]
    order = np.lexsort((column, row))
    return MissingTags(
        row[order], column[order], confidence[order], tags.names, verdicts.missing_caught
    )


def _annotators(votes: Any, model: Any) -> list[Annotator] | None:
    """Quality of every annotator, if the votes tell who voted for what."""
    if not isinstance(votes, Votes) or model is None:
        return None
    ballots = np.bincount(votes.ballots.annotator, minlength=len(votes.workers))
    quality = (model.annotator_sensitivity, model.annotator_false_factor)
    columns = (votes.workers, ballots.tolist(), *(values.tolist() for values in quality))
    return [Annotator(*annotator) for annotator in zip(*columns, strict=True)]
