"""scikit-learn's estimator checks that a multi-label method cannot pass, each with its reason."""

import sklearn

_CLASSES = "the check hands over class labels such as {1, 2}; candidates are 0 or 1"
_SHAPE = "the check wants one-dimensional output; ours is always (n, l)"

# PML-NI builds up its multiplier first; until then all scores are zero. Schirn's are negative.
ROUNDS = {"PMLNI": 100, "Schirn": 100}

EXPECTED_FAILURES = {
    "check_classifier_data_not_an_array": _CLASSES,
    "check_classifier_not_supporting_multiclass": _CLASSES,
    "check_classifiers_classes": "the check hands over strings as classes; candidates are 0 or 1",
    "check_estimator_sparse_array": _CLASSES,
    "check_estimator_sparse_matrix": _CLASSES,
    "check_estimators_dtypes": _CLASSES,
    "check_fit2d_1feature": _CLASSES,
    "check_classifiers_one_label": _SHAPE,
    "check_classifiers_train": _SHAPE,
    "check_decision_proba_consistency": _SHAPE,
    "check_classifier_multioutput": "the check wants the scores cut at 0; our cut is estimated",
}

# Before 1.7 these made the labels {1, 2} where the first row has class 1; later ones count from 0.
_OLD_CHECKS = (
    "check_dict_unchanged",
    "check_dont_overwrite_parameters",
    "check_dtype_object",
    "check_estimators_fit_returns_self",
    "check_estimators_overwrite_params",
    "check_estimators_pickle",
    "check_f_contiguous_array_estimator",
    "check_fit2d_predict1d",
    "check_fit_check_is_fitted",
    "check_methods_sample_order_invariance",
    "check_methods_subset_invariance",
    "check_pipeline_consistency",
    "check_readonly_memmap_input",
)
if tuple(map(int, sklearn.__version__.split(".")[:2])) < (1, 7):
    EXPECTED_FAILURES |= dict.fromkeys(_OLD_CHECKS, _CLASSES)


def expected_failures(estimator):
    """The reasons for one method: where scores are log-odds, the cut is at 0."""
    log_odds = type(estimator).__name__ in {"Sieve", "PARD"}
    passes = {"check_classifier_multioutput"} if log_odds else set()
    return {name: why for name, why in EXPECTED_FAILURES.items() if name not in passes}
