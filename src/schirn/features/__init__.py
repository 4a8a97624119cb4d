"""Features of texts, pictures, tables and kernels, and the pipeline from a table to tags."""

from schirn.features.encoders import Encoder
from schirn.features.kernel import KernelFeatures
from schirn.features.pipeline import TagPipeline
from schirn.features.table import TableFeatures
from schirn.features.text import TextFeatures

__all__ = ["Encoder", "KernelFeatures", "TableFeatures", "TagPipeline", "TextFeatures"]
