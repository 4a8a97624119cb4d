"""PyTorch, or one sentence that says how to get it."""

from schirn._optional import optional

optional("torch", "deep", "schirn.deep")
