"""Features of texts, pictures, tables and kernels, and a pipeline from tables to tags."""

from schirn._text_features import TextFeatures
from schirn.features._kernel import KernelFeatures
from schirn.features.encoders import Encoder
from schirn.features.pipeline import TagPipeline, copies_left_out
from schirn.features.table import TableFeatures

__all__ = [
    "Encoder",
    "KernelFeatures",
    "TableFeatures",
    "TagPipeline",
    "TextFeatures",
    "copies_left_out",
]
