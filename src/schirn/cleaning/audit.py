"""Answers of a person: calibrate the verdicts, and certify the precision of the removals.

A sample has two kinds of cells. "Calibration" cells are drawn at random from all tags that were
judged, "certificate" cells from the tags that the verdicts call wrong, and at least from the less
likely half of all tags, unless the planted-tag check calls the verdicts good.

Calibration: logit q' = b + a logit q, by logistic regression on the answers, with ridge penalties
that pull a to 1 and b to 0, so that few answers change little. Here q is the confidence before
caution: a `Sieve` that does not believe its verdicts reports 1 - kappa (1 - q) instead, which hides
how much less likely one tag is than another. The largest reported doubt stands for kappa. The fewer
answers there are, the more b is pulled to the value that keeps the reported share of wrong tags.
From 100 answers on, covariates of a tag and an offset for its name correct q first.

Certificate: the set to remove follows from the answers to the calibration cells alone. Given these,
the certificate cells inside it are a simple random sample of its tags outside the calibration
cells, however the set was chosen: a subset of a random sample that falls into a fixed set is a
random sample of that set. So the number of wrong tags among them is hypergeometric, and inverting
its tail gives an exact lower bound. Answers that were not drawn by `audit_sample` move confidences,
but neither the set nor the bound.
"""

import datetime
import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import expit, logit, softmax
from scipy.stats import beta, hypergeom

from schirn._files import atomic_write, brief
from schirn._input import Number, OneOf, is_missing
from schirn.cleaning.limits import least_likely, with_one_left
from schirn.cleaning.threshold_curve import answered_curve
from schirn.exceptions import InputError
from schirn.labels.votes import Votes
from schirn.noise.votes import anchored

if TYPE_CHECKING:
    from schirn.cleaning.found import NoisyLabels

Array = np.ndarray

# Share of the cells that are drawn inside the set to remove: 30 of 50, since 29 right answers
# are the fewest that certify a precision of 0.9.
_CERTIFICATE_SHARE = 0.6
_SLOPE_RIDGE, _OFFSET_RIDGE, _COVARIATE_RIDGE = 4.0, 0.5, 4.0
_MIN_SLOPE = 0.05
# Variances of the offsets of tags: the first stands for none.
_TAG_VARIANCES = (1e-6, 0.3, 1.0, 3.0)
_MIN_FOR_COVARIATES = 100
_PRECISION, _SHARE_CONFIDENCE = 0.9, 0.9
_MOST_PLANNED = 20_000
# A table has fewer tags; the exact bound of a set of 1e12 would take minutes.
_MOST_TAGS = 10**9
# Confidences beyond this count as this, and calibrated ones are never certain.
_SURE, _NEVER = 1e-3, 1e-12
# Verdicts whose largest doubt is below this were made cautious.
_DOUBTED = 0.9
# Fewer answers do not remove tags from verdicts that the planted-tag check does not trust.
_MIN_TO_OVERRULE = 15
# Answers that weigh as much as the reported share of wrong tags.
_SHARE_ANSWERS = 5
CALIBRATION, CERTIFICATE = "calibration", "certificate"
TAGS, MISSING = "tags", "missing"
BINOMIAL = "Clopper-Pearson, one-sided"
FINITE = "Clopper-Pearson, one-sided, for a finite set (hypergeometric)"


@dataclass(frozen=True, eq=False, repr=False)
class AuditSample:
    """Cells for a person to check, in random order.

    Attributes
    ----------
    row, column : (k,) int arrays
    label : (k,) object array
        Name of the tag.
    weight : (k,) float array
        Number of tags that the cell stands for: the inverse of its probability to be drawn.
    purpose : (k,) object array
        "calibration", drawn from all judged tags, or "certificate", drawn from the likely wrong
        ones.
    index : (k,) int array
        Position of the tag in the arrays of `NoisyLabels`.
    sha256 : str
        Hash of the verdicts from which the cells were drawn.
    of : {"tags", "missing"}
        Whether the cells are listed or suggested tags; `index` is a position among these.
    """

    row: Array
    column: Array
    label: Array
    weight: Array
    purpose: Array
    index: Array
    sha256: str
    of: str = TAGS

    def __len__(self) -> int:
        return len(self.row)

    def __repr__(self) -> str:
        inside = int((self.purpose == CERTIFICATE).sum())
        return f"AuditSample({len(self) - inside} calibration, {inside} certificate)"


@dataclass(frozen=True)
class Certificate:
    """A lower bound on the precision of removals, from answers drawn at random among them.

    A certificate of suggestions reads the other way round: they are right if the tag is correct.

    It is about the tags to remove that were not calibration cells, as they were before the answers.
    Applying the answers, which keeps tags that are correct after all, only raises the precision.

    Attributes
    ----------
    precision_at_least : float
        With probability `confidence` or more, at least this share of the tags is wrong.
    confidence : float
    n_tags : int
        Number of tags that the certificate is about.
    n_answers, n_wrong, n_untold : int
        Answers, how many of them said "wrong" ("correct" for suggestions), and cells that nobody
        could tell. If there are any of these, the certificate is about tags that a person can tell.
    precision : float
        The wanted precision.
    more_answers_needed : int or None
        Further answers that would certify the wanted precision at the observed rate; None if no
        number would.
    method : str
    date : str
    sha256 : str
        Hash of the table of tags, with those that the certificate is about.
    table_sha256 : str
        Hash of the table of tags alone: of the rows and the names of their tags, whatever their
        order in a row.
    of : {"tags", "missing"}
        Whether it is about removals of listed tags or about suggestions.
    """

    precision_at_least: float
    confidence: float
    n_tags: int
    n_answers: int
    n_wrong: int
    n_untold: int
    precision: float
    more_answers_needed: int | None
    method: str
    date: str
    sha256: str
    table_sha256: str
    of: str = TAGS

    def __str__(self) -> str:
        what = "removed tags are wrong" if self.of == TAGS else "suggested tags are correct"
        return (
            f"With {self.confidence:.0%} confidence, at least {self.precision_at_least:.1%} of "
            f"{self.n_tags:,} {what} ({self.n_wrong} of {self.n_answers} answers)"
        )

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return the certificate as JSON; it is also written to `path`, if given."""
        text = json.dumps(asdict(self), indent=2, allow_nan=False) + "\n"
        if path is not None:
            with atomic_write(path) as stream:
                stream.write(text.encode())
        return text

    @classmethod
    def from_json(cls, text: str) -> "Certificate":
        """Read what `to_json` returned."""
        try:
            values = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise InputError(f"the certificate is not JSON ({error})") from None
        kinds: dict[str, Any] = {each.name: each.type for each in fields(cls)}
        if isinstance(values, dict):
            values = {"of": TAGS, **values}
        if not isinstance(values, dict) or set(values) != set(kinds):
            raise InputError(f"a certificate has the fields {', '.join(sorted(kinds))}")
        for name, kind in kinds.items():
            value = values[name]
            # All numbers with a fraction are shares.
            fits = isinstance(value, int | float) and 0 <= value <= 1
            if not (fits if kind is float else isinstance(value, kind)) or isinstance(value, bool):
                raise InputError(f"the certificate has {brief(value)} for {name}")
        return cls(**values)

    def verify(self, found: "NoisyLabels | None" = None) -> None:
        """Compute the bound again, from the numbers of the certificate or from audited verdicts.

        Parameters
        ----------
        found : NoisyLabels, optional
            What `audited` returned. Without it, the certificate is only checked for consistency.

        Raises
        ------
        InputError
            If the numbers do not agree with each other, or with the tags and the answers.
        """
        verdicts: Any = found
        if found is not None and self.of == MISSING:
            verdicts = replace(_suggested_as_removed(found), audit=found.missing.audit)
        if found is None:
            again = self._computed_again()
        elif verdicts.audit is None:
            raise InputError("the verdicts were not audited; pass what found.audited returns")
        else:
            audit, wanted = verdicts.audit, (self.precision, self.confidence, self.date)
            again = _certify(verdicts, audit.certified, audit.certificate_answers, *wanted)
            again = replace(again, of=self.of, table_sha256=_digest(found))
        for each in fields(self):
            given, right = getattr(self, each.name), getattr(again, each.name)
            same = given == right
            if each.name == "precision_at_least" and isinstance(given, int | float):
                same = abs(given - right) < 1e-9
            if not same:
                raise InputError(
                    f"the certificate says {each.name} {brief(given)}, but it must be {right!r}"
                )

    def _computed_again(self) -> "Certificate":
        """Return the certificate that follows from the numbers of this one."""
        if self.of not in (TAGS, MISSING):
            raise InputError(f"the certificate is about {brief(self.of)}, not tags or missing ones")
        Number(high=1, open_low=True).check("precision", self.precision)
        Number(0.5, high=1 - 1e-9).check("confidence", self.confidence)
        wrong, n, untold, n_tags = self.n_wrong, self.n_answers, self.n_untold, self.n_tags
        if not 0 <= wrong <= n <= n + untold <= n_tags <= _MOST_TAGS:
            raise InputError(
                f"the certificate counts {brief(wrong)} wrong tags in {brief(n)} answers and "
                f"{brief(untold)} untold ones on {brief(n_tags)} tags, which cannot be"
            )
        try:
            datetime.date.fromisoformat(self.date)
        except ValueError:
            raise InputError(f"the certificate has no date, but {brief(self.date)}") from None
        return self._with_bound()

    def _with_bound(self) -> "Certificate":
        """Return the certificate with what follows from its counts."""
        wrong, n, confidence = self.n_wrong, self.n_answers, self.confidence
        # How many tags a person can tell is unknown if some cannot be told.
        bound = precision_bound(wrong, n, confidence, None if self.n_untold else self.n_tags)
        more = _more_answers(wrong, n, self.precision, confidence, self.n_tags, bound)
        method = BINOMIAL if self.n_untold else FINITE
        return replace(self, precision_at_least=bound, more_answers_needed=more, method=method)


@dataclass(frozen=True, eq=False)
class Audit:
    """What the answers of a person say about the verdicts.

    Attributes
    ----------
    n_answers, n_untold : int
        Answers, and cells of the sample without one.
    slope, offset : float
        Calibration of the confidences: logit q' = offset + slope logit q, with q before caution.
        With covariates, q comes from the regression on them.
    covariates : list of str
        Names of the covariates; none below 100 answers.
    wrong_share_interval : tuple of two floats
        90% interval of the share of wrong tags: Clopper-Pearson on the calibration cells.
    threshold : float
        The largest threshold whose removals are expected to meet the wanted precision; 0 if none
        is.
    precision : float
        The wanted precision.
    expected_precision : float
        Mean probability that a removed tag is wrong, before the answers were applied to their own
        cells; NaN if none is removed.
    certificate : Certificate
    certified : (m,) bool array
        Tags that the certificate is about.
    certificate_answers : (k,) float array
        Answers that it counts: 0 for a wrong tag, 1 for a correct one, NaN if nobody could tell.
    """

    n_answers: int
    n_untold: int
    slope: float
    offset: float
    covariates: list[str]
    wrong_share_interval: tuple[float, float]
    threshold: float
    precision: float
    expected_precision: float
    certificate: Certificate
    certified: Array = field(repr=False)
    certificate_answers: Array = field(repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Return the figures for JSON, without the arrays; NaN becomes None."""
        arrays = ("certified", "certificate_answers")
        figures = {key: value for key, value in vars(self).items() if key not in arrays}
        figures["certificate"] = asdict(self.certificate)
        return {key: None if value != value else value for key, value in figures.items()}


def precision_bound(
    n_wrong: int, n_answers: int, confidence: float = 0.95, n_tags: int | None = None
) -> float:
    """Exact lower bound on the share of wrong tags in a set, from a random sample of its tags.

    Parameters
    ----------
    n_wrong, n_answers : int
        Wrong tags in the sample, and size of the sample, drawn without replacement.
    confidence : float, default=0.95
    n_tags : int, optional
        Size of the set. None is a set of any size, for which the bound is that of Clopper and
        Pearson.
    """
    if n_wrong == 0:
        return 0.0
    alpha = 1 - confidence
    if n_tags is None:
        return float(beta.ppf(alpha, n_wrong, n_answers - n_wrong + 1))
    # The smallest number of wrong tags for which a sample holds n_wrong or more of them with
    # probability above alpha, by bisection.
    low, high = n_wrong, n_tags - (n_answers - n_wrong)
    while low < high:
        middle = (low + high) // 2
        if hypergeom.sf(n_wrong - 1, n_tags, middle, n_answers) > alpha:
            high = middle
        else:
            low = middle + 1
    return low / n_tags


def audit_sample(
    found: "NoisyLabels", n: int = 50, *, of: str = TAGS, random_state: int | None = 0
) -> AuditSample:
    """Draw the cells; see `NoisyLabels.audit_sample`."""
    Number(1, integer=True).check("n", n)
    OneOf((TAGS, MISSING)).check("of", of)
    if of == MISSING:
        cells = audit_sample(_suggested_as_removed(found), n, random_state=random_state)
        return replace(cells, of=MISSING)
    rng = np.random.default_rng(random_state)
    open_tags = np.flatnonzero(_undecided(found))
    flagged = _flagged(found)
    to_remove = open_tags[flagged[open_tags]]
    n = min(n, len(open_tags))
    n_certificate = min(round(_CERTIFICATE_SHARE * n), len(to_remove))
    calibration = rng.choice(open_tags, n - n_certificate, replace=False)
    rest = np.setdiff1d(to_remove, calibration)
    inside = rng.choice(rest, min(n_certificate, len(rest)), replace=False)
    # Whoever stops early has answered some of both kinds.
    index = np.concatenate((calibration, inside)).astype(np.int64)
    order = rng.permutation(len(index))
    purpose = np.array([CALIBRATION] * len(calibration) + [CERTIFICATE] * len(inside), dtype=object)
    index, purpose = index[order], purpose[order]
    inside_set = flagged[index].astype(int)
    sizes = np.array([len(open_tags) - len(to_remove), len(to_remove)])
    drawn = np.bincount(inside_set, minlength=2)
    return AuditSample(
        row=found.row[index],
        column=found.column[index],
        label=found.label[index],
        weight=(sizes / np.maximum(drawn, 1))[inside_set],
        purpose=purpose,
        index=index,
        sha256=_digest(found, flagged),
    )


def audited(
    found: "NoisyLabels",
    cells: AuditSample | None,
    right: Sequence[Any] | Array | None,
    *,
    extra: tuple[Any, Any, Any] | None = None,
    votes: Any = None,
    precision: float | None = 0.9,
    confidence: float = 0.95,
    date: str | datetime.date | None = None,
) -> "NoisyLabels":
    """Calibrate the verdicts on answers; see `NoisyLabels.audited`."""
    if isinstance(cells, AuditSample) and cells.of == MISSING:
        checked = audited(
            _suggested_as_removed(found),
            replace(cells, of=TAGS),
            # To be correct is to a suggestion what to be wrong is to a removal.
            1 - _answers(right, len(cells), "right"),
            precision=precision,
            confidence=confidence,
            date=date,
        )
        if extra is not None:
            raise InputError("extra answers are about listed tags; audit these", parameter="extra")
        report: Any = checked.audit
        certificate = replace(report.certificate, of=MISSING, table_sha256=_digest(found))
        missing = replace(
            found.missing,
            confidence=1 - checked.confidence,
            accepted=checked.removed,
            audit=replace(report, certificate=certificate),
        )
        return replace(found, missing=missing)
    Number(high=1, open_low=True, none=True).check("precision", precision)
    wanted = _PRECISION if precision is None else precision
    index, answer, weight, is_certificate = _sample_answers(found, cells, right)
    more_index, more_answer = _extra_answers(found, extra, index)
    told = ~np.isnan(answer)
    undecided = _undecided(found)

    calibrates = told & ~is_certificate
    # Unequal weights are worth fewer answers than equal ones.
    w = weight[told] * weight[told].sum() / max((weight[told] ** 2).sum(), 1e-300)
    more = undecided[more_index]
    everything = (
        np.r_[index[told], more_index[more]],
        np.r_[answer[told], more_answer[more]],
        np.r_[w, np.ones(more.sum())],
    )
    # Answers that the certificate counts, and extra ones, which may have been chosen in view of
    # these, must not choose the set. Without any for the certificate, all may.
    first = everything
    if (told & is_certificate).any():
        first = index[calibrates], answer[calibrates], np.ones(calibrates.sum())
    plain = _log_odds(found.confidence, _doubt(found))
    score, covariates = _with_covariates(found, plain, votes, undecided, *first)
    claim = 0.0
    if undecided.any():
        # What to add so that the mean probability is that of the confidences.
        mean = np.clip(found.confidence[undecided].mean(keepdims=True), _SURE, 1 - _SURE)
        claim = float((anchored(score[undecided, None], mean)[0] - score[undecided][0])[0])
    cut, chosen = logit(np.clip(found.threshold, _NEVER, 1 - _NEVER)), undecided & found.removed
    limit = 1.0
    if len(first[0]):
        slope, offset = _platt(score, claim, *first)
        cut = (cut - offset) / slope
        if precision is not None:
            calibrated = expit(offset + slope * score[undecided])
            cut = min(cut, _highest(score[undecided], calibrated, precision))
            if found.trust is not None:
                # Planted tags tell how far confidences separate; answers, how much may be wrong.
                wrong = float(np.mean(1 - calibrated))
                error = np.sqrt(wrong * (1 - wrong) / len(first[0]))
                limit = found.trust.limit(min(1.0, wrong + error))
                if found.trust.level == "none" and len(first[0]) < _MIN_TO_OVERRULE:
                    limit = 0.0
        chosen = _within_limits(found, score, undecided, (score < cut) & (found.confidence < limit))

    slope, offset, calibrated = 1.0, 0.0, found.confidence.astype(np.float64)
    if len(everything[0]):
        slope, offset = _platt(score, claim, *everything)
        new = np.clip(expit(offset + slope * score), _NEVER, 1 - _NEVER)
        calibrated = np.where(undecided, new, found.confidence)
    expected = float(np.mean(1 - calibrated[chosen])) if chosen.any() else np.nan
    meets = _highest(calibrated[undecided], calibrated[undecided], wanted)

    before_answers = calibrated[undecided]
    decided = np.r_[index[told], more_index]
    verdict = np.r_[answer[told], more_answer]
    removed, judged = np.where(undecided, chosen, found.removed), found.judged.copy()
    calibrated[decided], removed[decided], judged[decided] = verdict, verdict == 0, True

    n_open = int(undecided.sum())
    known_wrong = float((1 - found.confidence[found.judged & ~undecided]).sum())
    low, high = _interval(answer[calibrates])
    total = max(1, int(found.judged.sum()))
    share = float(np.mean(1 - calibrated[judged])) if judged.any() else None
    certified = chosen & _flagged(found)
    certified[index[~is_certificate]] = False
    answers = answer[is_certificate & certified[index]]
    day = str(datetime.date.today() if date is None else date)
    audit = Audit(
        n_answers=int(told.sum()) + len(more_index),
        n_untold=int((~told).sum()),
        slope=slope,
        offset=offset,
        covariates=covariates,
        wrong_share_interval=(
            (low * n_open + known_wrong) / total,
            (high * n_open + known_wrong) / total,
        ),
        threshold=min(max(meets, 0.0), 1.0),
        precision=wanted,
        expected_precision=expected,
        certificate=_certify(found, certified, answers, wanted, confidence, day),
        certified=certified,
        certificate_answers=answers,
    )
    largest = found.largest_wrong_share
    threshold = float(expit(offset + slope * cut))
    curve = answered_curve(
        before_answers,
        _flagged(found)[undecided],
        np.searchsorted(np.flatnonzero(undecided), index[told]),
        answer[told],
        threshold=threshold,
    )
    held_back = judged & ~removed & (calibrated < threshold)
    trust = found.trust
    if trust is not None and share is not None and audit.n_answers:
        about = f"about {share:.0%} of the tags are wrong"
        low, high = audit.wrong_share_interval
        if calibrates.any():
            about += f" (probably {low:.0%} to {high:.0%})"
        then = f"{expected:.0%} of the removals should be right"
        if not chosen.any():
            then = f"no set of removals can be expected to be right in {wanted:.0%} of its tags"
            if not limit:
                then = "planted tags do not allow any removal"
        moved = [
            point._replace(threshold=float(expit(offset + slope * at)))
            for point, at in zip(
                trust.curve,
                _log_odds(np.array([point.threshold for point in trust.curve]), _doubt(found)),
                strict=True,
            )
        ]
        trust = replace(
            trust,
            level=("weak" if held_back.any() else "good") if chosen.any() else "none",
            sentence=f"By {audit.n_answers} answers, {about}, and {then}.",
            wrong_share=share,
            expected_precision=expected if chosen.any() else 0.0,
            threshold=threshold if chosen.any() else 0.0,
            # Covariates change the order, so thresholds have no counterpart.
            curve=[] if covariates else moved,
        )
    return replace(
        found,
        confidence=calibrated,
        removed=removed,
        judged=judged,
        threshold=threshold,
        held_back=int(held_back.sum()),
        wrong_share=share,
        largest_wrong_share=None if largest is None or share is None else max(largest, share),
        trust=trust,
        audit=audit,
        threshold_curve=found.threshold_curve if curve is None else curve,
    )


def _suggested_as_removed(found: "NoisyLabels") -> "NoisyLabels":
    """Suggestions in the form of verdicts that call all of them wrong."""
    missing = found.missing
    return replace(
        found,
        row=missing.row,
        column=missing.column,
        confidence=1 - missing.confidence,
        removed=np.ones(len(missing), dtype=bool) if missing.accepted is None else missing.accepted,
        judged=np.ones(len(missing), dtype=bool),
        threshold=0.5,
        wrong_share=None,
        largest_wrong_share=None,
        trust=None,
        max_remove_per_row=None,
        keep_one=False,
        audit=None,
    )


def _certify(
    found: "NoisyLabels",
    certified: Array,
    answers: Array,
    precision: float,
    confidence: float,
    date: str,
) -> Certificate:
    """Certificate for a set of tags, from the answers drawn inside it."""
    Number(high=1, open_low=True).check("precision", precision)
    Number(0.5, high=1 - 1e-9).check("confidence", confidence)
    told = answers[~np.isnan(answers)]
    return Certificate(
        precision_at_least=0.0,
        confidence=float(confidence),
        n_tags=int(certified.sum()),
        n_answers=len(told),
        n_wrong=int((told == 0).sum()),
        n_untold=len(answers) - len(told),
        precision=float(precision),
        more_answers_needed=None,
        method="",
        date=date,
        sha256=_digest(found, certified),
        table_sha256=_digest(found),
    )._with_bound()


def _undecided(found: "NoisyLabels") -> Array:
    """Judged tags without a final verdict: those known or answered have confidence 0 or 1."""
    return found.judged & (found.confidence > 0) & (found.confidence < 1)


def _flagged(found: "NoisyLabels") -> Array:
    """Tags from which the certificate is drawn.

    These are the tags that the verdicts call wrong, whether they are removed or held back. Verdicts
    without good trust may call far too few wrong, so then it is half of the tags at least.
    """
    undecided = _undecided(found)
    flagged = undecided & (found.removed | (found.confidence < found.threshold))
    if found.trust is not None and found.trust.level != "good":
        tags = np.flatnonzero(undecided)
        order = tags[np.argsort(found.confidence[tags], kind="stable")]
        flagged[order[: len(order) // 2]] = True
    return flagged


def _within_limits(found: "NoisyLabels", score: Array, undecided: Array, low: Array) -> Array:
    """Undecided tags to remove, within the limits that the verdicts have for every row."""
    removed = np.where(undecided, low, found.removed)
    if found.max_remove_per_row is not None:
        order = np.where(undecided, score, -np.inf)
        removed = least_likely(found.row, order, removed, found.max_remove_per_row)
    if found.keep_one:
        certain = np.where(~undecided & found.removed, -1, 0)
        removed = with_one_left(found.row, score, removed, certain)
    return removed & undecided


def _digest(found: "NoisyLabels", mask: Array | None = None) -> str:
    """Hash of the table of tags, and of a set of them."""
    return tags_digest(found.n_rows, found.label_names, found.row, found.column, mask)


def tags_digest(
    n_rows: int, names: Sequence[str], row: Array, column: Array, mask: Array | None = None
) -> str:
    """Hash of a table of tags, and of a set of them; the order of tags in a row does not count."""
    used = sorted({str(names[j]) for j in np.unique(column).tolist()})
    place = {name: k for k, name in enumerate(used)}
    rank = np.array([place.get(str(name), -1) for name in names], dtype="<i8")[column]
    order = np.lexsort((rank, row))
    value = hashlib.sha256(json.dumps([n_rows, used]).encode())
    for array in (np.asarray(row), rank):
        value.update(np.ascontiguousarray(array[order], dtype="<i8").tobytes())
    if mask is not None:
        value.update(np.ascontiguousarray(mask[order], dtype=np.uint8).tobytes())
    return value.hexdigest()


def _sample_answers(
    found: "NoisyLabels", cells: AuditSample | None, right: Any
) -> tuple[Array, Array, Array, Array]:
    """Index, answer (NaN if it cannot be told), weight and purpose of the cells of a sample."""
    if cells is None:
        if right is not None and len(right):
            raise InputError("answers need the sample that asked for them; use extra for others")
        return np.zeros(0, dtype=np.int64), np.zeros(0), np.zeros(0), np.zeros(0, dtype=bool)
    if not isinstance(cells, AuditSample):
        raise InputError(
            "cells must be what found.audit_sample returned; other answers go into extra",
            parameter="cells",
        )
    if cells.sha256 != _digest(found, _flagged(found)):
        raise InputError(
            "cells were drawn from other verdicts; call audit_sample on these verdicts",
            parameter="cells",
        )
    answer = _answers(right, len(cells), "right")
    return cells.index, answer, cells.weight, cells.purpose == CERTIFICATE


def _answers(right: Any, n: int, name: str) -> Array:
    """Answers as 1 (the tag is right), 0 (wrong) and NaN (cannot be told)."""
    values = np.asarray(right, dtype=object)
    if values.shape != (n,):
        raise InputError(
            f"{name} must hold one answer for each of {n} cells, got shape {values.shape}",
            parameter=name,
        )
    out = np.full(n, np.nan)
    for k, value in enumerate(values):
        if is_missing(value):
            continue
        if isinstance(value, str) or value not in (0, 1):
            raise InputError(
                f"{name} must hold True, False or None, but answer {k} is {value!r}", parameter=name
            )
        out[k] = float(value)
    return out


def _extra_answers(found: "NoisyLabels", extra: Any, sampled: Array) -> tuple[Array, Array]:
    """Index and answer of further tags; the answers of a sample win over these."""
    if extra is None:
        return np.zeros(0, dtype=np.int64), np.zeros(0)
    try:
        rows, columns, right = extra
        rows, columns = np.asarray(rows, dtype=np.int64), np.asarray(columns, dtype=np.int64)
    except (TypeError, ValueError):
        raise InputError("extra must be (rows, columns, right)", parameter="extra") from None
    if rows.ndim != 1 or rows.shape != columns.shape:
        raise InputError(
            f"extra has rows of shape {rows.shape} and columns of shape {columns.shape}; both must "
            "be lists of the same length",
            parameter="extra",
        )
    answer = _answers(right, len(rows), "extra")
    n_labels = len(found.label_names)
    of_tags = found.row.astype(np.int64) * n_labels + found.column
    order = np.argsort(of_tags)
    wanted = rows * n_labels + columns
    place = np.minimum(np.searchsorted(of_tags, wanted, sorter=order), len(of_tags) - 1)
    index = order[place]
    absent = (of_tags[index] != wanted) | (columns < 0) | (columns >= n_labels)
    if absent.any():
        k = int(np.flatnonzero(absent)[0])
        raise InputError(
            f"extra answers row {rows[k]}, column {columns[k]}, but no such tag is listed",
            parameter="extra",
        )
    # The last answer about a tag counts.
    last = {int(i): k for k, i in enumerate(index)}
    keep = np.zeros(len(index), dtype=bool)
    keep[list(last.values())] = True
    keep &= ~np.isnan(answer) & ~np.isin(index, sampled)
    return index[keep], answer[keep]


def _doubt(found: "NoisyLabels") -> float:
    """The kappa of cautious verdicts; 1 if they are believed."""
    largest = float((1 - found.confidence[_undecided(found)]).max(initial=0.0))
    return largest * (1 + _SURE) if 0 < largest < _DOUBTED else 1.0


def _log_odds(confidence: Array, doubt: float) -> Array:
    """Log-odds of confidences before caution."""
    return np.asarray(logit(np.clip(1 - (1 - confidence) / doubt, _SURE, 1 - _SURE)))


def _with_covariates(
    found: "NoisyLabels",
    score: Array,
    votes: Any,
    undecided: Array,
    index: Array,
    answer: Array,
    weight: Array,
) -> tuple[Array, list[str]]:
    """Log-odds of every tag, corrected by covariates if there are enough answers."""
    if len(index) < _MIN_FOR_COVARIATES:
        return score, []
    columns = {
        "log tag frequency": np.log(np.bincount(found.column)[found.column]),
        "row size": np.log(np.bincount(found.row)[found.row]),
    }
    if votes is not None:
        counts, voters = (votes.counts, votes.voters) if isinstance(votes, Votes) else votes
        voters = np.broadcast_to(np.asarray(voters, dtype=float), (found.n_rows,))
        share = np.asarray(counts)[found.row, found.column] / np.maximum(voters[found.row], 1)
        columns["votes"] = share
    Z = np.stack([*columns.values()], axis=1)
    spread = Z[undecided].std(axis=0)
    Z = (Z - Z[undecided].mean(axis=0)) / np.where(spread > 0, spread, 1)
    ridge = np.r_[_OFFSET_RIDGE, _SLOPE_RIDGE, np.full(Z.shape[1], _COVARIATE_RIDGE)]
    design = np.column_stack([np.ones(len(score)), score, Z])
    theta = _logistic(design[index], answer, weight, np.eye(len(ridge))[1], ridge)
    # Slope and offset are left to the calibration.
    score = score + Z @ theta[2:] / max(theta[1], _MIN_SLOPE)
    return _with_tag_offsets(found.column, score, index, answer, weight), [*columns, "tag"]


def _with_tag_offsets(
    column: Array, score: Array, index: Array, answer: Array, weight: Array
) -> Array:
    """Log-odds of every tag, corrected for names of tags that are wrong more often than others.

    Logistic regression with a normal offset for every name. Offsets of several variances are
    averaged by their evidence: where names make no difference, it favours none. The answered tags
    get the log-odds that follow from the other answers: offsets fit their own answers better than
    other tags, which would mislead the calibration.
    """
    names, name = np.unique(column[index], return_inverse=True)
    evidence, offsets, own = [], [], []
    for variance in _TAG_VARIANCES:
        slope, u, left_out, logarithm = _tag_offsets(score[index], name, answer, weight, variance)
        evidence.append(logarithm)
        offsets.append(u / slope)
        own.append(left_out / slope)
    share = softmax(evidence)
    added = np.zeros(column.max() + 1)
    added[names] = share @ np.array(offsets)
    out = score + added[column]
    out[index] = score[index] + share @ np.array(own)
    return out


def _tag_offsets(
    s: Array, name: Array, y: Array, w: Array, variance: float
) -> tuple[float, Array, Array, float]:
    """Minimise sum w (log(1 + exp(e)) - y e), e = b + a s + u_name, + ridges (b, a - 1) + u²/2v.

    Returns the slope a, the offsets u, the offset of each answer without itself (by one Newton
    step), and the logarithm of the evidence (Laplace). The Hessian is diagonal but for two rows.
    """
    X, fixed = np.column_stack([np.ones(len(s)), s]), np.array([_OFFSET_RIDGE, _SLOPE_RIDGE])
    mean, k = np.array([0.0, 1.0]), int(name.max()) + 1

    def loss(theta: Array, u: Array) -> float:
        eta = X @ theta + u[name]
        fit = (w * (np.logaddexp(0, eta) - y * eta)).sum()
        return float(fit + (fixed * (theta - mean) ** 2).sum() / 2 + (u**2).sum() / 2 / variance)

    theta, u, now = mean, np.zeros(k), loss(mean, np.zeros(k))
    for _ in range(100):
        p = expit(X @ theta + u[name])
        c = w * p * (1 - p)
        d = np.bincount(name, c) + 1 / variance
        B = np.stack([np.bincount(name, c), np.bincount(name, c * s)])
        S = (X.T * c) @ X + np.diag(fixed) - (B / d) @ B.T
        gradient = X.T @ (w * (p - y)) + fixed * (theta - mean)
        gradient_u = np.bincount(name, w * (p - y)) + u / variance
        step = np.linalg.solve(S, gradient - B @ (gradient_u / d))
        step_u = (gradient_u - step @ B) / d
        decrease, size = gradient @ step + gradient_u @ step_u, 1.0
        if decrease < 1e-12 * (1 + now):
            break
        while size > 1e-10:
            new = loss(theta - size * step, u - size * step_u)
            if new <= now - 1e-4 * size * decrease:
                break
            size /= 2
        theta, u, now = theta - size * step, u - size * step_u, new
    G = X - (B / d).T[name]
    h = np.sum(G * np.linalg.solve(S, G.T).T, axis=1) + 1 / d[name]
    left_out = u[name] - h * w * (y - p) / (1 - h * c)
    determinants = np.linalg.slogdet(S)[1] + np.log(d).sum() + k * np.log(variance)
    return max(float(theta[1]), _MIN_SLOPE), u, left_out, -now - float(determinants) / 2


def _platt(
    score: Array, claim: float, index: Array, answer: Array, weight: Array
) -> tuple[float, float]:
    """Slope and offset of the calibrated log-odds."""
    s, ridge = score[index], np.array([_OFFSET_RIDGE, _SLOPE_RIDGE])
    design = np.column_stack([np.ones(len(s)), s])
    start = claim * _SHARE_ANSWERS / (_SHARE_ANSWERS + len(index))
    offset, slope = _logistic(design, answer, weight, np.array([start, 1.0]), ridge)
    if slope < _MIN_SLOPE:
        # Answers never turn the ranking round.
        stiff = np.array([_OFFSET_RIDGE, 1e9])
        offset, slope = _logistic(design, answer, weight, np.array([start, _MIN_SLOPE]), stiff)
    return float(slope), float(offset)


def _logistic(Z: Array, y: Array, w: Array, mean: Array, ridge: Array) -> Array:
    """Minimise sum w (log(1 + exp(Z t)) - y Z t) + ridge/2 (t - mean)^2 by damped Newton steps."""

    def loss(theta: Array) -> float:
        eta = Z @ theta
        fit = (w * (np.logaddexp(0, eta) - y * eta)).sum()
        return float(fit + (ridge * (theta - mean) ** 2).sum() / 2)

    theta, now = mean.copy(), loss(mean)
    for _ in range(100):
        p = expit(Z @ theta)
        gradient = Z.T @ (w * (p - y)) + ridge * (theta - mean)
        step = np.linalg.solve((Z.T * (w * p * (1 - p))) @ Z + np.diag(ridge), gradient)
        size = 1.0
        while size > 1e-10 and loss(theta - size * step) > now - 1e-4 * size * (gradient @ step):
            size /= 2
        theta = theta - size * step
        now = loss(theta)
        if np.abs(size * step).max() < 1e-9:
            break
    return theta


def _highest(order: Array, confidence: Array, precision: float) -> float:
    """Largest value of `order` below which the removals are expected to meet the precision."""
    values, where, counts = np.unique(order, return_inverse=True, return_counts=True)
    wrong = np.cumsum(np.bincount(where, 1 - confidence, minlength=len(values)))
    good = np.flatnonzero(wrong >= precision * np.cumsum(counts))
    last = good[-1] + 1 if len(good) else 0
    if last == len(values):
        return np.inf
    return float(values[last]) if last else -np.inf


def _interval(answer: Array) -> tuple[float, float]:
    """Clopper-Pearson interval of the share of wrong tags."""
    n, wrong = len(answer), int((answer == 0).sum())
    tail = (1 - _SHARE_CONFIDENCE) / 2
    low = 0.0 if wrong == 0 else float(beta.ppf(tail, wrong, n - wrong + 1))
    return low, 1.0 if wrong == n else float(beta.ppf(1 - tail, wrong + 1, n - wrong))


def _more_answers(
    wrong: int, n: int, precision: float, confidence: float, n_tags: int, bound: float
) -> int | None:
    """Further answers that would certify the precision at the observed rate."""
    if bound >= precision:
        return 0
    rate = wrong / n if n else 1.0
    if rate < precision or n_tags == n:
        return None
    more = np.arange(1, min(n_tags - n, _MOST_PLANNED) + 1)
    right = wrong + np.floor(more * rate + 1e-9)
    reached = np.flatnonzero(beta.ppf(1 - confidence, right, n + more - right + 1) >= precision)
    # Whoever has checked all tags knows the share.
    return int(more[reached[0]]) if len(reached) else n_tags - n
