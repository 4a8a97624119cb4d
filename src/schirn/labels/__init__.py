"""Readers of labels: 0/1 matrices, lists of names, cells of tags, and votes."""

from schirn.labels.matrix import Labels, as_labels, label_lists

__all__ = ["Labels", "as_labels", "label_lists"]
