"""Why the model judged a tag as it did, computed when the first person asks."""

import threading
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from schirn._files import read_archive
from schirn.cleaning.why import Reasons
from schirn.exceptions import InputError
from schirn.review.session import Session


class Why:
    """Explains the verdicts of `schirn clean`, whatever was answered since.

    Parameters
    ----------
    session : Session
    """

    def __init__(self, session: Session):
        self._session = session
        self._lock = threading.Lock()

    def explain(self, item: str, label: str) -> dict[str, Any]:
        """Return the explanation of a tag, with the similar items in place of their numbers.

        Parameters
        ----------
        item, label : str
            The tag, as it is shown.
        """
        session, project = self._session, self._session.project
        with session.lock:
            tag = session.find(item, label)
            row, column = int(session.row[tag]), int(session.column[tag])
        if project.features is None:
            raise InputError("the project has no features, so nothing can be compared")
        if column >= len(project.labels):
            raise InputError("a person added this tag, so the model has no opinion on it")
        # One question at a time; the first one reads the features.
        with self._lock:
            why = self._reasons.explain(row, column).to_dict()
        with session.lock:
            for name in ("with_tag", "without_tag"):
                why[name] = [
                    {**session.about_row(neighbour["row"]), "similarity": neighbour["similarity"]}
                    for neighbour in why[name]
                ]
        return why

    @cached_property
    def _reasons(self) -> Reasons:
        project = self._session.project
        X = project.features_of_items()
        names = read_archive(project.features).get("feature_names")  # type: ignore[arg-type]
        fits = names is not None and names.shape == (X.shape[1],) and names.dtype.kind == "U"
        removed = ~project.kept[project.listed]
        ranking = replace(project.ranking(), ordered=removed)
        return Reasons(
            X,
            ranking,
            feature_names=np.asarray(names).tolist() if fits else None,
            scaled=project.is_scaled(X),
        )
