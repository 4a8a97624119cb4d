"""Reads labels in every form users have: 0/1 matrices, lists of names, tag cells, votes."""

from schirn.labels.matrix import Labels, as_labels, label_lists

__all__ = ["Labels", "as_labels", "label_lists"]
